package rpcdoor

import (
	"context"
	"fmt"
	"log/slog"
)

// Words are what the texts of a door call it.
type Words struct {
	Package     string // "grpclock"
	Constructor string // "UnaryServerInterceptor"
	Call        string // "a gRPC call"
}

// panicf panics about a mistake in what the constructor was given.
func (w Words) panicf(format string, args ...any) {
	panic(w.Package + ": " + w.Constructor + ": " + fmt.Sprintf(format, args...))
}

// Options are what users may change about an interceptor. Zero means that the option is
// not given, but for the Logger, which is always set.
type Options struct {
	Words
	Logger       *slog.Logger
	skipper      func(ctx context.Context, method string) bool
	ErrorHandler func(ctx context.Context, method string, err error) error
	values       func(ctx context.Context, name string) (any, bool)

	// Of doors called Idempotent alone.
	everybody   bool // a key may be made of what clients choose alone
	optional    bool // a call without a key runs
	keep        func(ctx context.Context, method string, err error) bool
	fingerprint func(ctx context.Context, method string, req any) ([]byte, error)
}

// NewOptions applies options in order. It panics if one is nil.
func NewOptions[O ~func(*Options)](w Words, opts []O) Options {
	o := Options{Words: w}
	for i, opt := range opts {
		if opt == nil {
			o.panicf("option %d is nil", i+1)
		}
		opt(&o)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// need panics if what an option was given is nil.
func (o *Options) need(option, what string, isNil bool) {
	if isNil {
		o.panicf("%s: the %s is nil", option, what)
	}
}

// WithErrorHandler sets who makes the error of a call that does not get the lock, or
// loses it.
func WithErrorHandler(handle func(ctx context.Context, method string, err error) error) func(*Options) {
	return func(o *Options) {
		o.need("WithErrorHandler", "function", handle == nil)
		o.ErrorHandler = handle
	}
}

// WithSkipper sets which calls run without a lock.
func WithSkipper(skip func(ctx context.Context, method string) bool) func(*Options) {
	return func(o *Options) {
		o.need("WithSkipper", "function", skip == nil)
		o.skipper = skip
	}
}

// WithValues sets what a key function finds by Value.
func WithValues(values func(ctx context.Context, name string) (any, bool)) func(*Options) {
	return func(o *Options) {
		o.need("WithValues", "function", values == nil)
		o.values = values
	}
}

// WithLogger sets where doubtful rules are reported, and handlers that go round them.
func WithLogger(logger *slog.Logger) func(*Options) {
	return func(o *Options) {
		o.need("WithLogger", "logger", logger == nil)
		o.Logger = logger
	}
}

// Idempotent is the name of the constructors of doors that answer a call once.
const Idempotent = "Idempotent"

// needOnce panics if an option that is about answers was given to the constructor of a lock.
func (o *Options) needOnce(option string) {
	if o.Constructor != Idempotent {
		o.panicf("%s: it is an option of %s.%s: a lock keeps no answers", option, o.Package, Idempotent)
	}
}

// WithKeysOfEverybody allows keys that are made of one header or one field alone.
func WithKeysOfEverybody() func(*Options) {
	return func(o *Options) {
		o.needOnce("WithKeysOfEverybody")
		o.everybody = true
	}
}

// WithOptionalKey has calls run that have no key.
func WithOptionalKey() func(*Options) {
	return func(o *Options) {
		o.needOnce("WithOptionalKey")
		o.optional = true
	}
}

// WithKeep sets which results of a handler are kept.
func WithKeep(keep func(ctx context.Context, method string, err error) bool) func(*Options) {
	return func(o *Options) {
		o.needOnce("WithKeep")
		o.need("WithKeep", "function", keep == nil)
		o.keep = keep
	}
}

// WithFingerprint sets what two calls with one key must have in common.
func WithFingerprint(fingerprint func(ctx context.Context, method string, req any) ([]byte, error)) func(*Options) {
	return func(o *Options) {
		o.needOnce("WithFingerprint")
		o.need("WithFingerprint", "function", fingerprint == nil)
		o.fingerprint = fingerprint
	}
}
