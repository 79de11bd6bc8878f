package doortest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Benchmark measures what a door costs beside its lock, with a key of three
// values. "door" is a request through the door; "hand" is one that the door
// skips and whose handler takes the same lock by hand: the difference is the
// door's. "bare" is one that the door skips and whose handler does nothing.
// "key" goes through the door until the key is there, and then on without a
// lock: the part of the door that does not depend on Redis.
func Benchmark(b *testing.B, fw Framework) {
	e := newEnv(b, fw, redistest.Shared(b))
	skip := Options{Skipper: func(*http.Request) bool { return true }}
	key := keyfunc.MustParse("order:{param.id}:{query.sku}:{header.X-User}")
	const made = "order:" + id + ":7:ann"

	door := e.route(fine)
	door.Key = key
	bare := door
	bare.Options = skip
	hand := bare
	hand.Handle = func(x *Exchange) error {
		lease, err := e.locks.Acquire(x.R.Context(), made, lockmw.Policy{Prefix: prefix})
		if err != nil {
			b.Fatal(err)
		}
		return lease.Release(context.Background())
	}
	keyOnly := door
	keyOnly.Key = func(r keyfunc.Request) (string, error) {
		if made, err := key(r); err != nil {
			return made, err
		}
		return "", keyfunc.Skip
	}
	for _, bc := range []struct {
		name  string
		route Route
	}{{"bare", bare}, {"key", keyOnly}, {"hand", hand}, {"door", door}} {
		b.Run(bc.name, func(b *testing.B) {
			handler := e.fw.Serve(bc.route)
			r := httptest.NewRequest(http.MethodPost, payPath+"?sku=7", nil)
			r.Header.Set("X-User", "ann")
			b.ReportAllocs()
			for b.Loop() {
				w := nowhere{make(http.Header)}
				handler.ServeHTTP(w, r)
			}
		})
	}
}

// nowhere is a response that nobody gets.
type nowhere struct{ header http.Header }

func (w nowhere) Header() http.Header         { return w.header }
func (w nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w nowhere) WriteHeader(int)             {}
