package lockmw

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/store"
)

// How a call runs whose policy has Shadow. It gets a lease at once, which holds nothing, and never meets Redis. Beside it, in a
// goroutine of the Locker's, runs its forecast (shadow.run), which is two things:
//
//   - a claim of the same policy to an inner Locker, whose locks lie in a namespace of their own (claims). It waits as the call
//     would have waited, and is refused as that would have been refused. Once granted, it holds the virtual lock for as long as
//     the work took, counted from the grant: the work began at once and is over sooner than it would have been, and without
//     its time in the lock no queue would build up behind it;
//   - a note of the time in which the work really runs (watches), by which those are seen that run at the same time.
//
// What comes of them is told as events. A forecast that cannot be made, because Redis is away or too many are under way, is told as
// EventShadowIncomplete, and is nobody's harm.

// A shadow is what a lease has whose policy has Shadow: no lock, and a forecast.
type shadow struct {
	lease    Lease
	mu       sync.Mutex // the lease's
	one      [1]string  // names, mostly
	names    []string   // what the forecast is about: keys with their prefix
	deadline time.Time  // of the context that Acquire was called with; zero: it has none

	over   chan struct{} // closed by the release
	worked time.Duration // how long the work took, once over is closed

	failed     atomic.Bool // MarkFailed was called
	looksAway  atomic.Bool // the work has the lock itself, by another lease, so it is not to be seen
	incomplete atomic.Bool // the observers have been told so
}

func (s *shadow) trusted() bool { return true }

func (s *shadow) remains(*Lease) (left time.Duration, ok bool) { return 0, false }

func (s *shadow) reliesOn() []*Lease { return nil }

// release ends the work. The forecast goes on.
func (s *shadow) release(_ context.Context, l *Lease) error {
	s.worked = time.Since(l.start)
	l.finish()
	close(s.over)
	return nil
}

// Shadow reports whether the lease is one of a policy with Shadow. Such a lease holds no lock, and others may be at work at the
// same time. Its Fence is 0, and its Release returns nil. It is Valid until its release, or until MaxHold has passed. Shadow is
// false for a nil Lease.
func (l *Lease) Shadow() bool { return l.inShadow() != nil }

// inShadow returns what a lease in shadow has, and nil for any other.
func (l *Lease) inShadow() *shadow {
	if l == nil {
		return nil
	}
	s, _ := l.has.(*shadow)
	return s
}

// acquireShadow is Acquire, and AcquireAll, of a policy with Shadow. The error is a mistake of the program, or nil.
func (l *Locker) acquireShadow(ctx context.Context, p Policy, keys ...string) (*Lease, error) {
	err := l.Validate(p)
	for i := 0; i < len(keys) && err == nil; i++ {
		err = validateKey(keys[i])
	}
	if err != nil {
		c := l.newClaim(ctx, keys[0], p, time.Now(), nil)
		return nil, c.refused(err)
	}
	s := &shadow{over: make(chan struct{})}
	s.names = s.one[:0]
	s.deadline, _ = ctx.Deadline()
	lease := &s.lease
	lease.locker, lease.policy, lease.has, lease.mu = l, p.withDefaults(), s, &s.mu
	lease.ref = lease.policy.ref("")
	refused := ""
	for _, key := range keys {
		name := p.Prefix + key
		outer, shadowed := l.heldBy(ctx, name)
		if outer == nil {
			outer = shadowed
		}
		switch {
		case outer == nil:
			s.names = append(s.names, name)
		case !p.Reentrant || !outer.covers(lease.ref.Kind):
			refused = name
		}
	}
	lease.ref.Key = p.Prefix + keys[0]
	if len(keys) > 1 {
		lease.ref.Key = p.Prefix + strings.Join(keys, ", "+p.Prefix)
	}
	lease.start = time.Now()
	lease.derive(ctx)
	lease.limitHold()
	switch {
	case refused != "": // the call would not have had any of the locks
		lease.misused(refused)
		l.shadows.use(l, lease.policy.Name)
	case len(s.names) == 0: // it would have joined leases that its context has
		l.shadows.use(l, lease.policy.Name)
	case l.shadows.enter(l, lease.policy.Name):
		go s.run()
	default:
		s.missed(errShadows)
	}
	return lease, nil
}

var errShadows = errors.New("lockmw: too many forecasts of policies in shadow are under way")

// nested takes in that work under a lease in shadow asks for the lock itself, by claim c: enforcing, the lease would have had it already.
func (s *shadow) nested(c *claim) {
	s.looksAway.Store(true)
	if !c.given.Reentrant || !s.lease.covers(c.ref.Kind) {
		s.lease.misused(c.ref.Key)
	}
}

// misused tells that enforcing a call for the lock called name would have been refused, because its context has it.
func (l *Lease) misused(name string) {
	e := l.policy.event(EventShadowRefused, name)
	e.Err = &AcquireError{Name: l.policy.Name, Key: name, Err: ErrReentrant}
	e.Reason = CodeMisuse
	l.locker.wouldRefuse(e)
}

// run makes the forecast. The Locker's Close waits for it.
func (s *shadow) run() {
	l := s.lease.locker
	defer l.shadows.leave()
	inner, err := l.shadows.inner(l)
	if err != nil {
		s.missed(err)
		return
	}
	l.checkOnce.Do(l.checkServer) // a trial is to show what is wrong with the server, too
	var watching sync.WaitGroup
	watching.Go(func() { s.watches(inner) })
	s.claims(inner)
	watching.Wait()
}

// claims asks for the virtual lock, and holds it for as long as the work took.
func (s *shadow) claims(inner *Locker) {
	l := s.lease.locker
	ctx, end := s.patience()
	lease, queued, err := s.ask(ctx, inner)
	end()
	if l.isClosed() {
		err = ErrClosed
	}
	switch {
	case errors.Is(err, ErrClosed): // of the Locker itself, so that nobody asks any more
	case errors.Is(err, ErrUnavailable):
		s.missed(err)
	case err != nil:
		e := s.event(EventShadowRefused)
		e.Err = err
		if refusal, ok := errors.AsType[*AcquireError](err); ok {
			e.Key, e.Waited, e.Queued, e.Attempts = refusal.Key, refusal.Waited, refusal.Queued, refusal.Attempts
		}
		told, _ := RefusalOf(err)
		e.Reason = told.Code
		l.wouldRefuse(e)
	default:
		e := s.event(EventShadowAcquired)
		e.Waited, e.Queued = max(lease.start.Sub(s.lease.start), 0), queued
		l.tellLater(context.Background(), e)
	}
	if lease == nil {
		return
	}
	s.holds(lease)
	if s.failed.Load() {
		lease.MarkFailed()
	}
	if err := lease.releaseWithin(context.Background()); err != nil && !l.isClosed() {
		s.missed(err)
	}
}

// ask asks for the virtual lock, or for several, with the policy of the call.
func (s *shadow) ask(ctx context.Context, inner *Locker) (lease *Lease, queued bool, err error) {
	p := s.lease.policy
	p.Shadow, p.FailOpen = false, false
	if len(s.names) == 1 {
		c := inner.newClaim(ctx, s.names[0][len(p.Prefix):], p, s.lease.start, nil)
		lease, err = c.acquire()
		return lease, !c.queuedAt.IsZero(), err
	}
	keys := make([]string, len(s.names))
	for i, name := range s.names {
		keys[i] = name[len(p.Prefix):]
	}
	lease, err = inner.acquireAll(ctx, keys, p)
	if err != nil {
		return nil, false, err
	}
	all, _ := lease.has.(*bundle)
	return lease, all.queued, nil
}

// patience returns a context that ends when the caller would have given up its wait: at its deadline, or when its own context ends while
// the work goes on. After the release its context's end means nothing: the request was answered, and would be waiting otherwise. end ends it.
func (s *shadow) patience() (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(s.lease.locker.shadows.life())
	stop := context.AfterFunc(s.lease.ctx, func() {
		if s.lease.holds(held) { // otherwise the release has ended it, or MaxHold, which counts from the grant
			cancel(context.Cause(s.lease.ctx))
		}
	})
	bounded, free := ctx, func() {}
	if !s.deadline.IsZero() {
		bounded, free = context.WithDeadline(ctx, s.deadline)
	}
	return bounded, func() { stop(); free(); cancel(nil) }
}

// holds returns when the virtual lock is to be given back.
func (s *shadow) holds(lease *Lease) {
	closing := s.lease.locker.closing
	select {
	case <-s.over:
	case <-closing:
		return
	}
	timer := time.NewTimer(s.worked - time.Since(lease.start))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closing:
	}
}

// watches notes the work for as long as it runs, and tells if somebody else is at work who should not be.
func (s *shadow) watches(inner *Locker) {
	l, token := s.lease.locker, inner.store.NewToken("")
	noted := make([]int64, len(s.names))
	ticker := time.NewTicker(store.NoteEvery)
	defer ticker.Stop()
	overlapped := false
	for over := false; ; {
		select {
		case <-s.over:
			over = true
		default:
		}
		for i, name := range s.names {
			b, err := s.note(inner, token, name, noted[i], over)
			if l.isClosed() {
				return
			}
			if err != nil {
				s.missed(err)
				continue
			}
			noted[i] = b.Noted
			if b.Locked {
				l.shadows.mixed(s.lease.policy.Name)
			}
			if b.Overlaps && !overlapped {
				overlapped = true
				s.tellOverlap(name, b.Locked)
			}
		}
		if over {
			return
		}
		select {
		case <-s.over:
		case <-ticker.C:
		case <-l.closing:
			return
		}
	}
}

// note notes the work once.
func (s *shadow) note(inner *Locker, token, name string, noted int64, over bool) (store.Beside, error) {
	if p := inner.outage.Prospect(name); p.Reach != outage.Reachable {
		return store.Beside{}, errNoAnswer(p)
	}
	w := store.Work{
		Key: name, Token: token, Kind: s.lease.ref.Kind, Noted: noted, Looks: !s.looksAway.Load(),
		Began: time.Since(s.lease.start), Ended: -1,
	}
	if over {
		w.Ended = max(w.Began-s.worked, 0)
	}
	return inner.store.Note(s.lease.locker.shadows.life(), w)
}

// event describes what the forecast tells.
func (s *shadow) event(kind EventKind) Event {
	p := &s.lease.policy
	e := p.event(kind, s.lease.ref.Key)
	e.Mixed = s.lease.locker.shadows.isMixed(p.Name)
	return e
}

// tellOverlap tells that somebody else was at work on the key called name; locked says that somebody has the lock itself.
func (s *shadow) tellOverlap(name string, locked bool) {
	l, e := s.lease.locker, s.event(EventShadowOverlap)
	e.Key, e.Mixed = name, locked
	l.tellLater(context.Background(), e)
	l.logSeldom(slog.LevelWarn, "shadow: overlap", e.Name, "lockmw: two were at work at the same time, which the lock would have kept apart; the policy runs in shadow",
		slog.String("key", e.Key), slog.Bool("enforced_elsewhere", locked))
}

// wouldRefuse tells that enforcing a call would have been refused, as e says.
func (l *Locker) wouldRefuse(e Event) {
	l.tellLater(context.Background(), e)
	reason := e.Reason
	if reason == "" {
		reason = "the caller's context was cancelled"
	}
	l.logSeldom(slog.LevelInfo, "shadow: refused "+e.Reason, e.Name, "lockmw: a call ran that would have been refused; its policy runs in shadow",
		slog.String("key", e.Key), slog.String("reason", reason))
}

// missed tells that the call's forecast is not complete, because of err, once.
func (s *shadow) missed(err error) {
	if s.incomplete.Swap(true) {
		return
	}
	l, e := s.lease.locker, s.event(EventShadowIncomplete)
	e.Err = err
	l.tellLater(context.Background(), e)
	l.logSeldom(slog.LevelWarn, "shadow: incomplete", e.Name, "lockmw: what a policy in shadow would have done is not known of every call; no call is held up by that",
		slog.Any("error", err))
}
