package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/kit/internal/seen"
	"github.com/lockmw/kit/lockmw"
)

// oneKey wants a KEY.
var oneKey = arguments(1, 1, "one KEY")

func lsCommand(f *flags) *cobra.Command {
	var order order
	c := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the locks whose keys begin with PREFIX",
		Long: "List the locks whose keys (Policy.Prefix included) begin with PREFIX, a line each as they are found,\n" +
			"or, with --sort, when all are found.",
		Example: "  lockctl ls order:\n" +
			"  lockctl ls --sort age --older 1m\n" +
			"  lockctl ls -o json | jq 'select(.waiting > 10)'",
		Args:              arguments(0, 1, "one PREFIX or none"),
		ValidArgsFunction: f.complete(held),
		RunE: func(c *cobra.Command, args []string) error {
			if err := order.check(); err != nil {
				return err
			}
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			n, err := list(order.of(locks.List(c.Context(), strings.Join(args, ""))), newTable(c.OutOrStdout(), f.output))
			if err != nil {
				return failed(err)
			}
			which := order.which()
			if n == 0 && len(args) == 0 {
				return ending{statusNothing, "there are no locks" + which + f.target.where()}
			}
			if n == 0 {
				return ending{statusNothing, "there are no locks" + which + " whose keys begin with " + args[0] + f.target.where()}
			}
			return nil
		},
	}
	order.add(c)
	return c
}

// The lists of keys that a shell is offered.
var (
	held      = (*lockmw.Locker).List
	uncertain = (*lockmw.Locker).ListUncertain
)

func uncertainCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "uncertain [PREFIX]",
		Short: "List the work of which nobody knows whether it was done",
		Long: "List the work of which nobody knows whether it was done, and whose keys (Policy.Prefix included)\n" +
			"begin with PREFIX: it was begun by lockmw.Do with Uncertain or a middleware called Idempotent, and its\n" +
			"process died or lost track of it. Nobody has its lock. It waits for somebody who finds out what was\n" +
			"done, and says so with 'lockctl resolve KEY ID'. Unresolved, it is forgotten, after 7 days unless\n" +
			"UncertainFor says otherwise, and the next call does it.",
		Example: "  lockctl uncertain pay:\n" +
			"  lockctl uncertain -o json | jq -r .answer.since",
		Args:              arguments(0, 1, "one PREFIX or none"),
		ValidArgsFunction: f.complete(uncertain),
		RunE: func(c *cobra.Command, args []string) error {
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			n, err := list(locks.ListUncertain(c.Context(), strings.Join(args, "")), newWorks(c.OutOrStdout(), f.output))
			if err != nil {
				return failed(err)
			}
			if n == 0 && len(args) == 0 {
				return ending{statusNothing, "no work is uncertain" + f.target.where()}
			}
			if n == 0 {
				return ending{statusNothing, "no work is uncertain whose key begins with " + args[0] + f.target.where()}
			}
			return nil
		},
	}
}

// list writes what is found as it comes, and returns how much that was.
func list(found iter.Seq2[lockmw.Info, error], out writer) (n int, err error) {
	for info, err := range found {
		if err != nil {
			return n, err
		}
		n++
		if err := out.write(info); err != nil {
			return n, err
		}
	}
	return n, nil
}

func showCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "show KEY",
		Short: "Show who holds a lock, and who waits",
		Long: "Show who holds a lock, and who waits for it: for how long, for what, in which process and with which\n" +
			"note. These are the first 20 places of the queue in Redis, in their order. Those of one process who\n" +
			"wait for a mutex have one place there, that of the first; \"and … more\" counts the others. A call that\n" +
			"has just come may have none for up to a second.",
		Args: oneKey, ValidArgsFunction: f.complete(held),
		RunE: func(c *cobra.Command, args []string) error {
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			info, err := locks.Inspect(c.Context(), args[0])
			if err != nil {
				return failed(err)
			}
			if err := newPage(c.OutOrStdout(), f.output).write(info); err != nil {
				return failed(err)
			}
			if len(info.Holders) == 0 && info.Waiting == 0 && info.Answer == nil {
				return ending{status: statusNothing}
			}
			return nil
		},
	}
}

func watchCommand(f *flags) *cobra.Command {
	every := time.Second
	c := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "List the locks again and again, until it is interrupted",
		Args:  arguments(0, 1, "one PREFIX or none"), ValidArgsFunction: f.complete(held),
		RunE: func(c *cobra.Command, args []string) error {
			if every < 100*time.Millisecond {
				return misused("--every is %v; at least 100ms is needed", every)
			}
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			return watch(c.Context(), locks, strings.Join(args, ""), f.output, every, c.OutOrStdout())
		},
	}
	c.Flags().DurationVar(&every, "every", every, "how often")
	return c
}

// watch lists the locks until ctx ends. On a terminal each list takes the place of the one
// before.
func watch(ctx context.Context, locks *lockmw.Locker, prefix, output string, every time.Duration, w io.Writer) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var page strings.Builder
		n, err := list(locks.List(ctx, prefix), newTable(&page, output))
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && output == "text":
			fmt.Fprintf(&page, "lockctl: %s\n", printable(said(err))) // and again: it may be a restart
		case err != nil:
			return failed(err)
		case n == 0 && output == "text":
			page.WriteString("no locks\n")
		}
		if output == "text" {
			head := time.Now().Format(time.TimeOnly) + "\n"
			if isTerminal(w) {
				head = "\x1b[H\x1b[2J" + head
			}
			if _, err := io.WriteString(w, head); err != nil {
				return failed(err)
			}
		}
		if _, err := io.WriteString(w, page.String()); err != nil {
			return failed(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func releaseCommand(f *flags) *cobra.Command {
	var yes bool
	var by operator
	c := &cobra.Command{
		Use:   "release KEY",
		Short: "Take a lock from those who hold it",
		Long: "Take a lock from those who hold it, and give it to the next waiters. The holders work on\n" +
			"until they learn that the lock is lost, at once or with their next renewal: meanwhile two\n" +
			"may be at work. Only resources that check fences refuse what the former holder writes.\n\n" +
			"The holders are told who has released and why, if their processes hear messages: it is in\n" +
			"their logs, in the event and in the cause with which the work's context ends.",
		Example: "  lockctl release export:7 --reason INC-42",
		Args:    oneKey, ValidArgsFunction: f.complete(held),
		RunE: func(c *cobra.Command, args []string) error {
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			info, err := locks.Inspect(c.Context(), args[0])
			asked := time.Now()
			if err != nil {
				return failed(err)
			}
			if len(info.Holders) == 0 {
				return ending{statusNothing, fmt.Sprintf("nobody holds %s%s", quoted(args[0]), f.target.where())}
			}
			if !yes {
				if err := confirm(c, info); err != nil {
					return err
				}
				if err := stillHeld(c.Context(), locks, info, asked); err != nil {
					return err
				}
			}
			if err := locks.ForceReleaseAs(c.Context(), args[0], by.intervention()); err != nil {
				return failed(err)
			}
			if f.output == "json" {
				return newEncoder(c.OutOrStdout()).Encode(map[string]string{"released": args[0]})
			}
			fmt.Fprintf(c.OutOrStdout(), "released %s\n", quoted(args[0]))
			return nil
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	by.add(c)
	return c
}

// resolutions are what resolve can be told.
var resolutions = map[string]lockmw.Resolution{"again": lockmw.Again, "discard": lockmw.Discard}

func resolveCommand(f *flags) *cobra.Command {
	var by operator
	c := &cobra.Command{
		Use:   "resolve KEY ID again|discard|done [ANSWER]",
		Short: "Say what became of work of which nobody knows",
		Long: "Say what became of work that was begun under a key, by lockmw.Do with Uncertain or a\n" +
			"middleware called Idempotent, and whose process died or lost track of it. KEY and ID are in\n" +
			"the log, and 'lockctl uncertain' lists them. First find out what was done.\n\n" +
			"  again    it was not done: the next call does it\n" +
			"  discard  nobody is to do it any more, and there is no answer to give\n" +
			"  done     it was done, and ANSWER, which is JSON, is given to whoever asks; not for a\n" +
			"           route, whose answer is a whole response\n\n" +
			"Nothing is resolved while somebody has the lock.",
		Args:              arguments(3, 4, "KEY ID again|discard|done [ANSWER]"),
		ValidArgsFunction: f.complete(uncertain),
		RunE: func(c *cobra.Command, args []string) error {
			resolution, known := resolutions[args[2]]
			switch {
			case args[2] == "done" && len(args) < 4:
				return misused("done takes the ANSWER, as JSON")
			case args[2] == "done" && !json.Valid([]byte(args[3])):
				return misused("the ANSWER is not JSON")
			case args[2] == "done":
				resolution = lockmw.Done(json.RawMessage(args[3]))
			case !known:
				return misused("%q is none of again, discard and done", args[2])
			case len(args) > 3:
				return misused("%s takes no ANSWER", args[2])
			}
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			switch err := locks.ResolveAs(c.Context(), args[0], args[1], resolution, by.intervention()); {
			case errors.Is(err, lockmw.ErrNotUncertain):
				return ending{statusNothing, fmt.Sprintf("no work %s of %s is uncertain%s", args[1], quoted(args[0]), f.target.where())}
			case errors.Is(err, lockmw.ErrNotAcquired):
				return ending{statusError, fmt.Sprintf("somebody has %s, and may be at work: nothing was resolved", quoted(args[0]))}
			case err != nil:
				return failed(err)
			}
			if f.output == "json" {
				return newEncoder(c.OutOrStdout()).Encode(map[string]string{"resolved": args[0], "work": args[1], "as": args[2]})
			}
			fmt.Fprintf(c.OutOrStdout(), "resolved %s as %s\n", quoted(args[0]), resolution)
			return nil
		},
	}
	by.add(c)
	return c
}

// stillHeld returns nil if a lock is in the hands of those who were shown. They were asked for at a time, and somebody may have thought long.
func stillHeld(ctx context.Context, locks *lockmw.Locker, was lockmw.Info, asked time.Time) error {
	now, err := locks.Inspect(ctx, was.Key)
	switch {
	case err != nil:
		return failed(err)
	case len(now.Holders) == 0:
		return ending{statusNothing, fmt.Sprintf("nobody holds %s any more", quoted(was.Key))}
	case !seen.Same(asSeen(now, time.Now()), asSeen(was, asked)):
		return ending{statusUnconfirmed, fmt.Sprintf("not released: others hold %s by now; look again", quoted(was.Key))}
	}
	return nil
}

// asSeen are the holders as package seen compares them, who were asked for at a time.
func asSeen(info lockmw.Info, asked time.Time) []seen.Hold {
	var all []seen.Hold
	for _, h := range info.Holders {
		of := seen.Hold{Instance: h.Instance, Note: h.Note}
		if h.Age > 0 {
			of.Since = asked.Add(-h.Age)
		}
		all = append(all, of)
	}
	return all
}

// confirm shows who has a lock, and asks whether to release it. It returns nil after a yes.
func confirm(c *cobra.Command, info lockmw.Info) error {
	info.Waiters = nil // the question is about the holders
	var b strings.Builder
	if err := newPage(&b, "text").write(info); err != nil {
		return failed(err)
	}
	warning := "Its holders work on until they learn of it."
	if len(info.Holders) == 1 && info.Holders[0].HandedOn {
		warning = "Nobody is at work at the moment; whoever comes with the ticket will be told that it is spent."
	}
	if info.CoolingDown {
		warning = "Its work is over; once it is released, the same may be done again at once."
	}
	return question{b.String() + warning + " Release it?", "not released", "releases"}.ask(c)
}

// A question is asked before something is done that a slip of the hand must not do.
type question struct {
	text    string
	notDone string // what is said after any other answer than yes
	does    string // what --yes does without asking
}

// ask returns nil after a yes.
func (q question) ask(c *cobra.Command) error {
	if file, ok := c.InOrStdin().(*os.File); ok && !isDevice(file) {
		return ending{statusUnconfirmed, q.notDone + ": there is no terminal to ask at; --yes " + q.does + " without asking"}
	}
	if _, err := fmt.Fprint(c.ErrOrStderr(), q.text+" [y/N] "); err != nil {
		return failed(err)
	}
	type answer struct {
		text string
		err  error
	}
	answers := make(chan answer, 1) // whoever interrupts leaves the answer to nobody
	go func() {
		text, err := bufio.NewReader(c.InOrStdin()).ReadString('\n')
		answers <- answer{text, err}
	}()
	select {
	case <-c.Context().Done():
		fmt.Fprintln(c.ErrOrStderr())
		return failed(c.Context().Err())
	case a := <-answers:
		said := strings.ToLower(strings.TrimSpace(a.text))
		if a.err != nil {
			fmt.Fprintln(c.ErrOrStderr())
		}
		switch {
		case said == "y", said == "yes":
			return nil
		case errors.Is(a.err, io.EOF) && said == "":
			return ending{statusUnconfirmed, q.notDone + ": nobody has answered; --yes " + q.does + " without asking"}
		case a.err != nil && !errors.Is(a.err, io.EOF):
			return failed(a.err)
		}
		return ending{statusUnconfirmed, q.notDone}
	}
}
