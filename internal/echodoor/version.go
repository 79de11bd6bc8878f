package echodoor

import (
	"net/http"
	"net/url"

	"github.com/lockmw/kit/lockmw"
)

// A Context is what both versions call so: one request and its answer.
type Context interface {
	Request() *http.Request
	SetRequest(r *http.Request)
	Path() string
	Param(name string) string
	QueryParams() url.Values
	Get(name string) any
}

// A Version tells how one version of Echo does what the other does in another way. C is
// its context, R what Response returns.
type Version[C Context, R http.ResponseWriter] interface {
	Routing[C]
	Responses[C, R]
	Errors[C]
}

// Routing is a Version's way to tell of routes.
type Routing[C Context] interface {
	// Param returns the i-th parameter of the route, as handlers get it, or false if
	// there are not that many.
	Param(c C, i int) (name, value string, ok bool)
	// Escaped reports whether parameters are as the client has sent them, so that a
	// handler must decode them.
	Escaped(c C) bool
	// BindsQuery reports whether c.Bind reads the query in requests with this method.
	BindsQuery(method string) bool
	// Unrouted tells what becomes of a request of which no key can be made, because of
	// err.
	Unrouted(c C, err error) Unrouted
}

// Unrouted is what becomes of a request of which no key can be made.
type Unrouted struct {
	// Passes tells that nothing but an answer of Echo's own such as 404 follows, for
	// which nobody needs a lock.
	Passes bool
	// Answer is what is answered without asking the handler, or nil: the refusal.
	Answer error
}

// Responses is a Version's way to say where a handler writes.
type Responses[C Context, R http.ResponseWriter] interface {
	// Response returns where c's handler writes.
	Response(c C) R
	// Below returns the writer that the door's writer goes on top of.
	Below(r R) http.ResponseWriter
	// Beneath returns the address of the writer that Echo's own writes to, if that is below what
	// Below has returned, and nil otherwise: a handler may ask for Echo's own.
	Beneath(r R) *http.ResponseWriter
	// Watch has the handler write to w, on top of what Below has returned.
	Watch(c C, r R, w http.ResponseWriter)
	// Hold has the handler write to w, which holds the response back: r must not change
	// until the response is sent.
	Hold(c C, r R, w http.ResponseWriter)
	// PutBack undoes Watch and Hold. below is what Below has returned.
	PutBack(c C, r R, below http.ResponseWriter)
	// Commit has Echo know that an answer has begun.
	Commit(r R)

	// IsCommitted reports whether Echo knows that an answer has begun. It does not where middleware in front holds it back.
	IsCommitted(r R) bool
}

// Errors is a Version's way to have Echo answer.
type Errors[C Context] interface {
	// Refusal returns an error that Echo's HTTPErrorHandler makes the problem of o of,
	// and that wraps err.
	Refusal(o lockmw.Refusal, err error) error
	// Answers reports whether err says by itself, not by what it wraps, which status is
	// to be answered.
	Answers(err error) bool
	// Render has Echo's HTTPErrorHandler answer err.
	Render(c C, err error)
}
