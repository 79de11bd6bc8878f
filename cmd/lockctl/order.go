package main

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockmw/kit/lockmw"
)

// An order says which of the locks ls lists, and in which order.
type order struct {
	by    string        // age or waiting; empty: as they are found
	older time.Duration // held for so long at least; 0: all
}

// add adds its flags.
func (o *order) add(c *cobra.Command) {
	c.Flags().StringVar(&o.by, "sort", "", "age: those first that were held longest; waiting: those that most wait for")
	c.Flags().DurationVar(&o.older, "older", 0, "only those that somebody has held for so long, such as 1m")
	_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions([]string{"age", "waiting"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

func (o *order) check() error {
	switch {
	case o.by != "" && o.by != "age" && o.by != "waiting":
		return misused("--sort is age or waiting, not %q", o.by)
	case o.older < 0:
		return misused("--older is %v; it cannot be negative", o.older)
	}
	return nil
}

// which says in words which locks are not listed.
func (o *order) which() string {
	if o.older == 0 {
		return ""
	}
	return " held for " + short(o.older)
}

// of yields the locks that are wanted. To sort them it gathers all; what was found before an error comes before that.
func (o *order) of(found iter.Seq2[lockmw.Info, error]) iter.Seq2[lockmw.Info, error] {
	return func(yield func(lockmw.Info, error) bool) {
		var all []lockmw.Info
		var failed error
		for info, err := range found {
			switch {
			case err != nil:
				failed = err
			case heldFor(info) < o.older:
			case o.by != "":
				all = append(all, info)
			case !yield(info, nil):
				return
			}
		}
		slices.SortFunc(all, func(a, b lockmw.Info) int {
			if o.by == "waiting" {
				return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Key, b.Key))
			}
			return cmp.Or(cmp.Compare(heldFor(b), heldFor(a)), cmp.Compare(a.Key, b.Key))
		})
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
		if failed != nil {
			yield(lockmw.Info{}, failed)
		}
	}
}

// heldFor is how long the one has a lock who has had it longest and is at work; 0: nobody is, or it is not known.
func heldFor(i lockmw.Info) (longest time.Duration) {
	for _, h := range i.Holders {
		if !h.CoolingDown && !h.HandedOn {
			longest = max(longest, h.Age)
		}
	}
	return longest
}
