package matrix

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
)

// Check 32 of REPORT.md: whatever is struck while a lock is handed on, one at most goes on by the ticket, no two hold the lock, nobody has it while it is
// a ticket's, and each job that the queue does not lose is done in the end, also if a worker is killed that was to do it.
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
	taken, certain := history.TakenFromTickets(kept, o.Uses), history.Kept(kept, o.Uses)
	verdict := history.Check(kept, o.Writes, 5*time.Minute)
	wantWent := whole(record.Pick(100, 10_000))
	wantAfterCrash := whole(record.Pick(1, 100))                                                                    // a short run kills six workers, with seven to thirty jobs in their hands
	if !slices.ContainsFunc(o.Injections, func(in Injection) bool { return strings.Contains(in.Kind, "killed") }) { // not chosen
		wantAfterCrash = 0
	}
	record.Add(t, record.Row{
		Check: 32, Name: "locks handed on among four processes",
		Goal: fmt.Sprintf("≥ %s went on by a ticket, none by one that was used; while Redis keeps its word 0 overlaps, and nobody has a lock that is a ticket's; "+
			"each job that is not lost is done, ≥ %d of them when their worker was killed", record.Thousands(wantWent), wantAfterCrash),
		Figure: fmt.Sprintf("%s × ≥ %d, %s, and %s that take locks away, %s; jobs: %v, %d never; %s went on by the ticket, %d by one that was used; "+
			"%s, %d of %s locks taken from their tickets; %s, %d illegal, %d unknown",
			record.Plural(kinds, "kind"), least, record.Plural(injections, "injection"), record.Plural(forgetting, "kind"), record.Plural(more, "injection"),
			o.Jobs, len(o.Undone), record.Thousands(went), len(twice), record.Plural(overlaps, "overlap"), len(taken), record.Thousands(certain),
			record.Plural(verdict.Total(), "operation"), len(verdict.Illegal), len(verdict.Unknown)),
		Met: went >= wantWent && certain > 0 && o.Jobs.AfterCrash >= wantAfterCrash &&
			len(twice)+overlaps+len(taken)+len(o.Undone)+len(verdict.Illegal)+len(verdict.Unknown) == 0,
		Note: fmt.Sprintf("seed %d %v %v", s, twice, verdict.Illegal),
	})
}
