package matrix

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/proof/history"
)

// A fault in a lane where nobody holds anything says nothing about locks, so it must not pass.
func TestJudgeFailsKindsThatMeetNoHold(t *testing.T) {
	const began, healed = 100 * time.Millisecond, 200 * time.Millisecond
	hold := func(lane string, from, to time.Duration) history.Hold {
		return history.Hold{Key: lane + "/m", Kind: history.Mutex, Began: from * time.Millisecond, Ended: to * time.Millisecond, How: history.Released}
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
