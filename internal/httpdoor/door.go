package httpdoor

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

const (
	defaultBodyLimit   = 64 << 10
	defaultBodyTimeout = 5 * time.Second
)

// A Config is what the options of all doors have in common. Its methods panic
// on what makes no sense, naming the door's package and the option.
type Config struct {
	door      string
	call      string // the door's function: Middleware or Idempotent
	readWrite bool
	bodyLimit int64
	timeout   time.Duration // of a body that is read under the lock
	timed     bool          // an option says timeout
	buffer    int           // 0: responses are not held back

	// These are for Idempotent.
	keep        func(status int, header http.Header) bool // nil: the default
	fingerprint bool                                      // the door has a function for it
	optional    bool                                      // a request without a key runs
	ofEverybody bool                                      // keys may be made of one header alone
}

// The functions of doors that take options.
const (
	Middleware = "Middleware"
	Idempotent = "Idempotent"
)

// NewConfig returns the defaults for a function of the door with that package name.
func NewConfig(door, call string) Config {
	return Config{door: door, call: call, bodyLimit: defaultBodyLimit, timeout: defaultBodyTimeout}
}

// Apply applies a door's options to o. It panics if one is nil.
func Apply[O any, F ~func(*O)](c Config, o *O, opts []F) {
	for i, opt := range opts {
		if opt == nil {
			c.panicf("option %d is nil", i+1)
		}
		opt(o)
	}
}

// ReadWrite has safe methods share the lock.
func (c *Config) ReadWrite() { c.readWrite = true }

// LimitBody sets how much of a body is read before the lock is taken.
func (c *Config) LimitBody(bytes int64) {
	if bytes < 1 {
		c.panicf("WithBodyLimit: %d bytes: no body could be read", bytes)
	}
	c.bodyLimit = min(bytes, math.MaxInt-1) // room for one more, to see that it is exceeded
}

// TimeBody sets how long the handler waits for more of a body that was not read
// before the lock was taken.
func (c *Config) TimeBody(timeout time.Duration) {
	switch {
	case timeout <= 0:
		c.panicf("WithBodyTimeout: %v: no body could be read", timeout)
	case timeout < time.Millisecond:
		c.panicf("WithBodyTimeout: %v: is the unit missing?", timeout)
	}
	c.timed, c.timeout = true, min(timeout, math.MaxInt64/wholeUpload)
}

// HoldResponse has up to max bytes of a response held back.
func (c *Config) HoldResponse(max int) {
	if max < 1 {
		c.panicf("WithBufferedResponse: %d bytes: no response could be held back", max)
	}
	c.buffer = max
}

// Keep sets which responses are kept.
func (c *Config) Keep(keep func(status int, header http.Header) bool) {
	c.Func("WithKeep", keep == nil)
	c.keep = keep
}

// Fingerprint notes that the door has a function for the fingerprint of a request.
func (c *Config) Fingerprint(isNil bool) {
	c.Func("WithFingerprint", isNil)
	c.fingerprint = true
}

// OptionalKey has requests without a key run as if the door were not there.
func (c *Config) OptionalKey() { c.optional = true }

// KeysOfEverybody allows keys that are made of one header alone.
func (c *Config) KeysOfEverybody() { c.ofEverybody = true }

// Panic panics with a start-up mistake of the door's function.
func (c *Config) Panic(mistake string) { c.panicf("%s: %s", c.call, mistake) }

// check panics if the Locker or the key function is nil, or an option is given that says nothing to the door's function.
func (c *Config) check(l *lockmw.Locker, key keyfunc.Func) {
	switch {
	case l == nil:
		c.Panic("the Locker is nil")
	case key == nil:
		c.Panic("the key function is nil")
	}
	once := c.call == Idempotent
	for _, option := range []struct {
		name    string
		foreign bool
		why     string
	}{
		{"WithReadWrite", once && c.readWrite, "safe methods pass without a key"},
		{"WithBufferedResponse", once && c.buffer > 0, "the response is held back always; Flight.MaxAnswer says how much of it"},
		{"WithBodyTimeout", once && c.timed, "the whole body is read before the handler runs; WithBodyLimit says how much that may be"},
		{"WithKeep", !once && c.keep != nil, forIdempotent},
		{"WithFingerprint", !once && c.fingerprint, forIdempotent},
		{"WithOptionalKey", !once && c.optional, forIdempotent},
		{"WithKeysOfEverybody", !once && c.ofEverybody, forIdempotent},
	} {
		if option.foreign {
			c.Panic(option.name + ": " + option.why)
		}
	}
}

const forIdempotent = "it is an option of Idempotent: a lock keeps no answer"

// Sample returns what key asks a made-up request for.
func (c *Config) Sample(key keyfunc.Func) *door.Sample {
	sample := &door.Sample{CallMethod: http.MethodPost, CallRoute: "/{param}", Natives: []string{c.door + ".Key"}, HTTP: true, Params: true}
	_ = sample.Ask(key)
	return sample
}

// Func panics if the function given to an option is nil.
func (c *Config) Func(option string, isNil bool) {
	if isNil {
		c.panicf("%s: the function is nil", option)
	}
}

func (c *Config) panicf(format string, args ...any) {
	panic(c.door + ": " + fmt.Sprintf(format, args...))
}

// A Door is one lock on a route, or one for the work that is done once for all who ask for the same: whose it is, what is
// locked and how. It is safe for concurrent use.
type Door struct {
	locker       *lockmw.Locker
	key          keyfunc.Func
	safe, unsafe lockmw.Policy // by the request's method
	bodyLimit    int64
	bodyTimeout  time.Duration
	buffer       int
	needsRoute   func() bool
	once         *once // nil: a lock
}

// New returns the door of a Middleware. It panics if l or key is nil or p is invalid, for l or in
// the modes that ReadWrite asks for.
func New(l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, c Config) *Door {
	c.check(l, key)
	d := newDoor(l, key, p, c)
	if c.readWrite {
		d.safe.Mode, d.unsafe.Mode = lockmw.Shared, lockmw.Exclusive
	}
	for _, p := range []lockmw.Policy{d.unsafe, d.safe} {
		if err := l.Validate(p); err != nil {
			c.Panic(err.Error())
		}
	}
	if d.buffer > 0 { // a response is held back until Redis has said that the lock was kept
		d.safe.AsyncRelease, d.unsafe.AsyncRelease = false, false
	}
	return d
}

func newDoor(l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, c Config) *Door {
	d := &Door{
		locker: l, key: key, safe: p, unsafe: p,
		bodyLimit: c.bodyLimit, bodyTimeout: c.timeout, buffer: c.buffer,
	}
	d.needsRoute = sync.OnceValue(func() bool {
		err := (&door.Sample{CallMethod: http.MethodGet, Natives: []string{c.door + ".Key"}, HTTP: true}).Ask(key)
		return errors.Is(err, keyfunc.ErrMisuse) && errors.Is(err, keyfunc.ErrMissing)
	})
	return d
}

// NeedsRoute reports whether a key can only be made of requests that a route is
// there for, whatever else they bring. It is found out by the first call, from a
// made-up request. What a native key function needs is not known.
func (d *Door) NeedsRoute() bool { return d.needsRoute() }

// policy returns the policy for a method.
func (d *Door) policy(method string) *lockmw.Policy {
	if isSafe(method) {
		return &d.safe
	}
	return &d.unsafe
}

// isSafe reports whether RFC 9110 calls a method safe: it asks, and changes nothing.
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}
