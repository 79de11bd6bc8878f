package waitqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/shards"
	"github.com/lockmw/kit/internal/store"
)

// mostUnused bounds the queues that a shard keeps to be used again.
const mostUnused = 8

// A Set has the waiters of one Locker. It is safe for concurrent use.
type Set struct {
	perKey, total int          // the most waiters of a key, and of all
	canRest       bool         // the store need not know all waiters, see NewSet
	length        atomic.Int64 // of all queues together
	spare         sync.Pool    // of *Waiter: those that have left, to be used again
	parts         shards.Of[shard]
}

// A shard has the queues of some keys. Its mutex is never held while anything else is
// waited for, and no other mutex is taken under it.
type shard struct {
	newToken func(note string) string

	mu     sync.Mutex
	behind map[string]int     // by name: those without a place of their own, see Follow
	queues map[string]*queue  // by key
	tokens map[string]*Waiter // by token: the waiters of whom the store may know
	unused []*queue           // empty ones, to be used again
}

// NewSet returns a Set with room for total waiters in all, and perKey for each key. canRest
// says that a release can offer the lock to a waiter that the store does not know (see
// store.Give); otherwise all waiters ask. newToken makes a token, when the store is to know
// of a waiter that has none.
func NewSet(perKey, total int, canRest bool, newToken func(note string) string) *Set {
	s := &Set{perKey: perKey, total: total, canRest: canRest}
	for part := range s.parts.All() {
		part.newToken = newToken
		part.queues, part.tokens = make(map[string]*queue), make(map[string]*Waiter)
	}
	return s
}

// of returns the shard of key.
func (s *Set) of(key string) *shard { return s.parts.Part(key) }

// startAsking notes that w asks the store, which may know of it from now on. For that w needs
// a token.
func (p *shard) startAsking(w *Waiter) {
	w.on(asks)
	p.register(w)
}

// register has messages for w's token reach it.
func (p *shard) register(w *Waiter) {
	if w.ref.Token == "" {
		w.ref.Token = p.newToken(w.caller.Note)
	}
	p.tokens[w.ref.Token] = w
}

// open returns the queue of key, and makes one if there is none.
func (p *shard) open(key string) *queue {
	if q := p.queues[key]; q != nil {
		return q
	}
	var q *queue
	if n := len(p.unused); n > 0 {
		q, p.unused = p.unused[n-1], p.unused[:n-1]
	} else {
		q = new(queue)
	}
	q.key, q.asked = key, time.Now()
	p.queues[key] = q
	return q
}

// tidy comes after each change of q. It has somebody see to the turn of those who rest, and
// forgets q if it is of no use any more.
func (p *shard) tidy(q *queue) {
	if !q.promote() {
		return
	}
	delete(p.queues, q.key)
	if len(p.unused) < mostUnused {
		*q = queue{}
		p.unused = append(p.unused, q)
	}
}

// A Joined is what came of Join. The Waiter is nil if there was no room.
type Joined struct {
	*Waiter

	Rests  bool   // the waiter need not ask
	Holder any    // if it rests: who of the Locker has the lock and passes it on, or nil
	Token  string // if it does not rest: the token for its commands
	Behind int    // if it does not rest: how many more of the Locker wait, of whom the store does not know
}

// A Caller is what is known of the caller for whom a waiter waits.
type Caller struct {
	Name string // for CountByName
	Note string // for the waiter's token
	Asks bool   // the waiter does not rest: it may have the lock already, or the store something else for it than its turn
}

// Join puts a new waiter for ref at the end of its key's queue. If it does not rest, it
// has to ask. sends says that it does so at once: then a command is under way from now on,
// and an Answered, a Take with an answer, an Unanswered or a Leave must follow, as after Ask. If ref has no token, the waiter is given one as soon
// as the store is to know of it.
func (s *Set) Join(ref store.Ref, caller Caller, sends bool) Joined {
	came := time.Now()
	p := s.of(ref.Key)
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[ref.Key]
	if q != nil && q.waiters.Len() >= s.perKey {
		return Joined{}
	}
	if s.length.Add(1) > int64(s.total) {
		s.length.Add(-1)
		return Joined{}
	}
	if q == nil {
		q = p.open(ref.Key)
	}
	w, ok := s.spare.Get().(*Waiter)
	if !ok {
		w = &Waiter{Grants: make(chan Grant, 1), Wake: make(chan struct{}, 1)}
	}
	w.shard, w.ref, w.caller, w.came = p, ref, caller, came
	q.add(w, s.canRest && !caller.Asks)
	if w.state == Resting {
		return Joined{Waiter: w, Rests: true, Holder: q.holder}
	}
	p.register(w)
	if sends {
		w.counts(1)
	}
	return Joined{Waiter: w, Token: w.ref.Token, Behind: q.resting}
}

// Follow counts one more who waits for what comes of a waiter of key, without a place of its own, until Unfollow. others are how many
// do so already. It reports whether there is room.
func (s *Set) Follow(key, name string, others int) bool {
	if others >= s.perKey {
		return false
	}
	if s.length.Add(1) > int64(s.total) {
		s.length.Add(-1)
		return false
	}
	s.follow(key, name, 1)
	return true
}

// Unfollow undoes Follow.
func (s *Set) Unfollow(key, name string) {
	s.length.Add(-1)
	s.follow(key, name, -1)
}

func (s *Set) follow(key, name string, n int) {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.behind == nil {
		p.behind = make(map[string]int)
	}
	if p.behind[name] += n; p.behind[name] == 0 {
		delete(p.behind, name)
	}
}

// CountByName returns how many wait, by the names that they joined with.
func (s *Set) CountByName() map[string]int {
	names := make(map[string]int)
	for p := range s.parts.All() {
		p.mu.Lock()
		for name, n := range p.behind {
			names[name] += n
		}
		for _, q := range p.queues {
			for e := q.waiters.Front(); e != nil; e = e.Next() {
				names[at(e).caller.Name]++
			}
		}
		p.mu.Unlock()
	}
	return names
}

// Ask notes that w sends a command about its lock, and returns the token and the place to
// put into it. An Answered, a Take with an answer, an Unanswered or a Leave must follow. It is not ok if
// the lock was passed on to w just now: there is nothing to ask then.
func (s *Set) Ask(w *Waiter) (token string, place store.Place, ok bool) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return w.ask()
}

// ask is Ask for who has the shard's mutex.
func (w *Waiter) ask() (token string, place store.Place, ok bool) {
	if w.queue == nil {
		return "", store.Place{}, false
	}
	w.shard.startAsking(w)
	w.counts(1)
	return w.ref.Token, w.position(), true
}

// An Answer is what the store said to a command of a waiter.
type Answer struct {
	Sent   time.Time // when the command was sent
	Clock  int64     // the store's clock in the answer, µs
	Queued bool      // the waiter has a place in the store's queue
	Seen   any       // the caller's value for what the answer told of the lock's holder; see Left.Seen
}

// answeredOwn notes an answer to a command of w, one of q's waiters.
func (q *queue) answeredOwn(w *Waiter, a Answer) {
	w.counts(-1)
	q.asked, q.seen = a.Sent, a.Seen
	q.noteClock(Clock{a.Sent, a.Clock})
}

// Answered notes the answer to a command of w that ends in no Take: it did not give w the lock, or what it gave
// is of no use any more. It reports whether w is the one that asks on behalf of its queue.
func (s *Set) Answered(w *Waiter, a Answer) (first bool) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.queue.answeredOwn(w, a)
	if a.Queued {
		w.on(queued)
	} else {
		w.on(unqueued)
	}
	return w.queue.asker() == w
}

// Unanswered notes that a command of w ended without an answer.
func (s *Set) Unanswered(w *Waiter) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	w.counts(-1)
}

// Take takes w out of its queue, since the store has granted it the lock. answer is the one
// that said so, or nil if it was no answer to a command of w. If w wants the lock for itself
// alone, and waiters can rest here, holder stands for it from now on. Whoever gives the lock
// back may call PassOn first; unless that has passed the lock on, Offer or ForgetHolder must be
// called. nextCame is when the first of those came who wait on, on the store's clock, or 0. w
// must not be used any more.
func (s *Set) Take(w *Waiter, holder any, nextCame int64, answer *Answer) {
	p := w.shard
	p.mu.Lock()
	defer p.mu.Unlock()
	q := w.queue
	if answer != nil {
		q.answeredOwn(w, *answer)
	}
	q.remove(w, leaves)
	if s.canRest && w.wantsAlone() {
		q.holder, q.overstays = holder, nil
		q.contend(w.ref.Token, nextCame)
	}
	s.recycle(w)
	p.tidy(q)
}

// A Left is how a waiter stood when it gave up.
type Left struct {
	State   State
	Token   string
	Seen    any    // the Answer.Seen of the last answer to any waiter of the queue; nil if there was none since a holder of the Locker gave the lock back
	Holder  any    // who of the Locker has the lock and passes it on, or nil
	Others  int    // how many of the Locker wait on
	Resting int    // how many of those rest
	Handed  *Grant // not nil: the lock was passed on to the waiter, so its caller has to give it back
}

// Leave takes w out of its queue, since it gives up. w must not be used any more.
func (s *Set) Leave(w *Waiter) Left {
	p := w.shard
	p.mu.Lock()
	defer p.mu.Unlock()
	q := w.queue
	if q == nil { // PassOn has taken w out
		left := Left{State: Gone}
		select {
		case g := <-w.Grants:
			left = Left{State: Served, Handed: &g}
		default: // the caller has had the grant, and sees to it
		}
		s.Free(w)
		return left
	}
	left := Left{State: w.state, Token: w.ref.Token, Seen: q.seen, Holder: q.holder, Others: q.waiters.Len() - 1}
	q.remove(w, leaves)
	left.Resting = q.resting
	s.recycle(w)
	p.tidy(q)
	return left
}

// Seen returns what a waiter for the lock that gave up now would be told of who has it: a Left with Seen and Holder. It is empty
// if nobody waits and nobody of the Locker has the lock.
func (s *Set) Seen(key string) (left Left) {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.queues[key]; q != nil {
		left.Seen, left.Holder = q.seen, q.holder
	}
	return left
}

// recycle has w be used again. The caller holds the shard's mutex.
func (s *Set) recycle(w *Waiter) {
	if w.ref.Token != "" {
		delete(w.shard.tokens, w.ref.Token)
	}
	s.length.Add(-1)
	s.Free(w)
}

// Free has a waiter be used again to which the lock was passed on, and which has taken it or
// passed it on. Take and Leave do that by themselves. Everything reaches a waiter through its
// token or its queue, so nothing reaches this one any more.
func (s *Set) Free(w *Waiter) {
	select {
	case <-w.Grants:
	default:
	}
	select {
	case <-w.Wake:
	default:
	}
	w.mustAsk.Store(false)
	w.shard, w.queue, w.place, w.number, w.ref, w.last = nil, nil, nil, 0, store.Ref{}, false
	s.spare.Put(w)
}

// A View is how a waiter stands.
type View struct {
	State      State
	Front      bool      // the waiter is the first of its queue
	Asker      bool      // the waiter asks the store for all of its queue, again and again
	HasHolder  bool      // somebody of the Locker has the lock, and passes it on to those who want it alone, as the waiter does
	Asked      time.Time // when the last command of its queue was sent that was answered
	Unanswered bool      // nothing is known of the lock: a command is under way, and none was answered since the waiter came
}

// Look returns how w stands.
func (s *Set) Look(w *Waiter) View {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	q := w.queue
	if q == nil { // PassOn has taken w out
		return View{State: w.state}
	}
	return View{
		State: w.state, Front: w.place.Prev() == nil, Asker: q.asker() == w,
		HasHolder: q.holder != nil && w.wantsAlone(),
		Asked:     q.asked, Unanswered: q.inFlight > 0 && q.holder == nil && q.answered.Before(w.came),
	}
}

// AskAgain has the waiter of token, if there is one, ask the store.
func (s *Set) AskAgain(key, token string) {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.tokens[token]; w != nil {
		w.nudge(true)
	}
}

// AskFirst has the first waiter for the lock that does not rest, if there is one, ask the
// store: the lock may be free, or its own by now.
func (s *Set) AskFirst(key string) {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.queues[key]; q != nil {
		if w := q.asker(); w != nil {
			w.nudge(true)
		}
	}
}

// AskFirsts does that for all keys, and forgets what the store's clock said: it may be
// another server's now.
func (s *Set) AskFirsts() {
	for p := range s.parts.All() {
		p.mu.Lock()
		for _, q := range p.queues {
			q.clock = Clock{}
			if w := q.asker(); w != nil {
				w.nudge(true)
			}
		}
		p.mu.Unlock()
	}
}

// AskOthers has all of w's queue, but w and those that rest, ask the store.
func (s *Set) AskOthers(w *Waiter) {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	for e := w.queue.waiters.Front(); e != nil; e = e.Next() {
		if other := at(e); other != w && other.state != Resting {
			other.nudge(true)
		}
	}
}

// Resting returns how many wait for the lock of whom the store does not know.
func (s *Set) Resting(key string) int {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.queues[key]; q != nil {
		return q.resting
	}
	return 0
}

// States returns how the waiters for the lock stand, in their order. The engine
// asks for it on behalf of locktest.
func (s *Set) States(key string) []State {
	p := s.of(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[key]
	if q == nil {
		return nil
	}
	all := make([]State, 0, q.waiters.Len())
	for e := q.waiters.Front(); e != nil; e = e.Next() {
		all = append(all, at(e).state)
	}
	return all
}
