package waitqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A model is one key's queue, written down as it is meant: without a table, and with
// nothing kept that can be counted.
type model struct {
	waiters []*modelled
	holder  string // "" if nobody passes the key on
	stays   string // the last holder, which has the key for longer than it may, and can offer it; or ""
	offers  []string
}

type modelled struct {
	*Waiter
	token   string // "" while the store does not know of it
	alone   bool
	state   State
	woken   bool
	asks    bool
	granted int64 // the fence of a grant that was not taken, or 0
	open    int   // commands under way
	last    bool  // it has asked for the last time
}

func (m *model) firstAlone() *modelled {
	for _, w := range m.waiters {
		if w.alone {
			return w
		}
	}
	return nil
}

func (m *model) asker() *modelled {
	for _, w := range m.waiters {
		if w.state != Resting {
			return w
		}
	}
	return nil
}

func (m *model) resting() (n int) {
	for _, w := range m.waiters {
		if w.state == Resting {
			n++
		}
	}
	return n
}

func (w *modelled) nudge(ask bool) {
	w.woken = true
	w.asks = w.asks || ask
}

// promote has the first of those that want the key alone ask where nobody passes it on.
func (m *model) promote() {
	if w := m.firstAlone(); m.holder == "" && w != nil && w.state == Resting {
		w.state, w.token = Asking, w.ref.Token // which it has been given
		w.nudge(true)
	}
}

func (m *model) remove(w *modelled) {
	asker := m.asker()
	m.waiters = slices.DeleteFunc(m.waiters, func(o *modelled) bool { return o == w })
	if next := m.asker(); next != nil && asker == w {
		next.nudge(false)
	}
}

// forgotten notes that nothing is known of a key that nobody waits for, nor passes on.
func (m *model) forgotten() {
	if m.holder == "" && len(m.waiters) == 0 {
		m.stays = ""
	}
}

// A history is what happened at random to the Set and to its model.
type history struct {
	*testing.T
	rand    *rand.Rand
	set     *Set
	model   *model
	tokens  int
	fence   int64
	holders int
	clock   int64
	log     []string
}

func (h *history) token() string {
	h.tokens++
	return fmt.Sprint("token", h.tokens)
}

func (h *history) notef(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// anyone picks a waiter for which ok holds, or returns nil.
func (h *history) anyone(ok func(*modelled) bool) *modelled {
	some := slices.DeleteFunc(slices.Clone(h.model.waiters), func(w *modelled) bool { return !ok(w) })
	if len(some) == 0 {
		return nil
	}
	return some[h.rand.IntN(len(some))]
}

func (h *history) join() {
	alone := h.rand.IntN(4) > 0
	ref := store.Ref{Key: "k", TTL: time.Second, Kind: store.Kind{Shared: !alone}}
	if h.rand.IntN(4) == 0 {
		ref.Token = h.token()
	}
	sends := h.rand.IntN(4) > 0
	m := h.model
	rests := alone && (m.holder != "" || m.firstAlone() != nil)
	behind := m.resting()
	j := h.set.Join(ref, Caller{}, sends)
	h.notef("joins: alone %t, sends %t, rests %t", alone, sends, j.Rests)
	if len(m.waiters) >= perKey {
		if j.Waiter != nil {
			h.Errorf("there is room for one more than %d", perKey)
		}
		return
	}
	if j.Waiter == nil || j.Rests != rests || (j.Token == "") != rests || !rests && j.Behind != behind {
		h.Fatalf("Join = %+v, want resting %t, behind %d", j, rests, behind)
	}
	if holder, _ := j.Holder.(string); rests && holder != m.holder {
		h.Errorf("the holder is %q, want %q", holder, m.holder)
	}
	w := &modelled{Waiter: j.Waiter, token: j.Token, alone: alone, state: Asking}
	if rests {
		w.state, w.token = Resting, ref.Token
	} else if sends {
		w.open = 1
	}
	m.waiters = append(m.waiters, w)
}

func (h *history) ask() {
	w := h.anyone(func(w *modelled) bool { return w.open == 0 })
	if w == nil {
		return
	}
	var token string
	var place store.Place
	var next store.Waiter
	var ok bool
	last := h.rand.IntN(4) == 0
	if last {
		token, place, next, ok = h.set.AskLast(w.Waiter)
	} else {
		token, place, ok = h.set.Ask(w.Waiter)
	}
	h.notef("%s asks, the last time %t, and brings %q", token, last, next.Token)
	if !ok {
		h.Errorf("%s has no key yet", token)
	}
	if w.token != "" && token != w.token || token == "" {
		h.Errorf("Ask: token %q, want %q", token, w.token)
	}
	w.token, w.open = token, 1
	if w.state == Resting || w.state == Served {
		w.state = Asking
	}
	if want := h.model.resting(); place.Behind != want {
		h.Errorf("%d behind, want %d", place.Behind, want)
	}
	if last {
		h.brings(w, next)
	}
}

// brings judges whom a waiter's last question brings a place: the next one that wants the key alone, if the store does not know it.
func (h *history) brings(w *modelled, got store.Waiter) {
	m := h.model
	var next *modelled
	w.last = false // for it
	stay := slices.DeleteFunc(slices.Clone(m.waiters), func(o *modelled) bool { return !o.alone || o.last })
	if m.holder == "" && len(stay) > 1 && stay[0] == w && stay[1].state == Resting {
		next = stay[1]
	}
	w.last = true
	if (got.Token != "") != (next != nil) {
		h.Fatalf("it brings %+v, want one: %t", got, next != nil)
	}
	if next == nil {
		return
	}
	next.state, next.token = Offered, got.Token
	if states := h.set.States("k"); states[slices.Index(m.waiters, next)] != Offered {
		h.Errorf("it brings %q, which is not the next", got.Token)
	}
	if want := m.resting(); got.Place.Behind != want {
		h.Errorf("%d behind it, want %d", got.Place.Behind, want)
	}
	m.offers = append(m.offers, got.Token)
}

// answer has a command of a waiter end.
func (h *history) answer() {
	w := h.anyone(func(w *modelled) bool { return w.open > 0 })
	if w == nil {
		return
	}
	w.open = 0
	h.clock += 1000
	a := Answer{Sent: time.Now(), Clock: h.clock, Seen: h.clock}
	switch h.rand.IntN(5) {
	case 0:
		h.notef("%s got no answer", w.token)
		h.set.Unanswered(w.Waiter)
	case 1:
		h.notef("%s has the key, by an answer", w.token)
		h.take(w, &a)
	default:
		a.Queued = h.rand.IntN(4) > 0
		h.notef("%s was answered: queued %t", w.token, a.Queued)
		switch {
		case a.Queued && w.state == Asking:
			w.state = Queued
		case !a.Queued && w.state == Queued:
			w.state = Asking
		}
		if first := h.set.Answered(w.Waiter, a); first != (h.model.asker() == w) {
			h.Errorf("Answered = %t", first)
		}
	}
}

func (h *history) take(w *modelled, a *Answer) {
	h.holders++
	holder := fmt.Sprint("holder", h.holders)
	h.set.Take(w.Waiter, holder, 0, a)
	h.model.remove(w)
	h.model.forgotten()
	if w.alone {
		h.model.holder, h.model.stays = holder, ""
	}
	h.model.promote()
}

// wake has a waiter look at what lies there for it.
func (h *history) wake() {
	w := h.anyone(func(w *modelled) bool { return w.woken || w.granted > 0 })
	if w == nil {
		return
	}
	select {
	case <-w.Wake:
		if !w.woken {
			h.Errorf("%s was woken", w.token)
		}
		w.woken = false
	default:
		if w.woken {
			h.Errorf("%s was not woken", w.token)
		}
	}
	if asks := w.MustAsk(); asks != w.asks {
		h.Errorf("%s must ask: %t, want %t", w.token, asks, w.asks)
	}
	w.asks = false
	select {
	case g := <-w.Grants:
		if w.granted == 0 || g.Fence != w.granted || g.Token != w.token {
			h.Errorf("%s has the grant %+v, want the fence %d", w.token, g, w.granted)
		}
		w.granted = 0
		if w.open == 0 && h.rand.IntN(4) > 0 {
			h.notef("%s takes the key", w.token)
			h.take(w, nil)
		}
	default:
		if w.granted > 0 {
			h.Errorf("%s has no grant", w.token)
		}
	}
}

func (h *history) leave() {
	w := h.anyone(func(w *modelled) bool { return w.open == 0 || h.rand.IntN(8) == 0 }) // seldom in the middle of a command
	if w == nil {
		return
	}
	h.notef("%s leaves, which is %v", w.token, w.state)
	seen := h.set.Seen("k")
	left := h.set.Leave(w.Waiter)
	if seen.Holder != left.Holder || seen.Seen != left.Seen {
		h.Errorf("Seen = %+v, and Leave = %+v", seen, left)
	}
	if left.State != w.state || left.Token != w.token || left.Others != len(h.model.waiters)-1 {
		h.Errorf("Leave = %+v, want %v, token %q, %d others", left, w.state, w.token, len(h.model.waiters)-1)
	}
	h.model.remove(w)
	h.model.promote()
	h.model.forgotten()
}

// hand has the holder hand the key on within the process.
func (h *history) hand() {
	m := h.model
	h.fence++
	ok := h.set.PassOn("k", m.holder, Grant{Grant: store.Grant{Fence: h.fence}, TTL: time.Second, Tenure: m.holder})
	if want := m.holder != "" && len(m.waiters) > 0 && m.waiters[0].state == Resting; ok != want {
		h.Fatalf("PassOn = %t, want %t", ok, want)
	}
	if !ok {
		return
	}
	w := m.waiters[0]
	h.notef("%s hands the key on", m.holder)
	m.waiters = m.waiters[1:]
	if v := h.set.Look(w.Waiter); v != (View{State: Served}) {
		h.Errorf("Look = %+v", v)
	}
	if _, _, ok := h.set.Ask(w.Waiter); ok {
		h.Error("it has the key, and is to ask for it")
	}
	switch h.rand.IntN(3) {
	case 0:
		if left := h.set.Leave(w.Waiter); left.State != Served || left.Handed == nil || left.Handed.Fence != h.fence {
			h.Errorf("Leave = %+v", left)
		}
	case 1:
		if g := <-w.Grants; g.Fence != h.fence || g.Tenure != m.holder {
			h.Errorf("it has the grant %+v", g)
		}
		h.set.Free(w.Waiter)
	default:
		<-w.Grants
		h.notef("%s waits on", w.ref.Token)
		h.set.Return(w.Waiter)
		w.state, w.token = Asking, w.ref.Token
		m.waiters = append([]*modelled{w}, m.waiters...)
	}
}

// pass has the holder give the key back.
func (h *history) pass() {
	m := h.model
	holder := m.holder
	if h.rand.IntN(8) == 0 || holder == "" {
		holder = "another"
	}
	if holder == "another" && m.holder == "" && m.stays != "" && len(m.waiters) > 0 && h.rand.IntN(2) == 0 {
		holder = m.stays
	}
	to, ok, waits := h.set.Offer("k", holder)
	h.notef("%s passes on to %q: %t", holder, to.Token, ok)
	if waits != (len(m.waiters) > 0) {
		h.Errorf("somebody waits: %t", waits)
	}
	next := m.firstAlone()
	if holder != m.holder && holder != m.stays {
		if ok {
			h.Errorf("%s passed on what it has not", holder)
		}
		return
	}
	m.holder, m.stays = "", ""
	if want := next != nil && next.state != Queued && next.state != Served; ok != want {
		h.Fatalf("ok = %t, want %t", ok, want)
	}
	if !ok {
		m.promote()
		return
	}
	next.state, next.token = Offered, to.Token
	if got := h.set.States("k"); got[slices.Index(m.waiters, next)] != Offered {
		h.Errorf("the key was offered to %q, and the first is another one", to.Token)
	}
	if want := m.resting(); to.Place.Behind != want {
		h.Errorf("%d behind, want %d", to.Place.Behind, want)
	}
	m.offers = append(m.offers, to.Token)
}

// passed has a command end that gave the key back and offered it to a waiter.
func (h *history) passed() {
	m := h.model
	if len(m.offers) == 0 {
		return
	}
	i := h.rand.IntN(len(m.offers))
	a := OfferResult{To: store.Ref{Key: "k", Token: m.offers[i], TTL: time.Second}, Sent: time.Now(), Grant: store.Grant{Clock: h.clock}}
	m.offers = slices.Delete(m.offers, i, i+1)
	outcome := Outcome(h.rand.IntN(4))
	a.Outcome = outcome
	h.fence++
	a.Grant.Fence = h.fence
	var w *modelled
	for _, each := range m.waiters {
		if each.token == a.To.Token {
			w = each
		}
	}
	gone := h.set.OfferEnded(a)
	h.notef("%s was offered the key: outcome %d, gone %t", a.To.Token, outcome, gone)
	if gone != (w == nil) {
		h.Fatalf("gone = %t", gone)
	}
	if gone {
		return
	}
	was := w.state
	switch outcome {
	case WasUnanswered:
		if was == Offered {
			w.state = Doubtful
		}
		w.nudge(true)
	case WasGranted:
		h.grant(w)
	case WasNotHeld:
		if was == Offered {
			w.state = Asking
		}
		w.nudge(true)
	default:
		if was == Offered {
			w.state = Queued
		}
		w.nudge(false)
	}
}

func (h *history) grant(w *modelled) {
	w.state = Served
	if w.granted == 0 {
		w.granted = h.fence
	}
}

// push has a message tell of a grant.
func (h *history) push() {
	w := h.anyone(func(w *modelled) bool { return w.state != Resting })
	h.fence++
	g := store.News{Ref: store.Ref{Key: "k", Token: "of nobody", TTL: time.Second}, Grant: store.Grant{Fence: h.fence, Clock: h.clock}}
	if w != nil && h.rand.IntN(4) > 0 {
		g.Ref.Token = w.token
		h.grant(w)
	}
	h.notef("a message says that %s has the key", g.Ref.Token)
	if got := h.set.Granted(g); got != (g.Ref.Token != "of nobody") {
		h.Errorf("Granted = %t", got)
	}
}

func (h *history) drop() {
	h.notef("%s passes nothing on", h.model.holder)
	if h.model.holder == "" {
		h.set.ForgetHolder("k", "another")
		return
	}
	if h.model.stays = ""; h.rand.IntN(2) == 0 && len(h.model.waiters) > 0 {
		h.model.stays = h.model.holder
		h.set.Overstays("k", h.model.holder)
	} else {
		h.set.ForgetHolder("k", h.model.holder)
	}
	h.model.holder = ""
	h.model.promote()
}

func (h *history) askSome() {
	m := h.model
	asker := m.asker()
	switch h.rand.IntN(4) {
	case 0:
		h.set.AskFirst("k")
	case 1:
		h.set.AskFirsts()
	case 2:
		if asker != nil {
			h.set.AskAgain("k", asker.token)
		}
	default:
		if asker == nil {
			return
		}
		h.set.AskOthers(asker.Waiter)
		for _, w := range m.waiters {
			if w != asker && w.state != Resting {
				w.nudge(true)
			}
		}
		return
	}
	if asker != nil {
		asker.nudge(true)
	}
}

// check compares the Set with its model, and looks for what holds at all times.
func (h *history) check() {
	m := h.model
	var want []State
	for _, w := range m.waiters {
		want = append(want, w.state)
	}
	if got := h.set.States("k"); !slices.Equal(got, want) {
		h.Fatalf("states %v, want %v", got, want)
	}
	if got, want := h.set.Resting("k"), m.resting(); got != want {
		h.Fatalf("%d rest, want %d", got, want)
	}
	if holder, _ := h.set.Seen("k").Holder.(string); holder != m.holder {
		h.Fatalf("the holder is %q, want %q", holder, m.holder)
	}
	for i, w := range m.waiters {
		v := h.set.Look(w.Waiter)
		if v.State != w.state || v.Front != (i == 0) || v.Asker != (m.asker() == w) || v.HasHolder != (w.alone && m.holder != "") {
			h.Fatalf("waiter %d: Look = %+v", i, v)
		}
		if first := m.firstAlone(); w.state == Resting && m.holder == "" && first.state == Resting {
			h.Fatalf("waiter %d rests, and nobody will pass the key on to it", i)
		}
	}
	p, open := h.set.of("k"), 0
	for _, w := range m.waiters {
		open += w.open
	}
	if q := p.queues["k"]; q != nil && q.inFlight != open {
		h.Fatalf("%d commands are under way, want %d", q.inFlight, open)
	}
	if len(m.waiters) == 0 && m.holder == "" && (len(p.queues) > 0 || len(p.tokens) > 0) {
		h.Fatalf("%d queues and %d tokens are kept for nobody", len(p.queues), len(p.tokens))
	}
}

const perKey = 12

func TestRandomHistories(t *testing.T) {
	for seed := range uint64(400) {
		h := &history{T: t, rand: rand.New(rand.NewPCG(seed, 0)), model: &model{}, clock: 1_000_000}
		h.set = NewSet(perKey, 1000, true, func(string) string { return h.token() })
		steps := []func(){h.join, h.join, h.join, h.ask, h.answer, h.answer, h.wake, h.wake, h.leave, h.pass, h.pass, h.hand, h.passed, h.passed, h.push, h.drop, h.askSome}
		for range 300 {
			steps[h.rand.IntN(len(steps))]()
			h.check()
			if t.Failed() {
				t.Logf("seed %d", seed)
				for _, line := range h.log {
					t.Log(line)
				}
				return
			}
		}
	}
}
