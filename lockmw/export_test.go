package lockmw

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/lockmw/kit/internal/store"
)

// Waiting returns how many calls of Acquire wait for key in this process.
func Waiting(l *Locker, key string) int {
	return len(l.waiters.States(key))
}

// RenewAll has all that is held renewed, and returns when they are.
func RenewAll(l *Locker) { l.watchdog.RenewAll() }

// Deafen has l not be told who else waits, nor that a lock was taken from it. It must be
// called before the first lock is asked for.
func Deafen(l *Locker) { l.store = deafStore{l.store} }

type deafStore struct{ store.Store }

func (s deafStore) Listen(ctx context.Context, h store.Listener) error {
	return s.Store.Listen(ctx, deafListener{h})
}

type deafListener struct{ store.Listener }

func (deafListener) OthersWait(string, string, int64) {}
func (deafListener) Revoked(string, string)           {}

// Listens has l listen to messages only while the returned flag is set, which it is at
// first: the next try to subscribe fails. It must be called before the first lock is
// asked for.
func Listens(l *Locker) *atomic.Bool {
	s := listeningStore{l.store, new(atomic.Bool)}
	s.may.Store(true)
	l.store = s
	return s.may
}

type listeningStore struct {
	store.Store
	may *atomic.Bool
}

func (s listeningStore) Listen(ctx context.Context, h store.Listener) error {
	if !s.may.Load() {
		return &store.Error{Err: errors.New("no subscription")}
	}
	return s.Store.Listen(ctx, h)
}

// Closing returns a channel that is closed when Close begins.
func Closing(l *Locker) <-chan struct{} { return l.closing }

// ForAnswer has err be of a call of Do.
func ForAnswer(err error) error {
	err.(*AcquireError).forAnswer = true //nolint:errorlint // it is made in the test
	return err
}

// Adjust is what live settings make of p, for a call of Acquire.
//
//go:noinline
func Adjust(l *Locker, p Policy) Policy {
	l.adjust(&p, forAcquire)
	return p
}

// Unadjusted is Adjust, but for the settings: what is left of its time is what they take.
//
//go:noinline
func Unadjusted(_ *Locker, p Policy) Policy { return p }

// HoldSettings keeps a Locker's settings from being changed, and from ending, until free.
func HoldSettings(l *Locker) (free func()) {
	l.settings.mu.Lock()
	return l.settings.mu.Unlock
}

// A Mute context panics in Err once it is spent.
type Mute struct {
	context.Context
	Spent *atomic.Bool
}

// Err implements context.Context.
func (m Mute) Err() error {
	if m.Spent.Load() {
		panic("spent")
	}
	return m.Context.Err()
}
