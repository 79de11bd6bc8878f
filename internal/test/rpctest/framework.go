// Package rpctest is one suite of behaviours of RPC methods under a lock, which gRPC
// and ConnectRPC run: what is true of one is true of both. The test of a door says how a
// service is served through it and called, and calls [Run] and [RunBroken].
//
// The suite is written in the words of gRPC, in Go: handlers are those of the generated
// testpb.ShopServer, a call's headers are metadata in its context, errors have a gRPC
// status, and a client is a grpc.ClientConnInterface. A framework that has other words
// translates them.
//
// Start reading at this file, then run.go (the list of cases), env.go and shop.go (what
// a case has), answer.go (what is asked of an answer), any of the cases, and broken.go
// (how the cases are seen to fail, by the faults in faulty.go).
package rpctest

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Framework serves methods through one door.
type Framework struct {
	// Name tells it from others that are tested together; it may be empty.
	Name string

	// Package is the name of the door's package.
	Package string

	// Constructors make a door and drop it, by the name of the function.
	Constructors map[string]func(*lockmw.Locker, grpclock.Rules, Options)

	// Idempotent makes a door that answers calls once, and drops it.
	Idempotent func(*lockmw.Locker, grpclock.IdempotentRules, Options)

	// Key is the door's Key.
	Key func(key func(ctx context.Context, req any) (string, error)) keyfunc.Func

	// Serve starts a server, and returns a client's connection. The server ends with
	// the test, when all handlers have.
	Serve func(*testenv.Env, Service) grpc.ClientConnInterface

	// Direct calls the unary method in ctx without a connection, which would tell the
	// client of some ends before the door does. The error is what interceptors around the
	// door see.
	Direct func(context.Context, Service) (Answer, error)

	// Retry returns what is wrong with when an answer tells the client to come back,
	// beside its RetryInfo; millis is what that says, and 0 if the client is not to.
	Retry func(a Answer, millis int64) error

	// Meaningless are cases and faults that say nothing about the framework, with the
	// reason.
	Meaningless map[string]string
}

// A Service is what is served.
type Service struct {
	Locks *lockmw.Locker
	Rules grpclock.Rules
	Options
	Shop   testpb.ShopServer
	Around Around
	Fault  *Fault // put around the door, unless it is nil

	// Once are the rules of a door that answers calls once, around that of locks. Nil: there is none.
	Once        grpclock.IdempotentRules
	OnceOptions Options
}

// Around are interceptors outside of the door. Zero means that there is none.
type Around struct {
	Unary  grpc.UnaryServerInterceptor
	Stream grpc.StreamServerInterceptor
}

// Options are the door's options. Zero means that the option is not given.
type Options struct {
	ErrorHandler func(ctx context.Context, method string, err error) error
	Skipper      func(ctx context.Context, method string) bool
	Values       func(ctx context.Context, name string) (any, bool)
	Logger       *slog.Logger

	// Of doors that answer calls once.
	Everybody, OptionalKey bool
	Keep                   func(ctx context.Context, method string, err error) bool
	Fingerprint            func(ctx context.Context, method string, req any) ([]byte, error)

	Nil string // the option that is given nil, or "option" for one that is nil
}

// OptionsOf makes the options of a door, which are of type O, by its functions of the
// same names.
func OptionsOf[O any](o Options,
	withErrorHandler func(func(ctx context.Context, method string, err error) error) O,
	withSkipper func(func(ctx context.Context, method string) bool) O,
	withValues func(func(ctx context.Context, name string) (any, bool)) O,
	withLogger func(*slog.Logger) O,
	withKeysOfEverybody, withOptionalKey func() O,
	withKeep func(func(ctx context.Context, method string, err error) bool) O,
	withFingerprint func(func(ctx context.Context, method string, req any) ([]byte, error)) O,
) (opts []O) {
	if o.ErrorHandler != nil || o.Nil == "WithErrorHandler" {
		opts = append(opts, withErrorHandler(o.ErrorHandler))
	}
	if o.Skipper != nil || o.Nil == "WithSkipper" {
		opts = append(opts, withSkipper(o.Skipper))
	}
	if o.Values != nil || o.Nil == "WithValues" {
		opts = append(opts, withValues(o.Values))
	}
	if o.Logger != nil || o.Nil == "WithLogger" {
		opts = append(opts, withLogger(o.Logger))
	}
	if o.Everybody {
		opts = append(opts, withKeysOfEverybody())
	}
	if o.OptionalKey {
		opts = append(opts, withOptionalKey())
	}
	if o.Keep != nil || o.Nil == "WithKeep" {
		opts = append(opts, withKeep(o.Keep))
	}
	if o.Fingerprint != nil || o.Nil == "WithFingerprint" {
		opts = append(opts, withFingerprint(o.Fingerprint))
	}
	if o.Nil == "option" {
		opts = append(opts, *new(O))
	}
	return opts
}
