package redisstore

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/lockmw/kit/internal/store"
)

var seed = flag.Uint64("seed", 0, "run the random histories of this seed only")

// TestRandomHistoriesFollowTheModel has a few processes do anything in any
// order, while the clock moves, processes die and others meddle, and compares
// each answer and all that lies in Redis with the model.
func TestRandomHistoriesFollowTheModel(t *testing.T) {
	const steps = 1200
	seeds := []uint64{1, 2, 3, 4, 5} // one for each of the mixes
	if *seed != 0 {
		seeds = []uint64{*seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			h := newHistory(t, seed)
			for range steps {
				h.step()
				h.check()
				if t.Failed() {
					t.Fatalf("seed %d, the last steps:\n%s", seed, strings.Join(h.log[max(0, len(h.log)-40):], "\n"))
				}
			}
			h.end()
		})
	}
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
	processes = 3
	claims    = 3 // of each process at once
)

// A history is one run of random steps.
type history struct {
	*still
	rand    *rand.Rand
	kinds   []store.Kind
	model   model
	members []*member
	sub     *miniredis.Subscriber // of all members
	news    chan string
	log     []string
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		still: newStill(t),
		rand:  rand.New(rand.NewPCG(seed, seed)),
		kinds: mixes[int(seed)%len(mixes)],
		model: model{now: noon.UnixMicro(), alive: make(map[*member]*sign)},
		news:  make(chan string, 1000), // more than a run has hand-overs on their way
	}
	h.sub = h.mini.NewSubscriber()
	forwarded := make(chan struct{})
	go func() {
		defer close(forwarded)
		for m := range h.sub.Messages() {
			h.news <- m.Message
		}
	}()
	t.Cleanup(func() { h.sub.Close(); <-forwarded })
	for range processes {
		h.members = append(h.members, h.spawn())
	}
	return h
}

func (h *history) spawn() *member {
	m := &member{probe: h.open()}
	var l store.Listener = m
	m.listener.Store(&l)
	h.hearing(m, h.rand.IntN(3))
	return m
}

// hearing has m poll (0), hear (1), or believe that it hears (2).
func (h *history) hearing(m *member, how int) {
	m.subscribed.Store(how > 0)
	m.receives = how == 1
	channel := m.channels + m.process
	if m.receives {
		h.sub.Subscribe(channel)
	} else {
		h.sub.Unsubscribe(channel)
	}
}

func (h *history) notef(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%6d  ", len(h.log))+fmt.Sprintf(format, args...))
}

// name is short for logs: the process's place and the claim's.
func (h *history) name(c *claim) string {
	i := slices.Index(h.members, c.member)
	return fmt.Sprintf("p%d.c%d(%s)", i, slices.Index(c.member.claims, c), terms(c.Ref))
}

func (h *history) step() {
	m := h.members[h.rand.IntN(processes)]
	c := h.claim(m)
	switch n := h.rand.IntN(1000); {
	case n < 450:
		h.acquire(c, []store.Join{store.Try, store.Wait, store.Wait, store.Wait, store.Last}[h.rand.IntN(5)])
	case n < 660:
		h.release(c, h.rand.IntN(3) > 0, 0)
	case n < 700:
		h.release(c, false, []time.Duration{time.Millisecond, 700 * time.Millisecond, 10 * time.Second}[h.rand.IntN(3)])
	case n < 790:
		h.renew(c)
	case n < 920:
		h.elapse()
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
	c := &claim{Ref: r, member: m}
	m.claims = append(m.claims, c)
	return c
}

func (h *history) acquire(c *claim, join store.Join) {
	h.Helper()
	want := h.model.acquire(c, join)
	got, err := c.member.Acquire(context.Background(), store.Request{Ref: c.Ref, Join: join})
	h.notef("%s asks (%s): granted %v, fence %d, fresh %v, left %v", h.name(c), joins[join], got.Granted, got.Fence, got.Fresh, got.Left)
	if err != nil {
		h.Fatalf("Acquire: %v", err)
	}
	if got.Granted != want.granted || got.Fresh != want.fresh || got.Server != h.micros() {
		h.Errorf("Acquire = %+v, want granted %v, fresh %v, at %d", got, want.granted, want.fresh, h.micros())
	}
	h.told(want.told)
	if got.Granted {
		if got.Fence != c.fence {
			h.Errorf("fence = %d, want %d", got.Fence, c.fence)
		}
		return
	}
	if siblings, left := h.model.siblings(c.member), h.model.left(c); got.Siblings != siblings || got.Left != left {
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
		got, err = c.member.ReleaseAfter(context.Background(), c.Ref, stay)
	} else {
		got, err = c.member.Release(context.Background(), c.Ref, leave)
	}
	h.notef("%s releases (leave %v, after %v): %v", h.name(c), leave, stay, got)
	if err != nil {
		h.Fatalf("Release: %v", err)
	}
	if got != want.released {
		h.Errorf("Release = %v, want %v", got, want.released)
	}
	h.told(want.told)
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

// forget has the model forget the last fence unless Redis remembers it.
func (h *history) forget() {
	if !h.mini.Exists("kit:{k}:fence") {
		h.model.fence = 0
	}
}

// told wants a message about each one's grant, in order.
func (h *history) told(heirs []*claim) {
	h.Helper()
	for _, c := range heirs {
		g, ok := c.member.grant(await(h, "a message", h.news))
		if want := (store.Ref{Key: "k", Token: c.Token, TTL: c.first(firstHeard)}); !ok || g.Ref != want || g.Fence != c.fence || g.Server != h.micros() {
			h.Errorf("told of %+v, want %+v with fence %d at %d", g, want, c.fence, h.micros())
		}
	}
}

// answered wants m's listener to have heard about each one's grant, in order.
func (h *history) answered(m *member, heirs []*claim) {
	h.Helper()
	for i, c := range heirs {
		want := store.Grant{
			Ref:   store.Ref{Key: "k", Token: c.Token, TTL: c.first(firstHeard)},
			Fence: c.fence, Server: h.micros(),
		}
		if i >= len(m.heard) || m.heard[i] != want {
			h.Errorf("the answer told %+v, want %+v at %d", m.heard, want, i)
		}
	}
	if len(m.heard) != len(heirs) {
		h.Errorf("the answer told %+v, want %d grants", m.heard, len(heirs))
	}
	m.heard = nil
}

// check compares all that lies in Redis with the model.
func (h *history) check() {
	h.Helper()
	m := &h.model
	value, _ := h.mini.Get("kit:{k}")
	if value != m.value() {
		h.Errorf("the lock is %q, want %q", value, m.value())
	}
	if ends := h.micros() + h.mini.TTL("kit:{k}").Microseconds(); m.taken() && ends != m.expires {
		h.Errorf("the lock ends at %d, want %d", ends, m.expires)
	}
	if len(m.several) > 0 {
		holders := make(map[string]float64)
		for _, s := range m.several {
			holders[s.Token], holders["="+s.Token] = float64(s.ends), -float64(s.fence)
		}
		if got, _ := h.mini.SortedSet("kit:{k}:holders"); !maps.Equal(got, holders) {
			h.Errorf("the holders are %v, want %v", got, holders)
		}
	}
	var want []string
	for _, c := range m.queue {
		want = append(want, c.Token+":"+terms(c.Ref))
	}
	if got, _ := h.mini.ZMembers("kit:{k}:queue"); !slices.Equal(got, want) {
		h.Errorf("the queue is %q, want %q", got, want)
	}
	if got, _ := h.mini.HKeys("kit:{k}:alive"); len(got) != len(h.model.alive) {
		h.Errorf("%d processes are known: %q, want %d", len(got), got, len(h.model.alive))
	}
	for _, key := range h.mini.Keys() {
		if h.mini.TTL(key) <= 0 {
			h.Errorf("%s has no TTL", key)
		}
	}
	if len(h.news) > 0 {
		h.Errorf("told of %q, want nothing", <-h.news)
	}
}

// end has everybody leave, or die.
func (h *history) end() {
	h.Helper()
	const longest = 1000 * time.Hour // the clock was set back, which prolongs TTLs
	h.model.elapse(longest)
	h.advance(longest)
	var there []*claim
	for _, m := range h.members {
		for range claims {
			c := h.claim(m)
			if h.acquire(c, store.Wait); !slices.Contains(there, c) {
				there = append(there, c)
			}
		}
	}
	h.check()
	h.rand.Shuffle(len(there), func(i, j int) { there[i], there[j] = there[j], there[i] })
	for _, c := range there {
		h.release(c, true, 0)
		h.check()
	}
	fence := h.mini.TTL("kit:{k}:fence") // it is kept until the clock has passed it, if that was set back
	h.advance(fence)
	h.wantEmpty()
}
