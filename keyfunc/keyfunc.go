// Package keyfunc says what is locked: it derives a lock's key from a request.
//
// A [Func] reads a [Request], a view of one call that is the same for net/http, Gin,
// Echo and gRPC, and returns the key. A middleware or an interceptor calls it for each
// call, and puts the Prefix of its lockmw.Policy in front. Most routes need one
// template:
//
//	keyfunc.MustParse("order:{param.id|int}")   // order:42
//
// and the same in plain functions:
//
//	keyfunc.Join(keyfunc.Const("order"), keyfunc.Param("id"))   // order:42
//
// [All] names several locks for one call, and [Each] one for each element of an array.
//
// # What a key looks like
//
// Keys made here are never empty, are valid UTF-8 of at most 210 bytes and
// hold no '{', '}' or control character. Those, '%' and bytes that are not
// UTF-8 are written as %XX, as in a URL. Whatever separates two values is
// written as %XX inside the values, so that different values never give the
// same key: ("a:b", "c") and ("a", "b:c") are two locks. A key over 200 bytes
// keeps its first 140 or so, followed by '#' and the SHA-256 of the whole.
// Everything else stays as it is and can be read in a log.
//
// # What is not promised
//
// Two different Funcs may give the same key. That is right for routes that must exclude
// each other, such as paying an order and cancelling it. Where it is not, put a
// different text, [Route] or Policy.Prefix in front of each. A missing value and an
// empty one are the same. Upper and lower case, "7" and "007", a missing value and 0
// are different values, unless a filter such as |lower or |int says that the handler
// takes them as equal. Where a value may be missing, all requests without it have one
// key. The key shows the values in it; use [Secret] for private ones.
//
// Every Func made by this package may be called by many goroutines at once.
//
// Start reading at this file, then template.go, combine.go, several.go and
// encode.go.
package keyfunc

import (
	"context"
	"errors"
)

// Request is what a Func sees of one call. Each middleware and interceptor implements
// it. A Func must not keep it after it has returned. What only some calls have is in
// interfaces of its own: [FormRequest], [CookieRequest], [ArrayRequest] and
// [ParamRequest]. Where a method returns a bool, it is false for what is not there.
//
// What a Request returns must be what the handler sees: the decoded parameter,
// the number and not its digits. Otherwise a client could dodge the lock
// by another spelling. Where handlers may differ in what they see, the middlewares
// refuse the request, whatever the Func returns; their package comments say when.
type Request interface {
	// Context returns the context of the call.
	Context() context.Context
	// Method returns the HTTP method ("POST"), in gRPC the full method
	// ("/shop.v1.Orders/Pay").
	Method() string
	// Route returns the route as the framework writes it ("/orders/:id",
	// "POST /orders/{id}"), in gRPC the full method. It is empty where no
	// route is known.
	Route() string
	// Param returns the decoded route parameter of that name.
	Param(name string) (string, bool)
	// Query returns the query parameter of that name.
	Query(name string) (string, bool)
	// Header returns the header of that name, in whatever case; in gRPC the first of
	// the incoming metadata.
	Header(name string) (string, bool)
	// Body returns the body field at path ("customer.id"): a field of the
	// JSON body, in gRPC of the request message. An error means that the
	// body could not be read, for instance an [*net/http.MaxBytesError], or
	// that handlers may read something else in it.
	Body(path string) (string, bool, error)
	// Value returns what earlier middleware stored under name: in Gin and Echo by
	// c.Set. In net/http and gRPC it is what the option WithValues returns.
	Value(name string) (any, bool)
}

// Func derives the key of a lock from a request. With an error there is no key, and the
// request does not run; with [Skip], which is an error too, it runs without a lock.
//
// A Func returns one key. What names several ([All], [Each]) returns them in the place
// of the error. So a Func of your own that calls others passes their errors on, and
// only [KeysOf] tells several keys from a failure.
//
// A Func is called by many goroutines at once. Functions of your own are Funcs
// too; they escape what they join, or leave that to [Join]. What they return is used
// as it is, and must be 1 to 512 bytes without braces and control characters.
type Func func(Request) (string, error)

// Skip is returned by a Func to run this request without a lock. The functions
// that combine Funcs pass it on, so one part that skips skips the whole.
// Test for it with [errors.Is].
var Skip = errors.New("keyfunc: run without a lock")

// The errors of the Funcs made here, for [errors.Is]. The text names the
// source ('param "id"'), never the value, which may be private. An error that
// [Request.Body] returned is wrapped instead, so that [errors.As] finds it.
var (
	// ErrMissing says that a required value is missing or empty. An empty
	// key would lock all requests against each other.
	ErrMissing = errors.New("keyfunc: required value is missing or empty")

	// ErrInvalidValue says that a value is there and cannot be used: it is
	// longer than 8 KiB, or is not what a filter asks for.
	ErrInvalidValue = errors.New("keyfunc: value cannot be used")

	// ErrMisuse says that the program is wrong and not the request: the route
	// has no parameter of that name, or none is known where the middleware
	// stands; a Value is of a type that has no definite text; All is inside Join, or
	// the key of Each does not read its element. No client can do anything about it,
	// so the middlewares answer with 500 and lockmw.CodeMisuse, and the error says
	// what to change; the Locker's observers get it, and its log (lockmw.WithLogger).
	// A parameter that a route does not have is missing, too: such an error Is
	// ErrMissing as well, and a parameter that is optional may be missing there. The
	// others are ErrInvalidValue as well. Funcs of your own may wrap
	// ErrMisuse.
	ErrMisuse = errors.New("keyfunc: mistake of the program")
)
