package matrix

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
)

// Check 33 of REPORT.md: whatever is struck while work is done for all who ask for it, there is one answer for a key, nobody has that to another request, each
// who asks hears it in the end or why there is none, no two are at work at a time, and with Uncertain the work is done once at most, unless somebody
// says that it was not done.
func TestAnAnswerIsOneForAll(test *testing.T) {
	t := reasonsLast(test)
	s := record.Seed(t)
	o := run(t, record.Pick(4, 6), times(t, 20), s, chosen(forAll()))
	lines := o.Lines()
	report(t, &o, lines)
	record.Save(t, "matrix-answers", lines)

	kinds, injections, overlaps, least := record.Count(lines, false)
	wrong, came := history.WrongAnswers(o.Holds, o.Answers, o.calm), o.Answers.Count()
	wantAnswered, wantTold := whole(record.Pick(300, 50_000)), record.Pick(1, 1000)
	if os.Getenv(kindsEnv) != "" { // it may be that nobody was killed, or that all ask by RunAgain
		wantTold = 0
	}
	record.Add(t, record.Row{
		Check: 33, Name: "one answer for all, over three processes",
		Goal: fmt.Sprintf("≥ %s answered, and ≥ %s each told that nobody knows, and that the key is another request's; with Uncertain no work done twice, "+
			"with RunAgain never two at it; one answer a key, nobody has another's; all who ask hear something", record.Thousands(wantAnswered), record.Thousands(wantTold)),
		Figure: fmt.Sprintf("%s × ≥ %d, %s; %s asked for: %s; %s, %d other things that must not be, %d who heard nothing; work begun %s times; jobs: %v",
			record.Plural(kinds, "kind"), least, record.Plural(injections, "injection"), record.Plural(o.Answers.Keys(), "key"), record.Counts(came),
			record.Plural(overlaps, "overlap"), len(wrong), len(o.Undone), record.Thousands(len(o.Holds)), o.Jobs),
		Met: came[history.Answered] >= wantAnswered && min(came[history.Uncertain], came[history.OtherRequest]) >= wantTold &&
			overlaps+len(wrong)+len(o.Undone) == 0,
		Note: fmt.Sprintf("seed %d", s),
	})
}

// What other lists have is found there by its name.
func TestKindsOfOtherListsAreThere(t *testing.T) {
	kinds := forAll()
	for _, name := range alsoForAll {
		for _, needs := range []string{answersUncertain, answersAgain} {
			if !slices.ContainsFunc(kinds, func(k Kind) bool { return k.Name == needs+": "+name && k.Needs == needs }) {
				t.Errorf("there is no %q for %s", name, needs)
			}
		}
	}
	if notes := slices.ContainsFunc(kinds, func(k Kind) bool { return k.Needs == answersAgain && strings.Contains(k.Name, "is noted") }); notes {
		t.Error("with RunAgain no work is noted, so nobody can be killed as it is")
	}
}
