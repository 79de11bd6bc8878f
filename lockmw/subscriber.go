package lockmw

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/retry"
	"github.com/lockmw/kit/internal/store"
)

const (
	firstBackoff = 20 * time.Millisecond // after a subscription that worked
	maxBackoff   = time.Second           // what a missed wake-up may cost at most
	refusedPause = 30 * time.Second      // between tries where subscribing is not allowed
	soundAfter   = 5 * time.Second       // a subscription this old was sound
)

// A subscriber keeps one subscription to hand-overs alive. It begins with the
// first call that may wait, or with the Locker where settings come from Redis. While there is no subscription, waiters poll.
type subscriber struct {
	locker *Locker
	once   sync.Once
	cancel context.CancelFunc
	ctx    context.Context
	ended  chan struct{}

	// Listen's goroutine and run use these in turn.
	listened bool // the present call of Listen had a subscription
	told     bool // the log says that there is no subscription

	// current is the number of the present session: another one for each subscription, and after each time that the server
	// could not be reached. 0: no subscription is known to be alive.
	current atomic.Uint64
	last    atomic.Uint64 // the number that was given last
}

// session is the number of the present session, for hasHeardSince: whoever sends a command asks for it before.
func (s *subscriber) session() uint64 { return s.current.Load() }

// hasHeardSince reports whether all messages have come since session returned that number, as far as is known.
func (s *subscriber) hasHeardSince(session uint64) bool {
	return session != 0 && s.current.Load() == session
}

// doubt notes that messages may have been missed.
func (s *subscriber) doubt() {
	if was := s.current.Load(); was != 0 {
		s.current.CompareAndSwap(was, s.last.Add(1))
	}
}

func newSubscriber(l *Locker) *subscriber {
	s := &subscriber{locker: l, ended: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *subscriber) start() { s.once.Do(func() { go s.run() }) }

// stop ends the subscription and waits for its goroutine.
func (s *subscriber) stop() {
	s.cancel()
	s.once.Do(func() { close(s.ended) }) // never started
	<-s.ended
}

func (s *subscriber) run() {
	defer close(s.ended)
	backoff, reported := firstBackoff, false
	for {
		s.listened = false
		began := time.Now()
		err := s.locker.store.Listen(s.ctx, s.ear())
		s.current.Store(0)
		if err == nil || s.ctx.Err() != nil {
			return
		}
		pause := backoff
		switch {
		case store.AsError(err).Permanent:
			pause = refusedPause
		case s.listened && time.Since(began) > soundAfter:
			backoff, pause, reported = firstBackoff, firstBackoff, false
		default:
			backoff = min(2*backoff, maxBackoff)
			if s.listened { // it works, and is cut again and again
				backoff = min(backoff, 4*firstBackoff)
			}
		}
		if !reported {
			reported, s.told = true, true
			s.locker.log.Warn("lockmw: no subscription to releases; waiters poll for their turn until there is one", "error", err)
		}
		select {
		case <-time.After(retry.Jitter(pause)):
		case <-s.ctx.Done():
			return
		}
	}
}

// ear is what hears messages.
func (s *subscriber) ear() store.Listener {
	if s.locker.settings.readsRedis() {
		return settingsEar{s}
	}
	return s
}

// A settingsEar also hears that settings may have changed.
type settingsEar struct{ *subscriber }

// SettingsChanged implements store.SettingsListener.
func (s settingsEar) SettingsChanged() { s.locker.settings.hint() }

// Listening implements store.Listener. Grants may have been missed while
// nobody listened, and the store should know that somebody does now.
func (s *subscriber) Listening() {
	s.listened = true
	if s.told {
		s.told = false
		s.locker.log.Info("lockmw: subscribed to releases; waiters are told when it is their turn")
	}
	s.current.Store(s.last.Add(1))
	s.locker.waiters.AskFirsts()
}

// Granted implements store.Listener. A grant that nobody waits for any more
// is given back, so that the first of the queue has it. A waiter that found its
// grant by asking holds it already.
func (s *subscriber) Granted(g store.News) {
	l := s.locker
	if !l.waiters.Granted(g) && !l.holds(g.Ref) {
		l.janitor.Add(g.Ref, true)
	}
}

// OthersWait implements store.Listener.
func (s *subscriber) OthersWait(key, token string, came int64) {
	s.locker.waiters.OthersWait(key, token, came)
}

// Revoked implements store.Listener.
func (s *subscriber) Revoked(key, token string) {
	if t := s.locker.tenureRevoked(key, token); t != nil {
		t.lostInStore(t.whyNotHeld())
	}
}

// Revoking implements store.Listener.
func (s *subscriber) Revoking(key, token string, by store.Intervention) {
	s.locker.noteRevocation(key, token, func(r *revocation) { r.by = by })
}
