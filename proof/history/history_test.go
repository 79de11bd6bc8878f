package history

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// held returns a hold that was asked for one millisecond before it began, and
// freed one after it ended.
func held(id int, kind Kind, from, to time.Duration, change ...func(*Hold)) Hold {
	h := Hold{Key: "k", Kind: kind, Worker: "w", ID: id, Asked: from - ms, Began: from, Ended: to, Freed: to + ms, How: Released, Permits: 2, Fence: int64(id)}
	for _, f := range change {
		f(&h)
	}
	return h
}

func shared(h *Hold) { h.Shared = true }

func TestHistories(t *testing.T) {
	for name, tc := range map[string]struct {
		holds    []Hold
		overlaps int
	}{
		"one after the other":                  {[]Hold{held(1, Mutex, 10*ms, 20*ms), held(2, Mutex, 21*ms, 30*ms)}, 0},
		"a touch is none":                      {[]Hold{held(1, Mutex, 10*ms, 20*ms), held(2, Mutex, 20*ms, 30*ms)}, 0},
		"two at once":                          {[]Hold{held(1, Mutex, 10*ms, 20*ms), held(2, Mutex, 15*ms, 30*ms)}, 1},
		"one within the other":                 {[]Hold{held(1, Mutex, 10*ms, 40*ms), held(2, Mutex, 15*ms, 20*ms), held(3, Mutex, 25*ms, 30*ms)}, 2},
		"other keys":                           {[]Hold{held(1, Mutex, 10*ms, 20*ms), held(2, Mutex, 15*ms, 30*ms, func(h *Hold) { h.Key = "j" })}, 0},
		"readers":                              {[]Hold{held(1, Readers, 10*ms, 20*ms, shared), held(2, Readers, 15*ms, 30*ms, shared)}, 0},
		"a writer among readers":               {[]Hold{held(1, Readers, 10*ms, 20*ms, shared), held(2, Readers, 15*ms, 30*ms)}, 1},
		"a reader beside a writer":             {[]Hold{held(1, Readers, 10*ms, 20*ms), held(2, Readers, 15*ms, 30*ms, shared)}, 1},
		"as many as permitted":                 {[]Hold{held(1, Permits, 10*ms, 20*ms), held(2, Permits, 15*ms, 30*ms), held(3, Permits, 20*ms, 25*ms)}, 0},
		"one more than permitted":              {[]Hold{held(1, Permits, 10*ms, 20*ms), held(2, Permits, 15*ms, 30*ms), held(3, Permits, 18*ms, 25*ms)}, 1},
		"a hold that was over when it began":   {[]Hold{held(1, Mutex, 10*ms, 20*ms), held(2, Mutex, 15*ms, 14*ms)}, 0},
		"lost, and the next one after its end": {[]Hold{held(1, Mutex, 10*ms, 20*ms, func(h *Hold) { h.How, h.Freed = Lost, 200*ms }), held(2, Mutex, 120*ms, 130*ms)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Overlaps(tc.holds); len(got) != tc.overlaps {
				t.Errorf("overlaps = %v, want %d", got, tc.overlaps)
			}
			v := Check(tc.holds, nil, time.Minute)
			if legal := len(v.Illegal) == 0; legal != (tc.overlaps == 0) || len(v.Unknown) != 0 {
				t.Errorf("porcupine: %+v, want illegal: %v", v, tc.overlaps > 0)
			}
		})
	}
}

func TestPorcupineSeesWhatTheScanCannot(t *testing.T) {
	// Intervals that do not overlap, but the first was given up by Redis only
	// after the second had it.
	holds := []Hold{held(1, Mutex, 10*ms, 20*ms), held(2, Mutex, 21*ms, 30*ms)}
	holds[0].Ended, holds[0].Freed = 25*ms, 26*ms
	holds[1].Began = 22 * ms
	if v := Check(holds, nil, time.Minute); len(v.Illegal) != 1 {
		t.Errorf("verdict %+v", v)
	}
}

func TestFences(t *testing.T) {
	good := []Hold{held(1, Mutex, 10*ms, 20*ms), held(2, Mutex, 30*ms, 40*ms)}
	if got := FenceFaults(good); len(got) != 0 {
		t.Error(got)
	}
	same := []Hold{held(1, Mutex, 10*ms, 20*ms), held(2, Mutex, 30*ms, 40*ms, func(h *Hold) { h.Fence = 1 })}
	if got := FenceFaults(same); len(got) != 1 || !strings.Contains(got[0], "fence 1") {
		t.Error(got)
	}
	late := []Hold{held(9, Mutex, 10*ms, 20*ms), held(2, Mutex, 12*ms, 40*ms, func(h *Hold) { h.Asked = 5 * ms })}
	if got := FenceFaults(late); len(got) != 0 {
		t.Error("asked for before the other began:", got)
	}
}

// Where Redis has forgotten a lock, a process may pass it on beside the next holder. That
// is no fault of fences; one that goes back within a process is.
func TestFencesOfTenures(t *testing.T) {
	by := func(worker string, fence int64) func(*Hold) {
		return func(h *Hold) { h.Worker, h.Fence = worker, fence }
	}
	holds := []Hold{
		held(1, Mutex, 10*ms, 20*ms, by("a", 100)),
		held(2, Mutex, 30*ms, 40*ms, by("b", 500)),
		held(3, Mutex, 50*ms, 60*ms, by("a", 101)),
		held(4, Mutex, 70*ms, 80*ms, by("a", 102)),
	}
	if got := FenceFaults(holds); len(got) != 2 {
		t.Errorf("%d faults, want 2: %v", len(got), got)
	}
	if got := FenceFaults(PerTenure(holds)); len(got) != 0 {
		t.Errorf("faults %v, want none", got)
	}
	for _, fence := range []int64{100, 103, 400} {
		again := slices.Concat(holds[:3], []Hold{held(5, Mutex, 70*ms, 80*ms, by("a", fence))})
		if got := FenceFaults(PerTenure(again)); len(got) == 0 {
			t.Errorf("no fault with fence %d", fence)
		}
	}
}

func TestStaleWrites(t *testing.T) {
	holds := []Hold{held(1, Mutex, 10*ms, 20*ms), held(2, Mutex, 30*ms, 40*ms)}
	write := func(id int, place int64, accepted bool) Write {
		return Write{Key: "k", Worker: "w", ID: id, Fence: int64(id), Place: place, Accepted: accepted}
	}
	if got := StaleWrites(holds, []Write{write(1, 1, true), write(2, 2, true), write(1, 3, false)}); len(got) != 0 {
		t.Error(got)
	}
	if got := StaleWrites(holds, []Write{write(2, 1, true), write(1, 2, true)}); len(got) != 1 {
		t.Error("an accepted stale write was not seen:", got)
	}
}

func TestRegister(t *testing.T) {
	write := func(fence, highest int64, accepted bool, at time.Duration) Write {
		return Write{Key: "k", Fence: fence, Highest: highest, Accepted: accepted, Called: at, Returned: at + ms}
	}
	for name, tc := range map[string]struct {
		writes []Write
		legal  bool
	}{
		"rising":           {[]Write{write(1, 0, true, ms), write(2, 1, true, 5*ms)}, true},
		"refused":          {[]Write{write(2, 0, true, ms), write(1, 2, false, 5*ms)}, true},
		"accepted too low": {[]Write{write(2, 0, true, ms), write(1, 2, true, 5*ms)}, false},
		"forgotten":        {[]Write{write(2, 0, true, ms), write(1, 0, true, 5*ms)}, false},
		"refused for none": {[]Write{write(2, 0, false, ms)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if v := Check(nil, tc.writes, time.Minute); (len(v.Illegal) == 0) != tc.legal {
				t.Errorf("verdict %+v, want legal: %v", v, tc.legal)
			}
		})
	}
}

func TestATicketWorksOnce(t *testing.T) {
	by := func(ticket string) func(*Hold) { return func(h *Hold) { h.Ticket = ticket } }
	all := []Hold{held(1, Mutex, 10*ms, 20*ms), held(2, Mutex, 30*ms, 40*ms), held(3, Mutex, 50*ms, 60*ms, by("w/1")), held(4, Mutex, 70*ms, 80*ms, by("w/2"))}
	if twice := ResumedTwice(all); twice != nil || Resumed(all) != 2 {
		t.Errorf("%d went on by tickets, twice by one: %q, want 2 and none", Resumed(all), twice)
	}
	all = append(all, held(5, Mutex, 90*ms, 100*ms, by("w/1")))
	if twice, want := ResumedTwice(all), []string{"k: by the ticket of w/1 w/3 went on, and w/5"}; !slices.Equal(twice, want) {
		t.Errorf("twice = %q, want %q", twice, want)
	}
}
