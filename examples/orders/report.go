package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// A result is what one run of the clients came to.
type result struct {
	name    string
	want    int // payments that were made
	count   int // payments that the ledger knows of
	refused int // answered 409 or 503
	failed  int // answered with another error
	failure error
	took    time.Duration
	waits   []time.Duration // of each request for its answer
}

// exact reports whether every payment was made and counted once.
func (r result) exact() bool { return r.count == r.want && r.refused == 0 && r.failed == 0 }

// shortfall is the error of a run that is not exact.
func (r result) shortfall() error {
	return fmt.Errorf("%s, the ledger counts %d of %d payments; %d were refused and %d failed",
		r.name, r.count, r.want, r.refused, r.failed)
}

// table prints the results below each other.
func table(w io.Writer, results []result) {
	width := 0
	for _, r := range results {
		width = max(width, len(strconv.Itoa(r.want)))
	}
	fmt.Fprintf(w, "\n%-13s  %*s  %8s  %8s  %8s  %7s\n", "", 2*width+4, "counted", "req/s", "wait p50", "wait p99", "refused")
	for _, r := range results {
		slices.Sort(r.waits)
		fmt.Fprintf(w, "%-13s  %*d of %d  %8.0f  %8s  %8s  %7d\n", r.name, width, r.count, r.want,
			float64(r.want)/r.took.Seconds(), round(quantile(r.waits, 0.50)), round(quantile(r.waits, 0.99)), r.refused)
	}
	fmt.Fprint(w, "\nThe waits are the times from a request to its answer.\n")
	for _, r := range results {
		if r.failed > 0 {
			fmt.Fprintf(w, "%s, %d requests failed; the first: %v\n", r.name, r.failed, r.failure)
		}
	}
}

// quantile returns the value that q of the sorted values do not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// round leaves about three digits.
func round(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
