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
	readWrite bool
	bodyLimit int64
	timeout   time.Duration // of a body that is read under the lock
	buffer    int           // 0: responses are not held back
}

// NewConfig returns the defaults for the door with that package name.
func NewConfig(door string) Config {
	return Config{door: door, bodyLimit: defaultBodyLimit, timeout: defaultBodyTimeout}
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
	c.timeout = min(timeout, math.MaxInt64/wholeUpload)
}

// HoldResponse has up to max bytes of a response held back.
func (c *Config) HoldResponse(max int) {
	if max < 1 {
		c.panicf("WithBufferedResponse: %d bytes: no response could be held back", max)
	}
	c.buffer = max
}

// Panic panics with a start-up mistake of Middleware.
func (c *Config) Panic(mistake string) { c.panicf("Middleware: %s", mistake) }

// Func panics if the function given to an option is nil.
func (c *Config) Func(option string, isNil bool) {
	if isNil {
		c.panicf("%s: the function is nil", option)
	}
}

func (c *Config) panicf(format string, args ...any) {
	panic(c.door + ": " + fmt.Sprintf(format, args...))
}

// A Door is one lock on a route: whose it is, what is locked and how. It is
// safe for concurrent use.
type Door struct {
	locker       *lockmw.Locker
	key          keyfunc.Func
	safe, unsafe lockmw.Policy // by the request's method
	bodyLimit    int64
	bodyTimeout  time.Duration
	buffer       int
	needsRoute   func() bool
}

// New returns a door. It panics if l or key is nil or p is invalid, for l or in
// the modes that ReadWrite asks for.
func New(l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, c Config) *Door {
	switch {
	case l == nil:
		c.panicf("Middleware: the Locker is nil")
	case key == nil:
		c.panicf("Middleware: the key function is nil")
	}
	d := &Door{locker: l, key: key, safe: p, unsafe: p, bodyLimit: c.bodyLimit, bodyTimeout: c.timeout, buffer: c.buffer}
	if c.readWrite {
		d.safe.Mode, d.unsafe.Mode = lockmw.Shared, lockmw.Exclusive
	}
	for _, p := range []lockmw.Policy{d.unsafe, d.safe} {
		if err := l.Validate(p); err != nil {
			c.panicf("Middleware: %v", err)
		}
	}
	if d.buffer > 0 { // a response is held back until Redis has said that the lock was kept
		d.safe.AsyncRelease, d.unsafe.AsyncRelease = false, false
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

// policy returns the policy for a method. RFC 9110 calls these four safe.
func (d *Door) policy(method string) *lockmw.Policy {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return &d.safe
	}
	return &d.unsafe
}
