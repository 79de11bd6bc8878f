// Package doortest is one suite of HTTP behaviours that every door runs: what
// is true of one door is true of all. A door's test makes the suite's routes
// in its framework and calls [Run].
//
// Each case is a function over a [testing.TB], so that the tests of this
// package can watch it fail for a door that is broken on purpose.
//
// Start reading at this file, then env.go (a server around the routes, on a
// testenv.Env of a Redis and a Locker), client.go (what a case sends), answer.go (what
// is asked of an answer), run.go (the list of cases), and any of the cases.
package doortest

import (
	"net/http"
	"strings"
	"time"

	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Framework serves routes with one door.
type Framework struct {
	// Door is the name of the door's package.
	Door string

	// Serve returns a server's handler with these routes, without any other
	// middleware.
	Serve func(routes ...Route) http.Handler

	// Key is the door's Key: a key function that gets the framework's own
	// view of the request, of which it shows r.
	Key func(key func(r *http.Request) (string, error)) keyfunc.Func

	// Meaningless are cases that say nothing about the framework, with the reason.
	Meaningless map[string]string
}

// A Route is one route with the door's middleware on it.
type Route struct {
	Method string
	Path   string // as net/http writes it: "/orders/{id}"

	Locks   *lockmw.Locker
	Key     keyfunc.Func
	Policy  lockmw.Policy
	Options Options

	// Flight has the route have an Idempotent, which takes it in the place of the Policy. It may be nil.
	Flight *lockmw.Flight
	// Behind has one more Middleware behind the door, with the Locks, Key, Policy and Options of that route. It may be nil.
	Behind *Route

	// Bare is a route without the door.
	Bare bool

	// Values are set by a middleware around the door, for a keyfunc.Value.
	Values map[string]any
	// Header is set by a middleware around the door, before it.
	Header http.Header
	// After is called by a middleware around the door, when the door is done,
	// with the request as the middleware then sees it. It may be nil.
	After func(r *http.Request)

	// Handle is the route's handler. An error is answered in the framework's
	// way.
	Handle func(x *Exchange) error
}

// Options are the door's options. Zero means that the option is not given.
type Options struct {
	// ErrorHandler gets the framework's response writer and request. An error
	// is returned by doors whose error handlers return one.
	ErrorHandler     func(w http.ResponseWriter, r *http.Request, err error)
	Skipper          func(r *http.Request) bool
	ReadWrite        bool
	BodyLimit        *int64
	BodyTimeout      time.Duration
	BufferedResponse *int
	Keep             func(status int, header http.Header) bool
	Fingerprint      func(r *http.Request) ([]byte, error)
	OptionalKey      bool
	KeysOfEverybody  bool
	Nil              bool // a nil option
	NilErrorHandler  bool // WithErrorHandler(nil)
	NilSkipper       bool // WithSkipper(nil)
	NilKeep          bool // WithKeep(nil)
	NilFingerprint   bool // WithFingerprint(nil)
}

// An Exchange is what a handler sees. Param and Query return what a careful
// handler of the framework takes for the value, decoded.
type Exchange struct {
	W     http.ResponseWriter
	R     *http.Request
	Param func(name string) string
	Query func(name string) string
}

// ColonPath writes a path as Gin and Echo do: "/orders/:id".
func ColonPath(path string) string {
	return strings.NewReplacer("{", ":", "}", "").Replace(path)
}
