package echodoor

import (
	"net/http"
	"time"

	"github.com/lockmw/kit/internal/httpdoor"
)

// An Option changes how a door of the contexts C behaves. What each does is said in
// package echolock, under the same name.
type Option[C Context] func(*Options[C])

// Options are what the options make. Their fields are this package's alone.
type Options[C Context] struct {
	config      httpdoor.Config
	skip        func(C) bool
	onError     func(C, error) error
	fingerprint func(C) ([]byte, error)
}

// newOptions returns what opts make of the defaults, for a function of the door of that name. It panics
// if one is nil.
func newOptions[C Context](door, call string, opts []Option[C]) Options[C] {
	o := Options[C]{config: httpdoor.NewConfig(door, call)}
	httpdoor.Apply(o.config, &o, opts)
	return o
}

// WithErrorHandler sets who answers a request that does not get the lock.
func WithErrorHandler[C Context](handle func(c C, err error) error) Option[C] {
	return func(o *Options[C]) {
		o.config.Func("WithErrorHandler", handle == nil)
		o.onError = handle
	}
}

// WithSkipper has requests run without a lock for which skip returns true.
func WithSkipper[C Context](skip func(c C) bool) Option[C] {
	return func(o *Options[C]) {
		o.config.Func("WithSkipper", skip == nil)
		o.skip = skip
	}
}

// WithReadWrite has safe methods share the lock.
func WithReadWrite[C Context]() Option[C] { return func(o *Options[C]) { o.config.ReadWrite() } }

// WithBodyLimit sets how much of a body is read before the lock is taken.
func WithBodyLimit[C Context](bytes int64) Option[C] {
	return func(o *Options[C]) { o.config.LimitBody(bytes) }
}

// WithBodyTimeout sets how long a handler waits for more of a body.
func WithBodyTimeout[C Context](timeout time.Duration) Option[C] {
	return func(o *Options[C]) { o.config.TimeBody(timeout) }
}

// WithBufferedResponse holds up to max bytes of the response back until the release.
func WithBufferedResponse[C Context](max int) Option[C] {
	return func(o *Options[C]) { o.config.HoldResponse(max) }
}

// WithKeep sets which responses are kept.
func WithKeep[C Context](keep func(status int, header http.Header) bool) Option[C] {
	return func(o *Options[C]) { o.config.Keep(keep) }
}

// WithFingerprint sets what tells two requests apart that have the same key.
func WithFingerprint[C Context](fingerprint func(c C) ([]byte, error)) Option[C] {
	return func(o *Options[C]) {
		o.config.Fingerprint(fingerprint == nil)
		o.fingerprint = fingerprint
	}
}

// WithOptionalKey has requests without a key run as if the middleware were not there.
func WithOptionalKey[C Context]() Option[C] { return func(o *Options[C]) { o.config.OptionalKey() } }

// WithKeysOfEverybody allows keys that are made of one header alone.
func WithKeysOfEverybody[C Context]() Option[C] {
	return func(o *Options[C]) { o.config.KeysOfEverybody() }
}
