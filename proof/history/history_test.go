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

// A lock that was handed on to a ticket is nobody else's until somebody goes on by that, may have used it, or its time is over.
func TestLocksThatAreTakenFromTickets(t *testing.T) {
	issuer := func(change ...func(*Hold)) Hold {
		return held(1, Mutex, 10*ms, 20*ms, append([]func(*Hold){func(h *Hold) { h.HandsOn, h.Lasts, h.Until = "w/1", 100*ms, 50*ms }}, change...)...)
	}
	other := func(from, to time.Duration) Hold { return held(2, Mutex, from, to) }
	goesOn := func(asked, began time.Duration) Hold {
		return held(3, Mutex, began, began+10*ms, func(h *Hold) { h.Ticket, h.Asked = "w/1", asked })
	}
	use := func(came string, asked, returned time.Duration) Use {
		return Use{Ticket: "w/1", Worker: "v", TTL: 20 * ms, Asked: asked, Returned: returned, Came: came}
	}
	for name, tc := range map[string]struct {
		holds              []Hold
		uses               []Use
		taken, soon, after int
	}{
		"somebody goes on":                                    {[]Hold{issuer(), goesOn(30*ms, 40*ms), other(60*ms, 70*ms)}, []Use{use(WentOn, 30*ms, 40*ms), use(Spent, 41*ms, 42*ms)}, 0, 0, 0},
		"nobody comes":                                        {[]Hold{issuer(), other(121*ms, 130*ms)}, nil, 0, 0, 0},
		"another has it, nobody came":                         {[]Hold{issuer(), other(25*ms, 30*ms)}, nil, 1, 0, 0},
		"another has it, and is not seen by who goes on":      {[]Hold{issuer(), other(25*ms, 30*ms), goesOn(31*ms, 40*ms)}, []Use{use(WentOn, 31*ms, 40*ms)}, 1, 0, 0},
		"another has it while an early one waits":             {[]Hold{issuer(), other(25*ms, 30*ms), goesOn(5*ms, 40*ms)}, []Use{use(WentOn, 5*ms, 40*ms)}, 1, 0, 0},
		"another has it, and the ticket is spent":             {[]Hold{issuer(), other(25*ms, 30*ms)}, []Use{use(Spent, 31*ms, 35*ms)}, 1, 1, 0},
		"spent while the issuer works":                        {[]Hold{issuer()}, []Use{use(Spent, 12*ms, 15*ms)}, 0, 1, 0},
		"spent when its time may be over":                     {[]Hold{issuer()}, []Use{use(Spent, 110*ms, 119*ms)}, 0, 0, 0},
		"spent since another may have used it":                {[]Hold{issuer(), other(40*ms, 50*ms)}, []Use{use("", 30*ms, 0), use(Spent, 31*ms, 32*ms)}, 0, 0, 0},
		"an early one uses nothing":                           {[]Hold{issuer(), other(40*ms, 50*ms)}, []Use{use(Early, 12*ms, 13*ms)}, 1, 0, 0},
		"spent by a command of its own that was not answered": {[]Hold{issuer(), other(55*ms, 60*ms)}, []Use{use(Spent, 30*ms, 52*ms), use(Spent, 53*ms, 54*ms)}, 0, 0, 0},
		"discarded": {[]Hold{issuer(), other(40*ms, 50*ms)}, []Use{use(Discarded, 30*ms, 35*ms), use(Spent, 36*ms, 37*ms)}, 0, 0, 0},
		"somebody goes on though it was discarded":     {[]Hold{issuer(), goesOn(36*ms, 40*ms)}, []Use{use(Discarded, 30*ms, 35*ms)}, 0, 0, 1},
		"discarded while somebody asks":                {[]Hold{issuer(), goesOn(34*ms, 40*ms)}, []Use{use(Discarded, 30*ms, 35*ms)}, 0, 0, 0},
		"the release is in doubt":                      {[]Hold{issuer(func(h *Hold) { h.How = Unsure }), other(25*ms, 30*ms)}, nil, 0, 0, 0},
		"the lease was over when its release returned": {[]Hold{issuer(func(h *Hold) { h.Until = 20 * ms }), other(25*ms, 30*ms)}, nil, 0, 0, 0},
		"it gives the lock back":                       {[]Hold{issuer(func(h *Hold) { h.HandsOn = "" }), other(25*ms, 30*ms)}, nil, 0, 0, 0},
		"another key":                                  {[]Hold{issuer(), held(2, Mutex, 25*ms, 30*ms, func(h *Hold) { h.Key = "j" })}, nil, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			taken, soon, after := TakenFromTickets(tc.holds, tc.uses), SpentTooSoon(tc.holds, tc.uses), ResumedDiscarded(tc.holds, tc.uses)
			if len(taken) != tc.taken || len(soon) != tc.soon || len(after) != tc.after {
				t.Errorf("taken %q, spent too soon %q, discarded before %q, want %d, %d and %d", taken, soon, after, tc.taken, tc.soon, tc.after)
			}
		})
	}
	if n := Kept([]Hold{issuer(), goesOn(5*ms, 21*ms)}, nil); n != 0 {
		t.Errorf("%d tickets had their lock, want none: it had gone on when the release was confirmed", n)
	}
	if n := Kept([]Hold{issuer()}, nil); n != 1 {
		t.Errorf("%d tickets had their lock, want one", n)
	}
}
