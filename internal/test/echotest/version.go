// Package echotest is what the tests of both Echo doors (echolock, echolock/v5) have in
// common: [Doortest] serves the routes of internal/test/doortest in either version of Echo,
// and [Run] checks what only Echo has.
//
// Start reading at this file (how a version is used), then doortest.go, run.go (the list
// of what is checked) and misuse.go (where a developer puts the middleware).
package echotest

import (
	"net/http"
	"time"

	"github.com/lockmw/kit/internal/echodoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Context is what the handlers of these tests use of Echo's.
type Context interface {
	echodoor.Context
	Set(name string, value any)
	QueryParam(name string) string
	Bind(to any) error
	String(status int, text string) error
}

// A Middleware is Echo's.
type Middleware[C Context] = func(next func(C) error) func(C) error

// An App is an Echo.
type App[C Context] interface {
	http.Handler
	// Route adds a route, RouteNotFound one for unknown paths.
	Route(method, path string, handler func(C) error, around ...Middleware[C])
	RouteNotFound(path string, handler func(C) error)
	// Within adds a route to a new group.
	Within(prefix string, around Middleware[C], method, path string, handler func(C) error)
	// Around is Echo.Use, Before is Echo.Pre.
	Around(m Middleware[C])
	Before(m Middleware[C])
	// OnError has Echo's default error handler work behind handle, unless that returns
	// false.
	OnError(handle func(c C, err error) (more bool))
}

// A Version is a version of Echo, with its door.
type Version[C Context] struct {
	Door string
	// New returns an Echo. It shows the text of errors to clients, if that is asked for.
	New func(showErrors bool) App[C]
	// Writer returns where a handler writes.
	Writer func(C) http.ResponseWriter
	// Before has Echo call f when an answer begins.
	Before func(c C, f func())
	// Error returns an error with which Echo answers, and which wraps reason. Status
	// returns the status with which Echo answers an error.
	Error  func(status int, message string, reason error) error
	Status func(err error) int
	// Recover and Logger are Echo's middlewares.
	Recover func() Middleware[C]
	Logger  func(note func(status int, err error)) Middleware[C]
	// Places are those of the door in which the other version does something else.
	Places []Place[C]

	// These are the door's functions.
	Lock                 func(l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, opts ...echodoor.Option[C]) Middleware[C]
	Once                 func(l *lockmw.Locker, key keyfunc.Func, f lockmw.Flight, opts ...echodoor.Option[C]) Middleware[C]
	Key                  func(func(C) (string, error)) keyfunc.Func
	WithErrorHandler     func(func(C, error) error) echodoor.Option[C]
	WithSkipper          func(func(C) bool) echodoor.Option[C]
	WithReadWrite        func() echodoor.Option[C]
	WithBodyLimit        func(int64) echodoor.Option[C]
	WithBodyTimeout      func(time.Duration) echodoor.Option[C]
	WithBufferedResponse func(int) echodoor.Option[C]
	WithKeep             func(func(status int, header http.Header) bool) echodoor.Option[C]
	WithFingerprint      func(func(C) ([]byte, error)) echodoor.Option[C]
	WithOptionalKey      func() echodoor.Option[C]
	WithKeysOfEverybody  func() echodoor.Option[C]
}
