package matrix

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
)

// Check 32 of REPORT.md: whatever is struck while a lock is handed on, one at most goes on by the ticket, and no two hold the lock.
func TestTicketsPassAmongProcesses(test *testing.T) {
	t := reasonsLast(test)
	s := record.Seed(t)
	o := run(t, record.Pick(2, 4), times(t, 25), s, chosen(slices.Concat(handOn(), handOnForgetful())))
	lines := o.Lines()
	report(t, &o, lines)
	record.Save(t, "matrix-tickets", lines)

	kinds, injections, overlaps, least := record.Count(lines, false)
	forgetting, more, _, _ := record.Count(lines, true)
	forgot := o.forgetful()
	kept, _ := o.part(func(lane string) bool { return !forgot[lane] })
	twice, went := history.ResumedTwice(o.Holds), history.Resumed(o.Holds)
	verdict := history.Check(kept, o.Writes, 5*time.Minute)
	wantWent := whole(record.Pick(100, 10_000))
	record.Add(t, record.Row{
		Check: 32, Name: "locks handed on among four processes",
		Goal: fmt.Sprintf("≥ %s went on by a ticket, none by one that was used, 0 overlaps while Redis keeps its word", record.Thousands(wantWent)),
		Figure: fmt.Sprintf("%s × ≥ %d, %s, and %s that take locks away, %s; jobs: %v; %s went on by the ticket, %d by one that was used; %s; %s, %d illegal, %d unknown",
			record.Plural(kinds, "kind"), least, record.Plural(injections, "injection"), record.Plural(forgetting, "kind"), record.Plural(more, "injection"),
			o.Jobs, record.Thousands(went), len(twice), record.Plural(overlaps, "overlap"),
			record.Plural(verdict.Total(), "operation"), len(verdict.Illegal), len(verdict.Unknown)),
		Met:  went >= wantWent && len(twice)+overlaps+len(verdict.Illegal)+len(verdict.Unknown) == 0,
		Note: fmt.Sprintf("seed %d %v %v", s, twice, verdict.Illegal),
	})
}
