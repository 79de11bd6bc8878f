package echotest

import (
	"maps"
	"net/http"
	"net/url"

	"github.com/lockmw/kit/internal/echodoor"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/keyfunc"
)

// Doortest returns the framework by which internal/test/doortest serves its routes.
func Doortest[C Context](v Version[C]) doortest.Framework {
	return doortest.Framework{Door: v.Door, Serve: v.serve, Key: v.key}
}

func (v Version[C]) serve(routes ...doortest.Route) http.Handler {
	e := v.New(false)
	for _, route := range routes {
		around := []Middleware[C]{v.around(route)}
		if !route.Bare {
			around = append(around, v.door(route))
		}
		if route.Behind != nil {
			around = append(around, v.door(*route.Behind))
		}
		e.Route(route.Method, doortest.ColonPath(route.Path), v.handler(route), around...)
	}
	return e
}

// door is the one of the route.
func (v Version[C]) door(route doortest.Route) Middleware[C] {
	if route.Flight != nil {
		return v.Once(route.Locks, route.Key, *route.Flight, v.options(route.Options)...)
	}
	return v.Lock(route.Locks, route.Key, route.Policy, v.options(route.Options)...)
}

// around is the middleware around the door.
func (v Version[C]) around(route doortest.Route) Middleware[C] {
	return func(next func(C) error) func(C) error {
		return func(c C) error {
			for name, value := range route.Values {
				c.Set(name, value)
			}
			maps.Copy(v.Writer(c).Header(), route.Header.Clone())
			err := next(c)
			if route.After != nil {
				route.After(c.Request())
			}
			return err
		}
	}
}

func (v Version[C]) handler(route doortest.Route) func(C) error {
	return func(c C) error {
		return route.Handle(&doortest.Exchange{W: v.Writer(c), R: c.Request(), Param: Decoded(c), Query: c.QueryParam})
	}
}

// Decoded returns a parameter as a handler decodes it that knows what Echo gives: the
// path as it was sent if RawPath is set, and the decoded one otherwise.
func Decoded[C Context](c C) func(name string) string {
	return func(name string) string {
		value := c.Param(name)
		if c.Request().URL.RawPath != "" {
			value, _ = url.PathUnescape(value)
		}
		return value
	}
}

func (v Version[C]) options(o doortest.Options) (opts []echodoor.Option[C]) {
	if o.ErrorHandler != nil {
		opts = append(opts, v.WithErrorHandler(func(c C, err error) error {
			o.ErrorHandler(v.Writer(c), c.Request(), err)
			return nil
		}))
	}
	if o.Skipper != nil {
		opts = append(opts, v.WithSkipper(func(c C) bool { return o.Skipper(c.Request()) }))
	}
	if o.ReadWrite {
		opts = append(opts, v.WithReadWrite())
	}
	if o.BodyLimit != nil {
		opts = append(opts, v.WithBodyLimit(*o.BodyLimit))
	}
	if o.BodyTimeout != 0 {
		opts = append(opts, v.WithBodyTimeout(o.BodyTimeout))
	}
	if o.BufferedResponse != nil {
		opts = append(opts, v.WithBufferedResponse(*o.BufferedResponse))
	}
	if o.Nil {
		opts = append(opts, nil)
	}
	if o.NilErrorHandler {
		opts = append(opts, v.WithErrorHandler(nil))
	}
	if o.NilSkipper {
		opts = append(opts, v.WithSkipper(nil))
	}
	if o.Keep != nil {
		opts = append(opts, v.WithKeep(o.Keep))
	}
	if o.Fingerprint != nil {
		opts = append(opts, v.WithFingerprint(func(c C) ([]byte, error) { return o.Fingerprint(c.Request()) }))
	}
	if o.OptionalKey {
		opts = append(opts, v.WithOptionalKey())
	}
	if o.KeysOfEverybody {
		opts = append(opts, v.WithKeysOfEverybody())
	}
	if o.NilKeep {
		opts = append(opts, v.WithKeep(nil))
	}
	if o.NilFingerprint {
		opts = append(opts, v.WithFingerprint(nil))
	}
	return opts
}

func (v Version[C]) key(native func(*http.Request) (string, error)) keyfunc.Func {
	if native == nil {
		return v.Key(nil)
	}
	return v.Key(func(c C) (string, error) { return native(c.Request()) })
}
