package redisstore

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/slow"
)

var (
	seed      = flag.Uint64("seed", 0, "run the random histories of this seed only")
	histories = flag.Uint64("histories", 5, "run the random histories of the seeds from 1 on to this one")
)

// TestRandomHistoriesFollowTheModel has a few lockers do anything in any
// order, while the clock moves, lockers die and others meddle, and compares
// each answer and all that lies in Redis with the model.
func TestRandomHistoriesFollowTheModel(t *testing.T) {
	slow.Test(t)
	const steps = 1200
	first, last := uint64(1), *histories // five are one for each of the mixes
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for seed := first; seed <= last; seed++ {
		for _, bySet := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d,set=%v", seed, bySet), func(t *testing.T) {
				t.Parallel() // each has its own server and clock
				h := newHistory(t, seed, bySet)
				h.run(steps)
				if bySet && len(h.kinds) == 1 && (h.natives == 0 || h.halves == 0) {
					t.Errorf("%d locks were taken by SET alone, and %d more by half, want some of both", h.natives, h.halves)
				}
				t.Logf("%d locks were taken by SET alone, and %d more by half", h.natives, h.halves)
			})
		}
	}
}

// run makes so many steps.
func (h *history) run(steps int) {
	h.Helper()
	for range steps {
		h.step()
		h.check()
		if h.Failed() {
			h.Fatalf("the last steps:\n%s", strings.Join(h.log[max(0, len(h.log)-40):], "\n"))
		}
	}
	h.end()
}

// mixes are the kinds of one history. Few of them meet each other more often.
var mixes = [][]store.Kind{
	{{}},
	{{}, {Shared: true}, {Shared: true}},
	{{Permits: 2}, {Permits: 2}, {Permits: 3}, {Permits: 5}},
	{{}, {Shared: true}, {Permits: 2}, {Permits: 3}},
	{{Shared: true}, {Permits: 2}},
}

const (
	lockers = 3
	claims  = 3 // of each locker at once
)

// A history is one run of random steps.
type history struct {
	*still
	rand    *rand.Rand
	kinds   []store.Kind
	bySet   bool // free locks are taken by SET, and anything may happen between the commands
	hook    *hook
	asker   *member // between the commands of its question; it has no other connection
	natives int     // questions that no script was asked for
	halves  int     // and those that took the lock, and a script had to look again
	model   model
	members []*member
	sub     *miniredis.Subscriber // of all members
	news    chan string
	log     []string
}

func newHistory(t *testing.T, seed uint64, bySet bool) *history {
	h := &history{
		still: newStill(t),
		rand:  rand.New(rand.NewPCG(seed, seed)),
		kinds: mixes[seed%uint64(len(mixes))],
		model: model{now: noon.UnixMicro(), alive: make(map[*member]*heartbeat)},
		news:  make(chan string, 1000), // more than a run has hand-overs on their way
		bySet: bySet,
	}
	h.hook = newHook(h.mini)
	h.sub = h.mini.NewSubscriber()
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		for m := range h.sub.Messages() {
			h.news <- m.Message
		}
	}()
	t.Cleanup(func() { h.sub.Close(); <-forwarded })
	for range lockers {
		h.members = append(h.members, h.spawn())
	}
	return h
}

func (h *history) spawn() *member {
	m := &member{probe: h.open()}
	m.scripted = !h.bySet
	var l store.Listener = m
	m.listener.Store(&l)
	h.hearing(m, h.rand.IntN(3))
	return m
}

// hearing has m poll (0), hear (1), or believe that it hears (2).
func (h *history) hearing(m *member, how int) {
	m.subscribed.Store(how > 0)
	m.receives = how == 1
	channel := m.channels + m.locker
	if m.receives {
		h.sub.Subscribe(channel)
	} else {
		h.sub.Unsubscribe(channel)
	}
}

func (h *history) notef(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%6d  ", len(h.log))+fmt.Sprintf(format, args...))
}

// name is short for logs: the locker's place and the claim's.
func (h *history) name(c *claim) string {
	i := slices.Index(h.members, c.member)
	return fmt.Sprintf("p%d.c%d(%s)", i, slices.Index(c.member.claims, c), terms(c.Ref))
}

func (h *history) step() {
	i := h.rand.IntN(lockers)
	if h.members[i] == h.asker {
		i = (i + 1) % lockers
	}
	m := h.members[i]
	c := h.claim(m)
	switch n := h.rand.IntN(1000); {
	case n < 420:
		join := []store.Join{store.Try, store.Wait, store.Wait, store.Wait, store.Last}[h.rand.IntN(5)]
		if h.bySet && h.rand.IntN(3) > 0 {
			join = store.Try // a lock that some wait for is not taken by SET
		}
		if join == store.Last && h.rand.IntN(2) == 0 {
			h.model.brings = h.next(c)
		}
		h.acquire(c, join, h.place())
		h.model.brings = nil
	case n < 520:
		h.releaseTo(c)
	case n < 660, h.bySet && n > 990:
		h.release(c, h.rand.IntN(3) > 0, 0)
	case n < 700:
		h.release(c, false, []time.Duration{time.Millisecond, 700 * time.Millisecond, 10 * time.Second}[h.rand.IntN(3)])
	case n < 780:
		h.renew(c)
	case n < 900:
		h.elapse()
	case n < 910:
		h.inspect(m)
	case n < 920:
		h.force(m)
	case n < 960:
		how := h.rand.IntN(3)
		h.notef("p%d hears %d", slices.Index(h.members, m), how)
		h.hearing(m, how)
	case n < 980:
		i := slices.Index(h.members, m)
		h.notef("p%d dies", i)
		h.hearing(m, 0)
		h.members[i] = h.spawn()
	default:
		h.meddle()
	}
}

// claim picks one of m's claims, or makes a new one.
func (h *history) claim(m *member) *claim {
	i := h.rand.IntN(claims)
	if i < len(m.claims) {
		return m.claims[i]
	}
	ttl := []time.Duration{80 * time.Millisecond, 1500 * time.Millisecond, 5 * time.Second, 30 * time.Second}[h.rand.IntN(4)]
	r := m.ref(ttl)
	r.Kind = h.kinds[h.rand.IntN(len(h.kinds))]
	r.Least = min(ttl, []time.Duration{0, 0, 700 * time.Millisecond, 3 * time.Second}[h.rand.IntN(4)])
	if h.bySet && h.rand.IntN(4) > 0 {
		r.Least = 0 // the others are asked about by script
	}
	c := &claim{Ref: r, member: m}
	m.claims = append(m.claims, c)
	return c
}

func (h *history) acquire(c *claim, join store.Join, place store.Place) {
	h.Helper()
	want, got, err := h.ask(c, join, place)
	if next := h.model.brings; next != nil {
		h.notef("%s is to have its place", h.name(next))
	}
	h.notef("%s asks (%s, %+v): granted %v, fence %d, fresh %v, left %v", h.name(c), joins[join], place, got.Granted, got.Fence, got.Fresh, got.Left)
	if err != nil {
		h.Fatalf("Acquire: %v", err)
	}
	if got.Granted != want.granted || got.Fresh != want.fresh || got.Placed != want.placed || got.Clock != want.at {
		h.Errorf("Acquire = %+v, want granted %v, fresh %v, placed %v, at %d", got, want.granted, want.fresh, want.placed, want.at)
	}
	waits := c
	if want.placed { // the grants came before it, in the same script
		waits = h.model.brings
		h.told(want)
	}
	if want.contends {
		h.hears(h.model.holder, fmt.Sprintf("contended %d %s kit:{k}", waits.arrival, h.model.holder))
	}
	if !want.placed {
		h.told(want)
	}
	noteGrant(&c.Ref, got)
	if got.Granted {
		if c.Kind == (store.Kind{}) && got.NextCame != h.model.first() {
			h.Errorf("the next one came at %d, want %d", got.NextCame, h.model.first())
		}
		if got.Fence != c.fence {
			h.Errorf("fence = %d, want %d", got.Fence, c.fence)
		}
		return
	}
	if siblings, left := h.model.siblings(c.member), h.model.left(c); got.Siblings != siblings || (got.Left-left).Abs() > time.Millisecond {
		h.Errorf("Acquire = %+v, want siblings %q, left %v", got, siblings, left)
	}
}

// release releases c, or if stay is not zero, after that.
func (h *history) release(c *claim, leave bool, stay time.Duration) {
	h.Helper()
	want := h.model.release(c, leave, stay)
	var got store.Released
	var err error
	if stay > 0 {
		got, _, err = c.member.Release(context.Background(), store.Give{Ref: c.Ref, Stay: stay})
	} else {
		got, err = c.member.giveBack(context.Background(), c.Ref, leave)
	}
	h.notef("%s releases (leave %v, after %v): %v", h.name(c), leave, stay, got)
	if stay == 0 {
		noteGrant(&c.Ref, store.Answer{})
	}
	if err != nil {
		h.Fatalf("Release: %v", err)
	}
	if got != want.released {
		h.Errorf("Release = %v, want %v", got, want.released)
	}
	h.told(want)
	h.answered(c.member, want.answered)
	if leave && h.rand.IntN(2) == 0 { // else it may ask again
		c.member.claims = slices.DeleteFunc(c.member.claims, func(other *claim) bool { return other == c })
	}
}

func (h *history) renew(c *claim) {
	h.Helper()
	r := c.Ref
	r.TTL /= time.Duration(1 + h.rand.IntN(2)) // a lease needs less once its MinHold is over
	want := h.model.renew(c, r.TTL)
	batch := []store.Renewal{{Ref: r}}
	c.member.Renew(context.Background(), batch)
	h.notef("%s renews for %v: %v, %v", h.name(c), r.TTL, batch[0].Held, batch[0].Err)
	if !want {
		noteGrant(&c.Ref, store.Answer{})
	}
	if batch[0].Held != want || batch[0].Err != nil {
		h.Errorf("Renew = %v, %v, want %v", batch[0].Held, batch[0].Err, want)
	}
}

func (h *history) elapse() {
	d := []time.Duration{
		time.Microsecond, 999 * time.Microsecond, time.Millisecond, 79 * time.Millisecond, 80 * time.Millisecond, 700 * time.Millisecond,
		1600 * time.Millisecond, 2 * time.Second, lives - time.Microsecond, lives + time.Microsecond, 11 * time.Second, 31 * time.Second,
		-time.Microsecond, -time.Second, -time.Hour,
	}[h.rand.IntN(15)]
	h.notef("%v pass", d)
	if d < 0 && !h.model.ours() {
		h.forget() // nothing is kept of a lock that nobody holds
	}
	h.model.elapse(d)
	h.advance(d)
}

// meddle is what others do to our keys.
func (h *history) meddle() {
	switch h.rand.IntN(3) {
	case 0:
		h.notef("foreign DEL")
		h.mini.Del("kit:{k}")
		h.model.free()
		h.forget()
	case 1:
		h.notef("foreign SET NX PX")
		ok := h.client.SetNX(context.Background(), "kit:{k}", "theirs", 2*time.Second).Val()
		if want := !h.model.taken(); ok != want {
			h.Errorf("SET NX = %v, want %v", ok, want)
		}
		if ok {
			h.model.holder, h.model.expires = "theirs", h.model.in(2*time.Second)
		}
	default:
		h.notef("FLUSHALL")
		h.mini.FlushAll()
		h.model.free()
		h.model.queue = nil
		clear(h.model.alive)
		if h.model.fence >= h.micros() {
			h.model.fence = 0 // only the clock is left to count on
		}
	}
}
