package matrix

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
)

// A fault in a lane where nobody holds anything says nothing about locks, so it must not pass.
func TestJudgeFailsKindsThatMeetNoHold(t *testing.T) {
	const began, healed = 100 * time.Millisecond, 200 * time.Millisecond
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	hold := func(lane string, from, to int) history.Hold {
		return history.Hold{Key: lane + "/m", Kind: history.Mutex, Began: ms(from), Ended: ms(to), How: history.Released}
	}
	for name, tc := range map[string]struct {
		holds []history.Hold
		met   int
	}{
		"nobody held anything yet":        {nil, 0},
		"released before it":              {[]history.Hold{hold("lane1", 10, 99)}, 0},
		"taken after it began":            {[]history.Hold{hold("lane1", 101, 150)}, 0},
		"held in another lane":            {[]history.Hold{hold("lane2", 10, 150)}, 0},
		"released during it":              {[]history.Hold{hold("lane1", 10, 150)}, 1},
		"held beyond it, and another one": {[]history.Hold{hold("lane1", 10, 90), hold("lane1", 95, 500)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := Outcome{Injections: []Injection{{Kind: "fault", Lane: "lane1", Began: began, At: began, Healed: healed, Alive: healed}}, Holds: tc.holds}
			if got := o.Lines()[0].Met; got != tc.met {
				t.Errorf("it met %d holds, want %d", got, tc.met)
			}
			const want = "fault that met no hold, and proves nothing: fault"
			if failed := slices.Contains(o.Faults(), want); failed != (tc.met == 0) {
				t.Errorf("faults are %q, want %q among them: %v", o.Faults(), want, tc.met == 0)
			}
		})
	}
}

// One injection that meets a hold is enough for a kind, and is so for that kind alone.
func TestJudgeTellsKindsThatMeetNoHoldApart(t *testing.T) {
	var o Outcome
	for i, kind := range []string{"a", "b", "a", "b"} {
		at := time.Duration(i+1) * time.Second
		o.Injections = append(o.Injections, Injection{Kind: kind, Lane: "lane1", Began: at, At: at, Healed: at, Alive: at})
	}
	o.Holds = []history.Hold{{Key: "lane1/m", Kind: history.Mutex, Began: 2500 * time.Millisecond, Ended: 3500 * time.Millisecond, How: history.Released}}
	want := []string{"fault that met no hold, and proves nothing: b"}
	if got := o.Faults(); !slices.Equal(got, want) {
		t.Errorf("faults are %q, want %q", got, want)
	}
}

// What the log says of a kind answers whether it was judged: each number with its noun, and nothing that was not seen.
func TestWhatWasSeenIsSaidInWords(t *testing.T) {
	nothing := Outcome{Injections: []Injection{{Kind: "fault", Lane: "lane1", Dead: []string{"m"}}}}
	for want, line := range map[string]record.Line{
		"met 0 holds, 0 began since its start, 0 lost, 0 overlaps": nothing.Lines()[0],
		"met 1 hold, 1,200 began since its start, 2 lost, 1 overlap, the next holder came up to 204.3ms before the end of a lost or killed one, " +
			"all short locks had a new holder within 12ms of its end, 2 holds forgotten, which the holders noticed within 300ms": {
			Met: 1, Holds: 1200, Lost: 2, Overlaps: 1, Margin: -204_345_678, Recovery: 12 * time.Millisecond, Forgotten: 2, Noticed: 300 * time.Millisecond,
		},
		"met 2 holds, 3 began since its start, 1 lost, 0 overlaps, the next holder came at least 40ms after the end of a lost or killed one": {
			Met: 2, Holds: 3, Lost: 1, Margin: 40 * time.Millisecond,
		},
	} {
		if got := seen(line); got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}

// A ticket works once, unless Redis has forgotten that it was used.
func TestJudgeFailsTicketsThatWorkTwice(t *testing.T) {
	o := Outcome{Injections: []Injection{{Kind: "fault", Lane: "lane1", Began: 12, At: 12, Healed: 13, Alive: 13}, {Kind: "forgets", Forgets: true, Lane: "lane2", Began: 12, At: 12, Healed: 13, Alive: 13}}}
	for i, lane := range []string{"lane1", "lane1", "lane2", "lane2"} {
		o.Holds = append(o.Holds, history.Hold{
			Key: lane + "/h", Kind: history.Mutex, Worker: "w", ID: i, Began: time.Duration(10 * (i + 1)), Ended: time.Duration(10*i + 15), How: history.Released, Ticket: lane + ".1/7",
		})
	}
	want := []string{"went on by one ticket: lane1/h: by the ticket of lane1.1/7 w/0 went on, and w/1"}
	got := slices.DeleteFunc(o.Faults(), func(fault string) bool { return !strings.HasPrefix(fault, "went on") })
	if !slices.Equal(got, want) {
		t.Errorf("faults are %q, want %q", got, want)
	}
}
