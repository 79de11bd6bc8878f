package httplock_test

import (
	"maps"
	"net/http"
	"testing"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/keyfunc"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var framework = doortest.Framework{Door: "httplock", Serve: serve, Key: key}

func TestDoor(t *testing.T) { doortest.Run(t, framework) }

func TestDoorCostsFewAllocations(t *testing.T) { doortest.CheckAllocations(t, framework) }

func serve(routes ...doortest.Route) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		next := handler(route)
		if route.Behind != nil {
			next = door(*route.Behind)(next)
		}
		if !route.Bare {
			next = door(route)(next)
		}
		mux.Handle(route.Method+" "+route.Path, around(route, next))
	}
	return mux
}

// door is the one of the route.
func door(route doortest.Route) func(http.Handler) http.Handler {
	opts := append(options(route.Options), httplock.WithValues(func(_ *http.Request, name string) (any, bool) {
		value, ok := route.Values[name]
		return value, ok
	}))
	if route.Flight != nil {
		return httplock.Idempotent(route.Locks, route.Key, *route.Flight, opts...)
	}
	return httplock.Middleware(route.Locks, route.Key, route.Policy, opts...)
}

// around is the middleware around the door.
func around(route doortest.Route, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), route.Header.Clone())
		next.ServeHTTP(w, r)
		if route.After != nil {
			route.After(r)
		}
	})
}

func handler(route doortest.Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &doortest.Exchange{W: w, R: r, Param: r.PathValue, Query: r.URL.Query().Get}
		if err := route.Handle(x); err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		}
	})
}

func options(o doortest.Options) []httplock.Option {
	var opts []httplock.Option
	if o.ErrorHandler != nil {
		opts = append(opts, httplock.WithErrorHandler(o.ErrorHandler))
	}
	if o.Skipper != nil {
		opts = append(opts, httplock.WithSkipper(o.Skipper))
	}
	if o.ReadWrite {
		opts = append(opts, httplock.WithReadWrite())
	}
	if o.BodyLimit != nil {
		opts = append(opts, httplock.WithBodyLimit(*o.BodyLimit))
	}
	if o.BodyTimeout != 0 {
		opts = append(opts, httplock.WithBodyTimeout(o.BodyTimeout))
	}
	if o.BufferedResponse != nil {
		opts = append(opts, httplock.WithBufferedResponse(*o.BufferedResponse))
	}
	if o.Nil {
		opts = append(opts, nil)
	}
	if o.NilErrorHandler {
		opts = append(opts, httplock.WithErrorHandler(nil))
	}
	if o.NilSkipper {
		opts = append(opts, httplock.WithSkipper(nil))
	}
	if o.Keep != nil {
		opts = append(opts, httplock.WithKeep(o.Keep))
	}
	if o.Fingerprint != nil {
		opts = append(opts, httplock.WithFingerprint(o.Fingerprint))
	}
	if o.OptionalKey {
		opts = append(opts, httplock.WithOptionalKey())
	}
	if o.KeysOfEverybody {
		opts = append(opts, httplock.WithKeysOfEverybody())
	}
	if o.NilKeep {
		opts = append(opts, httplock.WithKeep(nil))
	}
	if o.NilFingerprint {
		opts = append(opts, httplock.WithFingerprint(nil))
	}
	return opts
}

func key(native func(*http.Request) (string, error)) keyfunc.Func {
	if native == nil {
		return httplock.Key(nil)
	}
	return httplock.Key(native)
}

func BenchmarkDoor(b *testing.B) { doortest.Benchmark(b, framework) }
