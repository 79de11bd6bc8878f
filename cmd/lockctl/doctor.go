package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lockmw/kit/lockmw"
)

func doctorCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Tell whether locks can work in this Redis, and what to do",
		Long: "Tell whether locks can work in this Redis, and what to do: whether the server is there, new\n" +
			"enough, one server and no replica, what the user may not run, what a proxy keeps from it,\n" +
			"whether the server may evict locks, and whether its clock, or that of one of a Cluster's masters,\n" +
			"is wrong. Where answers of lockmw.Do or Idempotent are kept, it tells\n" +
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

// A line is one of doctor's.
type line struct {
	Severity lockmw.Severity `json:"severity"`
	Text     string          `json:"text"`
}

// How the severities are coloured, and how lockctl ends with the worst of them.
var (
	colours = map[lockmw.Severity]string{lockmw.SeverityOK: "32", lockmw.SeverityAdvice: "33", lockmw.SeverityError: "31"}
	ends    = map[lockmw.Severity]error{
		lockmw.SeverityOK: nil, lockmw.SeverityAdvice: ending{status: statusNothing}, lockmw.SeverityError: ending{status: statusError},
	}
)

// diagnose writes what is found.
func diagnose(ctx context.Context, locks *lockmw.Locker, output string, w io.Writer) error {
	report, err := locks.Doctor(ctx)
	if err != nil {
		return failed(err)
	}
	for _, f := range report {
		l := line{f.Severity, f.What}
		if f.Err != nil {
			l.Text = said(f.Err)
		}
		if output == "json" {
			if err := newEncoder(w).Encode(l); err != nil {
				return failed(err)
			}
			continue
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", coloured(w, colours[l.Severity], fmt.Sprintf("%-6s", l.Severity)), printable(l.Text)); err != nil {
			return failed(err)
		}
	}
	return ends[report.Worst()]
}
