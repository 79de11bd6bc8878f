package main

import (
	"context"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/kit/lockmw"
)

// flags are those that all commands have.
type flags struct {
	target target
	output string // text or json
}

// add adds them to the command of which all others are.
func (f *flags) add(root *cobra.Command) {
	all, t := root.PersistentFlags(), &f.target
	all.StringVar(&t.url, "redis", "", "`URL` of the Redis; the default is REDIS_URL, or redis://localhost:6379/0")
	all.StringVar(&t.namespace, "namespace", "lock", "what the Redis keys of locks begin with, as given to lockmw.WithNamespace")
	all.BoolVar(&t.cluster, "cluster", false, "the Redis is a node of a Cluster")
	all.StringVar(&t.sentinel, "sentinel", "", "the Redis is a Sentinel, and watches the master of this `NAME`")
	all.StringVar(&t.tls.authority, "tls-ca", "", "the certificate of the authority that has signed the server's is in this `FILE`; the default is the system's authorities")
	all.StringVar(&t.tls.cert, "tls-cert", "", "the certificate that the server wants to see is in this `FILE`")
	all.StringVar(&t.tls.key, "tls-key", "", "the key of that certificate is in this `FILE`")
	all.StringVar(&t.tls.name, "tls-name", "", "the server's certificate is for this `NAME`; the default is the host of the URL, and with --sentinel each server's own")
	all.StringVarP(&f.output, "output", "o", "text", "text, or json: a document per line")
	for flag, values := range map[string][]string{"output": {"text", "json"}, "redis": nil, "namespace": nil, "sentinel": nil, "tls-name": nil} {
		_ = root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flags are there
	}
}

// open checks the flags, and returns a Locker for the target and a function that closes it.
func (f *flags) open() (*lockmw.Locker, func(), error) {
	if f.output != "text" && f.output != "json" {
		return nil, nil, misused("--output is text or json, not %q", f.output)
	}
	return f.target.open()
}

// mostCompleted is how many keys a shell is offered.
const mostCompleted = 100

// complete offers a shell the keys of a list that begin with what has been typed, as the first argument, but for those that are
// not plain: of several keys bash puts the common beginning into the line as it is, and its
// next completion runs what stands there.
func (f *flags) complete(list func(*lockmw.Locker, context.Context, string) iter.Seq2[lockmw.Info, error]) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) (keys []cobra.Completion, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		f.offer(c, func(ctx context.Context, locks *lockmw.Locker) {
			for info, err := range list(locks, ctx, typed) {
				if err != nil || len(keys) == mostCompleted {
					break
				}
				if plain(info.Key) {
					keys = append(keys, info.Key)
				}
			}
		})
		return keys, cobra.ShellCompDirectiveNoFileComp
	}
}

// offer has find look for what a shell is offered, which is nothing where Redis cannot be asked, or takes longer than a second.
func (f *flags) offer(c *cobra.Command, find func(ctx context.Context, locks *lockmw.Locker)) {
	locks, end, err := f.open()
	if err != nil {
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	find(ctx, locks)
}
