package lockadmin

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// A viewer keeps what it is told as the page does.
type viewer struct {
	at   cursor
	rows map[uint64]lock
}

func (v *viewer) hear(t *testing.T, locks *table) (more bool) {
	t.Helper()
	m, at := locks.since(v.at)
	v.at = at
	if len(m.Rows)+len(m.Until)+len(m.Gone) > atOnce {
		t.Fatalf("%d changes in one message", len(m.Rows)+len(m.Until)+len(m.Gone))
	}
	if m.Reset {
		v.rows = make(map[uint64]lock)
	}
	for _, l := range m.Rows {
		l.Holders = append([]holder(nil), l.Holders...)
		v.rows[l.ID] = l
	}
	for _, ends := range m.Until {
		l, ok := v.rows[uint64(ends[0])]
		if !ok || len(l.Holders) != len(ends)-1 {
			t.Fatalf("renewed: %v, but the page has %+v", ends, l)
		}
		for i := range l.Holders {
			l.Holders[i].Until = ends[i+1]
		}
	}
	for _, id := range m.Gone {
		delete(v.rows, id)
	}
	return m.More
}

// Whatever happens in between, and however far behind a page is, it has what the table has
// when it has been told all. Locks come, go and are renewed at random, while pages are told
// of it at random, some rarely.
func TestAPageHasWhatTheTableHas(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	locks := newTable("web-1", 10_000)
	locks.mostGone = 300
	viewers := make([]viewer, 4)
	for turn := range 60 {
		locks.begin()
		for n := range 900 {
			if random.IntN(10) == 0 {
				continue // it is not seen, so it is gone
			}
			holder := lockmw.Holder{Instance: fmt.Sprint("web-", random.IntN(2)), Age: time.Hour, Left: time.Duration(random.IntN(30)) * time.Second}
			answers := []*lockmw.KeptAnswer{nil, {State: lockmw.AnswerInProgress, Work: "7"}}
			locks.put(lockmw.Info{
				Key: fmt.Sprint(n), Held: true, Waiting: random.IntN(20) / 19, Holders: []lockmw.Holder{holder},
				Waiters: []lockmw.Waiter{{Instance: fmt.Sprint("web-", random.IntN(20)/19), Waited: time.Hour}}, Answer: answers[random.IntN(20)/19],
			})
			if random.IntN(200) == 0 {
				viewers[random.IntN(len(viewers))].hear(t, locks)
			}
		}
		locks.finish(time.Now(), time.Second, false)
		if locks.order.Len() != len(locks.rows)+locks.gone || locks.gone > locks.mostGone {
			t.Fatalf("%d entries for %d locks, and %d that are gone", locks.order.Len(), len(locks.rows), locks.gone)
		}
		for i := range viewers {
			if turn%(i*i+1) != 0 { // the last ones are rarely told
				continue
			}
			for viewers[i].hear(t, locks) {
			}
			want := make(map[uint64]lock)
			for _, r := range locks.rows {
				want[r.lock.ID] = r.lock
			}
			if !maps.EqualFunc(viewers[i].rows, want, func(a, locks lock) bool { return reflect.DeepEqual(a, locks) }) {
				t.Fatalf("turn %d: page %d has %d locks that differ from the table's %d", turn, i, len(viewers[i].rows), len(want))
			}
			if m, _ := locks.since(viewers[i].at); len(m.Rows)+len(m.Until)+len(m.Gone) > 0 && len(want) > 0 {
				t.Fatalf("turn %d: page %d is told the same again", turn, i)
			}
		}
	}
}

// What Redis says of one moment differs by how long the answer took: that is no change.
func TestAnAnswerThatTookLongerIsNoChange(t *testing.T) {
	locks := newTable("web-1", 10)
	info := lockmw.Info{Key: "k", Held: true, Holders: []lockmw.Holder{{Instance: "web-2", Age: time.Minute, Left: 20 * time.Second}}}
	locks.put(info)
	version := locks.version
	info.Holders = []lockmw.Holder{{Instance: "web-2", Age: time.Minute - 80*time.Millisecond, Left: 20*time.Second + 80*time.Millisecond}}
	if locks.put(info); locks.version != version {
		t.Error("80 ms are a change")
	}
	info.Holders = []lockmw.Holder{{Instance: "web-2", Age: time.Minute, Left: 30 * time.Second}}
	if locks.put(info); locks.version == version || locks.rows["k"].changed == locks.version {
		t.Error("a renewal is none, or tells all of the lock again")
	}
	info.Holders = []lockmw.Holder{{Instance: "web-2", Age: 0, Left: 30 * time.Second}}
	if locks.put(info); locks.rows["k"].changed != locks.version {
		t.Error("the next holder is not told")
	}
}

// A waiter who comes in another's place is told, though as many wait, and one who stays is not told again.
func TestAWaiterIsToldOnce(t *testing.T) {
	locks := newTable("web-1", 10)
	w := lockmw.Waiter{Instance: "web-1", Note: "a", Waited: time.Minute}
	tell := func(w lockmw.Waiter, want bool) {
		t.Helper()
		version := locks.version
		locks.put(lockmw.Info{Key: "k", Waiting: 30, Waiters: []lockmw.Waiter{{Instance: "web-2", Permits: 3}, w}})
		if told := locks.version != version; told != want {
			t.Errorf("%+v: told: %v, want %v", w, told, want)
		}
	}
	tell(w, true)
	kept := locks.rows["k"].lock.Waiters
	if !kept[1].Own || kept[0].Own || kept[0].Mode != "permits" || kept[1].Mode != "exclusive" || kept[0].Since != 0 || kept[1].Since == 0 {
		t.Errorf("%+v", kept)
	}
	w.Waited -= 80 * time.Millisecond
	tell(w, false)
	w.Waited = time.Second
	tell(w, true)
	w.Note = "b"
	tell(w, true)
	w.Mode = lockmw.Shared
	tell(w, true)
	w.Instance = "web-3"
	tell(w, true)
}

// An answer that comes, changes or goes is told, and one that stays is not told again.
func TestAnAnswerIsToldOnce(t *testing.T) {
	locks := newTable("web-1", 10)
	info := lockmw.Info{Key: "k", Held: true, Holders: []lockmw.Holder{{Instance: "web-2", Age: time.Minute, Left: 20 * time.Second}}}
	locks.put(info)
	made := time.UnixMilli(1_795_400_774_918)
	begun := lockmw.KeptAnswer{State: lockmw.AnswerInProgress, Work: "7", Since: made}
	for name, answer := range map[string]*lockmw.KeptAnswer{
		"work begins": &begun, "other work begins": {State: lockmw.AnswerInProgress, Work: "8", Since: made},
		"an answer is kept": {State: lockmw.AnswerKept, Since: made, Until: made.Add(time.Hour), Bytes: 7},
	} {
		version := locks.version
		info.Answer = answer
		if locks.put(info); locks.version == version || locks.rows["k"].changed != locks.version || locks.rows["k"].lock.Answer == nil {
			t.Errorf("%s: not told: %+v", name, locks.rows["k"].lock.Answer)
		}
		version = locks.version
		again := *answer
		info.Answer = &again
		if locks.put(info); locks.version != version {
			t.Errorf("%s: told again", name)
		}
	}
	version := locks.version
	info.Answer = nil
	if locks.put(info); locks.version == version || locks.rows["k"].lock.Answer != nil {
		t.Error("an answer that is gone is not told")
	}
}
