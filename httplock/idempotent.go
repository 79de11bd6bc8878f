package httplock

import (
	"net/http"

	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Idempotent returns a function that has a handler run once for all requests with the same key: a double click pays once,
// and both clicks get the receipt. So does a client that sends its request again because it has not seen the answer.
//
//	once := httplock.Idempotent(locks, keyfunc.MustParse("{value.tenant}:{header.Idempotency-Key|idempotency}"),
//		lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour},
//		httplock.WithValues(func(r *http.Request, name string) (any, bool) {
//			user, ok := auth.FromContext(r.Context())
//			return user.Tenant, ok && name == "tenant"
//		}))
//	mux.Handle("POST /orders/{id}/pay", once(http.HandlerFunc(pay)))
//
// The first request runs the handler under a lock, whose lease is in the request's context. One that comes meanwhile, in whatever process,
// waits for its response for as long as f.Policy.Wait, and one that comes later gets it until f.Retain is over: the same status, body
// and header, and Idempotent-Replayed: true. The key is used for one route. See "Idempotency" in the documentation of the package.
//
// It panics where Middleware does, if f is invalid (Locker.ValidateFlight), and if key reads a header and nothing
// else: whose key is it? Put the user in front, or see WithKeysOfEverybody. To find that out it calls key once with a made-up request. GET, HEAD, OPTIONS
// and TRACE pass as if the middleware were not there.
func Idempotent(l *lockmw.Locker, key keyfunc.Func, f lockmw.Flight, opts ...Option) func(http.Handler) http.Handler {
	o := newOptions(httpdoor.Idempotent, opts)
	door := httpdoor.NewIdempotent(l, key, f, o.Config)
	o.checkValues(key)
	return func(next http.Handler) http.Handler {
		o.checkNext(next)
		return &idempotent{handler{options: o, door: door, next: next}}
	}
}

type idempotent struct{ handler }

// ServeHTTP runs the next handler, or answers with the response of another request that asked for the same.
func (h *idempotent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.skip != nil && h.skip(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	v := &view{Visit: h.door.Visit(r), handler: &h.handler}
	httpdoor.FingerprintBy(&v.Visit, h.fingerprint, r)
	way, err := v.Once(v, w, func(held *httpdoor.Buffer) bool {
		h.next.ServeHTTP(held, v.Inner())
		v.checkInner()
		return true
	})
	switch way {
	case httpdoor.Passed:
		h.next.ServeHTTP(w, r)
	case httpdoor.Refused:
		h.refuse(w, r, err)
	case httpdoor.Answered: // if its lock was lost it was too late to say so
	}
}
