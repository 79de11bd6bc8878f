// Package lockadmin has a page for operators: which locks are held and waited for, by
// whom, since when and for how much longer, and which were refused or lost of late. It is
// live, and made of the standard library alone: the page loads nothing from elsewhere.
//
//	mux.Handle("/admin/locks", signedIn(lockadmin.Handler(locks, lockadmin.WithHosts("locks.internal"))))
//
// The handler has no authentication of its own, and keys and notes are often private: put
// what your service signs people in with in front of it, or serve it on an address that
// only operators reach. Such an address alone does not keep a site out that an operator's
// browser visits, so the page answers to IP addresses, to localhost and to the names that
// WithHosts gives it, and to no other. It may be mounted at any path, with or without
// http.StripPrefix.
//
// The page tells of answers of lockmw.Do and of middlewares called Idempotent: how long one is
// kept, and of which work nobody knows whether it was done. It never shows what is in an answer.
//
// The page changes nothing, unless WithForceRelease says who may take a lock from its
// holder, or WithResolve who may say what became of work.
//
// Start reading at page.go, which answers what the page asks for. poller.go reads all locks,
// table.go keeps them as lock.go describes them, and stream.go tells the page. find.go is what
// an operator looks for, and wish.go what one wants changed, by release.go or resolve.go;
// hosts.go says by which names the page is asked for. The page itself is in the folder static.
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

// WithForceRelease lets those take a lock from its holders for whose requests authorise
// returns true. It is asked when the page is opened, and again for each release. Without
// this option the page releases nothing.
//
// The former holder works on, beside the next one, until it learns that the lock is lost,
// see lockmw.Locker.ForceRelease. The page asks for confirmation first. authorise is called
// by many goroutines at once; Handler panics if it is nil.
func WithForceRelease(authorise func(*http.Request) bool) Option {
	return func(o *options) {
		if authorise == nil {
			panic("lockadmin: WithForceRelease: the function is nil")
		}
		o.mayRelease = authorise
	}
}

// WithResolve lets those say what became of uncertain work, see lockmw.Locker.Resolve, for
// whose requests authorise returns true. It is asked when the page is opened, and again for
// each resolution. Without this option the page resolves nothing.
//
// The page can say that the work was not done, so that the next request does it (lockmw.Again),
// and that nobody is to do it any more (lockmw.Discard). It cannot say what an answer is
// (lockmw.Done). Whoever says Again of a payment that was made has it made twice: so this is a
// right of its own, and WithForceRelease does not give it. The page asks for confirmation first.
// authorise is called by many goroutines at once; Handler panics if it is nil.
func WithResolve(authorise func(*http.Request) bool) Option {
	return func(o *options) {
		if authorise == nil {
			panic("lockadmin: WithResolve: the function is nil")
		}
		o.mayResolve = authorise
	}
}

// WithAuthor says who asks for a release or a resolution: author returns the name of the person whom the request comes from, as the
// service that signs people in knows it. It is told, with the reason that the operator types, to the former holder, the log and the
// observers of the Locker, see lockmw.Intervention. What is too long is cut, and what cannot be printed is left out. By default it is
// the address that the request comes from, which may be that of a proxy. author is called by many goroutines at once; Handler panics if it is nil.
func WithAuthor(author func(*http.Request) string) Option {
	return func(o *options) {
		if author == nil {
			panic("lockadmin: WithAuthor: the function is nil")
		}
		o.author = author
	}
}

// WithLogger sets where the handler reports what the page does not tell: why Redis cannot
// be reached, and releases by force and resolutions with the address they were asked for from.
// By default nothing is logged. Handler panics if logger is nil.
func WithLogger(logger *slog.Logger) Option {
	return func(o *options) {
		if logger == nil {
			panic("lockadmin: WithLogger: the logger is nil")
		}
		o.logger = logger
	}
}

// WithLimit sets how many locks the page shows at most. Where there are more, it says so,
// and finds the others by how their keys begin. The default is 10,000.
// Handler panics unless n is positive.
func WithLimit(n int) Option {
	return func(o *options) {
		if n < 1 {
			panic(fmt.Sprintf("lockadmin: WithLimit: %d locks; at least 1 is needed", n))
		}
		o.limit = n
	}
}

// Handler returns the page about the locks in the Redis of locks. Up to a hundred people may
// have it open at the same time; they share what is read of Redis. For as long as somebody has,
// all locks are read once a second, or less often where reading takes long; otherwise nothing
// is. The page itself says when Redis cannot be reached, and when the Locker is closed. Handler
// panics if locks or an option is nil.
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
