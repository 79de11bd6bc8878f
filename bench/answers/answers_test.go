package answers

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// Each way is measured, and each goal is judged.
func TestRun(t *testing.T) {
	s := Quick()
	s.Callers = []int{2}
	var said int
	var page bytes.Buffer
	if err := Run(t.Context(), s, &page, func(string) { said++ }); err != nil {
		t.Fatal(err)
	}
	t.Log(page.String())
	if ways := 2*len(firsts()) + len(replays()); said != ways {
		t.Errorf("%d ways were measured, want %d", said, ways)
	}
	if n := strings.Count(page.String(), ": the goal "); n != 3 {
		t.Errorf("%d goals were judged, want 3", n)
	}
	if bad := regexp.MustCompile(`NaN|Inf|-\d|  0  `).FindString(page.String()); bad != "" {
		t.Errorf("the page has %q", bad)
	}
}

// The ratios are those of the same round, of the times where a turn's time is asked for, and the goal is judged by their median.
func TestRatios(t *testing.T) {
	atMost := func(ratio float64) bool { return ratio <= firstGoal }
	for _, tc := range []struct {
		inTurns bool
		want    []string
	}{
		{false, []string{"       200   1.00 (1.00 to 1.00)", "       400   2.00 (1.00 to 4.00): the goal low is missed"}},
		{true, []string{"      5000   1.00 (1.00 to 1.00)", "      2500   0.50 (0.25 to 1.00): the goal low is met"}},
	} {
		c := comparison{title: "a title", ways: []way{{name: "first"}, {name: "second"}}, inTurns: tc.inTurns, goal: atMost, goalIs: "low", judged: "second"}
		var page bytes.Buffer
		c.print(&page, [][]float64{{5000, 2500, 10000}, {2500, 2500, 2500}}, time.Millisecond)
		for _, want := range tc.want {
			if !strings.Contains(page.String(), want) {
				t.Errorf("%s\nlacks %q", &page, want)
			}
		}
	}
}
