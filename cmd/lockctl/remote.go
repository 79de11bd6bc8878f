package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/lockmw/kit/lockmw"
)

// A remote is the Redis that the flags name.
type remote struct {
	url       string
	namespace string
	cluster   bool
	sentinel  string
	output    string
}

func (r *remote) flags(c *cobra.Command) {
	f := c.PersistentFlags()
	f.StringVar(&r.url, "redis", "", "`URL` of the Redis; the default is REDIS_URL, or redis://localhost:6379/0")
	f.StringVar(&r.namespace, "namespace", "lock", "what the Redis keys of locks begin with, as given to lockmw.WithNamespace")
	f.BoolVar(&r.cluster, "cluster", false, "the Redis is a node of a Cluster")
	f.StringVar(&r.sentinel, "sentinel", "", "the Redis is a Sentinel, and watches the master of this `NAME`")
	f.StringVarP(&r.output, "output", "o", "text", "text, or json: a document per line")
	for flag, values := range map[string][]string{"output": {"text", "json"}, "redis": nil, "namespace": nil, "sentinel": nil} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flags are there
	}
}

// mostCompleted is how many keys a shell is offered.
const mostCompleted = 100

// complete offers a shell the keys that begin with what has been typed.
func (r *remote) complete(c *cobra.Command, args []string, typed string) (keys []cobra.Completion, _ cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	locks, end, err := r.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer end()
	ctx, cancel := context.WithTimeout(c.Context(), time.Second)
	defer cancel()
	for info, err := range locks.List(ctx, typed) {
		if err != nil || len(keys) == mostCompleted {
			break
		}
		if completes(info.Key) {
			keys = append(keys, info.Key)
		}
	}
	return keys, cobra.ShellCompDirectiveNoFileComp
}

// completes reports whether a key can be offered to a shell: a person sees all of it, and
// neither lockctl takes it for a flag nor cobra for a text to be shown.
func completes(key string) bool {
	return printable(key) == key && !strings.HasPrefix(key, "-") && !strings.HasPrefix(key, "_activeHelp_ ")
}

// open returns a Locker, which must be closed, and a function that closes it.
func (r *remote) open() (*lockmw.Locker, func(), error) {
	if r.output != "text" && r.output != "json" {
		return nil, nil, misused("--output is text or json, not %q", r.output)
	}
	client, err := r.client()
	if err != nil {
		return nil, nil, misused("%v", err)
	}
	locks, err := lockmw.New(client, lockmw.WithInstance("lockctl"), lockmw.WithNamespace(r.namespace))
	if err != nil {
		_ = client.Close()
		return nil, nil, misused("%s", said(err))
	}
	return locks, func() {
		_ = locks.Close(ended()) // it holds nothing
		_ = client.Close()
	}, nil
}

// client returns a client for the Redis. The error names no password.
func (r *remote) client() (redis.UniversalClient, error) {
	text := r.url
	if text == "" {
		text = os.Getenv("REDIS_URL")
	}
	if text == "" {
		text = "redis://localhost:6379/0"
	}
	if r.cluster {
		if r.sentinel != "" {
			return nil, errors.New("--cluster and --sentinel exclude each other")
		}
		o, err := redis.ParseClusterURL(text)
		if err != nil {
			return nil, errors.New("the URL of the Redis is wrong: it is redis://user:password@host:port")
		}
		o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
		return redis.NewClusterClient(o), nil
	}
	if r.sentinel != "" {
		return watched(text, r.sentinel)
	}
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, errors.New("the URL of the Redis is wrong: it is redis://user:password@host:port/database")
	}
	return redis.NewClient(o), nil
}

// watched returns a client for the master that Sentinels know by a name. What a URL has no
// place for is among its parameters: who one is to the Sentinels, and where others are.
func watched(text, name string) (redis.UniversalClient, error) {
	wrong := errors.New("the URL of the Sentinel is wrong: it is redis://user:password@host:port/database?sentinel_username=…&sentinel_password=…&addr=other:port")
	u, err := url.Parse(text)
	if err != nil {
		return nil, wrong
	}
	q := u.Query()
	o := &redis.FailoverOptions{
		MasterName:       name,
		SentinelUsername: q.Get("sentinel_username"), SentinelPassword: q.Get("sentinel_password"), SentinelAddrs: q["addr"],
	}
	for _, parameter := range []string{"sentinel_username", "sentinel_password", "addr"} {
		q.Del(parameter)
	}
	u.RawQuery = q.Encode()
	server, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, wrong
	}
	o.SentinelAddrs = append([]string{server.Addr}, o.SentinelAddrs...)
	o.Username, o.Password, o.DB = server.Username, server.Password, server.DB
	if server.TLSConfig != nil {
		o.TLSConfig = server.TLSConfig.Clone()
		o.TLSConfig.ServerName = "" // each server's own
	}
	return redis.NewFailoverClient(o), nil
}
