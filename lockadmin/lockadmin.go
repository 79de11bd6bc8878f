// Package lockadmin has a page for operators. It shows which locks are held and waited for, by
// whom, since when and for how much longer, and which were refused or lost of late. The page
// is live. It is made of the standard library alone, and loads nothing from elsewhere.
//
//	mux.Handle("/admin/locks", signedIn(lockadmin.Handler(locks, lockadmin.WithHosts("locks.internal"))))
//
// The handler has no authentication of its own, and keys and notes are often private. Put your
// service's sign-in in front of it, or serve it on an address that only operators reach. Such
// an address alone does not keep out a site that an operator's browser visits. So the page
// answers only to IP addresses, to localhost and to the names that WithHosts gives it. It may
// be mounted at any path, with or without http.StripPrefix.
//
// The page also tells of the answers of lockmw.Do and of middlewares called Idempotent: how
// long an answer is kept, and of which work nobody knows whether it was done. It never shows
// what is in an answer.
//
// The page changes nothing, unless WithForceRelease says who may take a lock from its holder,
// or WithResolve says who may resolve uncertain work.
package lockadmin

import (
	"fmt"
	"log/slog"
	"net/http"

	"github.com/lockmw/kit/lockmw"
)

// An Option changes what Handler's page shows or does.
type Option func(*options)

type options struct {
	hosts                  []string // canonical
	mayRelease, mayResolve right
	author                 func(*http.Request) string
	logger                 *slog.Logger
	limit                  int
}

// A right says for whose requests something is allowed. The nil right is nobody's.
type right func(*http.Request) bool

func (may right) of(r *http.Request) bool { return may != nil && may(r) }

// changes reports whether the page may change anything, for whomever.
func (o *options) changes() bool { return o.mayRelease != nil || o.mayResolve != nil }

// defaultLimit is how many locks the page shows, if WithLimit says nothing else.
const defaultLimit = 10_000

// WithForceRelease says who may take a lock from its holders: those for whose requests
// authorise returns true. It is asked when the page is opened, and again for each release.
// Without this option, the page releases nothing.
//
// The former holder works on beside the next one until it learns that the lock is lost; see
// lockmw.Locker.ForceRelease. The page asks for confirmation first. Many goroutines may call
// authorise at once. Handler panics if authorise is nil.
func WithForceRelease(authorise func(*http.Request) bool) Option {
	return func(o *options) {
		if authorise == nil {
			panic("lockadmin: WithForceRelease: the function is nil")
		}
		o.mayRelease = authorise
	}
}

// WithResolve says who may resolve uncertain work: those for whose requests authorise returns
// true; see lockmw.Locker.Resolve. authorise is asked when the page is opened, and again for
// each resolution. Without this option, the page resolves nothing.
//
// The page can say that the work was not done, so that the next request does it
// (lockmw.Again), or that nobody is to do it any more (lockmw.Discard). It cannot say what an
// answer is (lockmw.Done). If somebody says Again of a payment that was made, it is made
// twice. So this is a right of its own, and WithForceRelease does not give it. The page asks
// for confirmation first. Many goroutines may call authorise at once. Handler panics if
// authorise is nil.
func WithResolve(authorise func(*http.Request) bool) Option {
	return func(o *options) {
		if authorise == nil {
			panic("lockadmin: WithResolve: the function is nil")
		}
		o.mayResolve = authorise
	}
}

// WithAuthor says who asks for a release or a resolution. author returns the name of the person whom the request comes from, as the service
// that signs people in knows it. The name and the reason that the operator types are told to the former holder, the log and the observers
// of the Locker; see lockmw.Intervention. A name over 128 bytes is cut, and characters that cannot be printed are left out. By default the
// name is the address that the request comes from, which may be that of a proxy. Many goroutines may call author at once. Handler panics if
// author is nil.
func WithAuthor(author func(*http.Request) string) Option {
	return func(o *options) {
		if author == nil {
			panic("lockadmin: WithAuthor: the function is nil")
		}
		o.author = author
	}
}

// WithLogger sets where the handler reports what the page does not tell. This is why Redis
// cannot be reached, why a request has panicked, and each release by force and each
// resolution, with the address that asked for it. By default nothing is logged. Handler panics
// if logger is nil.
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) {
		if logger == nil {
			panic("lockadmin: WithLogger: the logger is nil")
		}
		o.logger = logger
	}
}

// WithLimit sets how many locks the page shows at most. If there are more, the page says so,
// and finds the others by the beginning of their keys. The default is 10,000. Handler panics
// unless n is positive.
func WithLimit(n int) Option {
	return func(o *options) {
		if n < 1 {
			panic(fmt.Sprintf("lockadmin: WithLimit: %d locks; at least 1 is needed", n))
		}
		o.limit = n
	}
}

// Handler returns the page about the locks in the Redis of locks. Up to a hundred pages may be
// open at the same time, and share what is read from Redis. While a page is open, the locks
// are read once a second, or less often if reading takes long. Otherwise nothing is read. The
// page itself says when Redis cannot be reached, and when the Locker is closed. Handler panics
// if locks or an option is nil.
func Handler(locks *lockmw.Locker, opts ...Option) http.Handler {
	if locks == nil {
		panic("lockadmin: Handler: the Locker is nil")
	}
	o := options{logger: slog.New(slog.DiscardHandler), limit: defaultLimit, author: address}
	for _, opt := range opts {
		if opt == nil {
			panic("lockadmin: Handler: an option is nil")
		}
		opt(&o)
	}
	return newConsole(locks, o)
}
