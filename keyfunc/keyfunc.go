// Package keyfunc says what is locked: it derives a lock's key from a request.
//
// A [Func] reads a [Request] and returns the key. A Request is a view of one call, and
// is the same for net/http, Gin, Echo and gRPC. A middleware or an interceptor calls
// the Func for each call, and puts the Prefix of its lockmw.Policy in front of the key.
// Most routes need one template:
//
//	keyfunc.MustParse("order:{param.id|int}")   // order:42
//
// You can write the same as plain functions, but they have no filters such as |int:
//
//	keyfunc.Join(keyfunc.Const("order"), keyfunc.Param("id"))   // order:42
//
// [All] names several locks for one call. [Each] names one for each element of an
// array.
//
// # What a key looks like
//
// A key made here is never empty. It is valid UTF-8 of at most 210 bytes, and contains
// no '{', '}' or control character. These characters, '%' and bytes that are not UTF-8
// are written as %XX, as in a URL. A character that separates two values is written as
// %XX inside the values, so different values never give the same key: ("a:b", "c") and
// ("a", "b:c") are two locks. A key over 200 bytes is cut after about 140, and '#' and
// the SHA-256 of the whole key follow. Everything else stays as it is and can be read
// in a log.
//
// # What is not promised
//
// Two different Funcs may give the same key. That is right for routes that must exclude
// each other, such as paying an order and cancelling it. For other routes, put a
// different text, [Route] or Policy.Prefix in front of each key.
//
// A missing value and an empty one are the same. Upper and lower case, "7" and "007",
// and a missing value and 0 are different values, unless a filter such as |lower or
// |int says that the handler takes them as equal. Where a value may be missing, all
// requests without it have the same key. The key shows the values in it; use [Secret]
// for private ones.
//
// Many goroutines may call a Func made by this package at once.
package keyfunc

import (
	"context"
	"errors"
)

// Request is what a Func sees of one call. Each middleware and interceptor implements
// it. A Func must not keep the Request after it has returned. What only some calls have
// is in interfaces of its own: [FormRequest], [CookieRequest], [ArrayRequest] and
// [ParamRequest]. If a method returns a bool, the bool is false if the value is not
// there.
//
// A Request must return what the handler sees: the decoded parameter, and the value of
// a number in the body rather than its digits. Otherwise a client could dodge the lock
// by another spelling. Where handlers may differ in what they see, the middlewares
// refuse the request, whatever the Func returns. Their package comments say when.
type Request interface {
	// Context returns the context of the call.
	Context() context.Context
	// Method returns the HTTP method ("POST"); in gRPC, the full method
	// ("/shop.v1.Orders/Pay").
	Method() string
	// Route returns the route as the framework writes it ("/orders/:id",
	// "POST /orders/{id}"); in gRPC, the full method. It is empty where no route is
	// known.
	Route() string
	// Param returns the decoded route parameter of that name.
	Param(name string) (string, bool)
	// Query returns the query parameter of that name.
	Query(name string) (string, bool)
	// Header returns the header of that name, in any case; in gRPC, the incoming
	// metadata. Of several values it returns the first.
	Header(name string) (string, bool)
	// Body returns the body field at path ("customer.id"): a field of the JSON
	// body, or in gRPC of the request message. An error means that the body could
	// not be read, for example an [*net/http.MaxBytesError], or that handlers may
	// read something else in it.
	Body(path string) (string, bool, error)
	// Value returns what earlier middleware stored under name: in Gin and Echo,
	// what c.Set stored; in net/http and gRPC, what the option WithValues returns.
	Value(name string) (any, bool)
}

// Func derives the key of a lock from a request. If it returns an error, there is no
// key and the request does not run. If that error is [Skip], the request runs without a
// lock.
//
// A Func returns one key. A Func that names several keys ([All], [Each]) returns them
// in the place of the error. So a Func of your own that calls other Funcs must pass on
// their errors. Only [KeysOf] can tell several keys from a failure.
//
// Many goroutines call a Func at once. Functions of your own are Funcs too. They must
// escape the values that they join, or leave that to [Join]. What they return is used
// as it is, and must be 1 to 512 bytes without braces and control characters.
type Func func(Request) (string, error)

// Skip is the error with which a Func lets this request run without a lock. The
// functions that combine Funcs pass it on, so if one part skips, the whole skips.
// Test for it with [errors.Is].
var Skip = errors.New("keyfunc: run without a lock")

// The errors of the Funcs made here, for [errors.Is]. Their text names the source
// of the value ('param "id"'). It never contains the value, which may be private.
// An error that [Request.Body] returned is wrapped instead, so that [errors.As]
// finds it.
var (
	// ErrMissing says that a required value is missing or empty. An empty
	// key would lock all requests against each other.
	ErrMissing = errors.New("keyfunc: required value is missing or empty")

	// ErrInvalidValue says that a value is there but cannot be used: it is longer
	// than 8 KiB, or is not what a filter asks for.
	ErrInvalidValue = errors.New("keyfunc: value cannot be used")

	// ErrMisuse says that the program is wrong, not the request. For example, the route
	// has no parameter of that name, or no route is known where the middleware stands.
	// Or a Value is of a type that has no definite text, All is inside Join, or the key
	// of Each does not read its element. No client can do anything about it, so the
	// middlewares answer with 500 and lockmw.CodeMisuse. The error, which says what to
	// change, goes to the Locker's observers and its log (lockmw.WithLogger).
	//
	// An error about a route Is ErrMissing as well: a parameter that the route does not
	// have counts as missing, and an optional one may be missing there. The others are
	// ErrInvalidValue as well. Funcs of your own may wrap ErrMisuse.
	ErrMisuse = errors.New("keyfunc: mistake of the program")
)
