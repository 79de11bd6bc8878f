// Package seam opens lockmw to other packages of this module, where users must
// not reach in: to benchmarks that want a Locker without Redis, to fence, to locktest, to lockadmin and to lockctl.
// Package lockmw fills in the functions when it is initialised. A Locker is
// passed as any, because lockmw imports this package.
package seam

import (
	"context"
	"errors"

	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/store"
)

// ErrNoIdempotencyKey is why a request is refused that has no idempotency key and needs one. lockmw knows what a client is told of it.
var ErrNoIdempotencyKey = errors.New("no idempotency key")

// DefaultMaxAnswer is how many bytes an answer may have where lockmw.Flight.MaxAnswer is zero.
const DefaultMaxAnswer = 32 << 10

// NewLocker returns a *lockmw.Locker over s with options, each a lockmw.Option. It panics if
// one is wrong.
var NewLocker func(s store.Store, opts ...any) any

// LookInto returns a lockmw.Option that is WithNamespace, and also takes the namespace of policies with Shadow: for who looks at locks, and takes none.
var LookInto func(namespace string) any

// RenewNow has the *lockmw.Locker locker renew its leases of key (with prefix)
// at once, so that one that was lost is told without waiting for its turn.
var RenewNow func(locker any, key string)

// Warn has the *lockmw.Locker locker log text, which says what is wrong with the program,
// as long as it runs once. p is the lockmw.Policy of the lock that it is about.
var Warn func(locker any, ctx context.Context, p any, text string)

// Crash has all locks of the *lockmw.Locker locker end as if its process had died and their TTLs had passed. Their leases are lost; what
// their work releases from now on changes nothing in Redis. forget is called once for each key (with prefix) that was held, to remove it
// there, and must not use the Locker. Crash reports whether there was one. It waits for releases that are under way: they count as done before.
var Crash func(locker any, forget func(key string)) bool

// Waiting returns how many calls of Acquire of the *lockmw.Locker locker stand in the
// queue for key (with prefix), and how many of Do wait for what another one makes. While
// Redis cannot be reached, those count that are to ask when it is back.
var Waiting func(locker any, key string) int

// Reaches reports whether the *lockmw.Locker locker can reach its servers, as far as it
// knows, and has no doubt of it since a command was refused. One that is closed asks them no more, and does.
var Reaches func(locker any) bool

// Recent returns the last refusals and losses of the *lockmw.Locker locker.
var Recent func(locker any) *recent.Log

// Settings returns what the *lockmw.Locker locker says of its live settings, a []lockmw.Setting.
var Settings func(locker any) any

// ReadSettings returns what operators have set in the *lockmw.Locker locker's Redis, by pattern, and the clock of Redis at that, in µs since 1970. ctx bounds it.
var ReadSettings func(ctx context.Context, locker any) (texts map[string]string, clock int64, err error)

// A Fence is what the *lockmw.Lease of Fences has of one lock.
type Fence struct {
	Key      string // with its prefix
	RedisKey string // the namespace is a part of it
	Fence    int64  // 0: there is none
	Shared   bool   // others may hold the lock at the same time: readers, or holders of permits
}

// Fences returns what lease, a *lockmw.Lease that is not nil, has of each of its locks. One that has joined another has that one's.
var Fences func(lease any) []Fence

// Outer returns the *lockmw.Lease that the context of the Acquire of lease, a *lockmw.Lease, had already, or nil.
var Outer func(lease any) any

// TakenByDoor notes that a door has taken lease, a *lockmw.Lease, for the handler behind it. Nobody must have the lease yet.
var TakenByDoor func(lease any)

// DoorInFront reports whether ctx is that of work under a lock that a door has taken for one request alone: not for readers, nor with several permits. It does
// not look further than the work of a lockmw.Do.
var DoorInFront func(ctx context.Context) bool

// Guarded has the observers told that work of lease, a *lockmw.Lease, was let through although nothing guards what it writes under the lock of key, or was
// refused because a later holder has written: then stale says so.
var Guarded func(lease any, key string, stale error)

// A Call is a call of lockmw.Do while its function is at work, as the doors know it within that work and around it. Its methods may be called by
// several goroutines at the same time, but for Unknown.
type Call interface {
	// Stop notes that a lock within the work has ended before what ran under it: it was lost, or was held for longer than its MaxHold.
	Stop()
	// Stopped reports whether that was noted.
	Stopped() bool

	// Doubt says that what the function returns does not tell whether the work was done. It does what lockmw.MarkUncertain does, but not where
	// lockmw.NotAnAnswer is called, before it or after it.
	Doubt()
	// Doubted reports whether that was said.
	Doubted() bool

	// Unknown returns a *lockmw.UncertainError if nobody knows whether the work was done, and whoever asks next is told so; and nil otherwise. It is
	// called by the goroutine of Do, when that has returned.
	Unknown() error
}

// CallOf returns the Call of whose work ctx is, the innermost one, or nil.
var CallOf func(ctx context.Context) Call

// Set puts text in the place of what is set under a pattern in the *lockmw.Locker locker's Redis, or with an empty text takes that
// away: only if was is set there, of which an empty one stands for nothing; with nil, whatever is. had is what was set there, or empty,
// and done says that text is there now. ctx bounds it.
var Set func(ctx context.Context, locker any, pattern string, was *string, text string) (had string, done bool, err error)
