package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

func doctorCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Tell whether locks can work in this Redis, and what to do",
		Long: "Tell whether locks can work in this Redis, and what to do: whether the server is there, new\n" +
			"enough, one server and no replica, what the user may not run, what a proxy keeps from it,\n" +
			"and whether the server may evict locks. Where answers of lockmw.Do or Idempotent are kept, it tells\n" +
			"how many (it looks for two seconds at most), whether they survive a restart of the server, and\n" +
			"whether there is room for more. A line is ok, advice (locks work, and something\n" +
			"should be mended; status 3) or error (status 1: no lock can be had, a master of a Cluster does not answer,\n" +
			"several servers answer at this address, or the user may not run PING). Whether the user may run\n" +
			"WAIT is left to Ping of a service that has WithReplicaAcks: nothing else needs it.",
		Args:              arguments(0, 0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			locks, end, err := f.open()
			if err != nil {
				return err
			}
			defer end()
			return diagnose(c.Context(), locks, f.output, c.OutOrStdout())
		},
	}
}

// A finding is one line of doctor's.
type finding struct {
	Severity string `json:"severity"` // ok, advice or error
	Text     string `json:"text"`
}

// The severities, and how they are coloured.
const (
	severityOK     = "ok"
	severityAdvice = "advice"
	severityError  = "error"
)

var colours = map[string]string{severityOK: "32", severityAdvice: "33", severityError: "31"}

// findings are what Ping says, and the advice that it does not tell.
func findings(advice []error, err error) []finding {
	switch {
	case err != nil:
		return []finding{{severityError, said(err)}}
	case len(advice) == 0:
		return []finding{{severityOK, "locks work in this Redis"}}
	}
	var found []finding
	for _, one := range advice {
		found = append(found, finding{severityAdvice, said(one)})
	}
	return found
}

// diagnose writes what is found.
func diagnose(ctx context.Context, locks *lockmw.Locker, output string, w io.Writer) error {
	advice, err := seam.Advice(ctx, locks)
	found := findings(advice, err)
	if err == nil {
		facts, advice := seam.AnswersAdvice(ctx, locks)
		for _, fact := range facts {
			found = append(found, finding{severityOK, fact})
		}
		for _, one := range advice {
			found = append(found, finding{severityAdvice, said(one)})
		}
	}
	if ctx.Err() != nil {
		return failed(ctx.Err())
	}
	ends := map[string]error{severityOK: nil, severityAdvice: ending{status: statusNothing}, severityError: ending{status: statusError}}
	var end error
	for _, f := range found {
		if worse := ends[f.Severity]; worse != nil {
			end = worse
		}
		if output == "json" {
			if err := newEncoder(w).Encode(f); err != nil {
				return failed(err)
			}
			continue
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", coloured(w, colours[f.Severity], fmt.Sprintf("%-6s", f.Severity)), printable(f.Text)); err != nil {
			return failed(err)
		}
	}
	return end
}
