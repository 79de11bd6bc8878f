package httplock

import (
	"net/http"

	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Idempotent returns a function that has a handler run once for all requests with the same key. Normally, a double
// click pays once, and both clicks get the receipt. So does a client that sends its request again because it has not
// seen the answer. docs/answers.md says when work is done twice.
//
//	once := httplock.Idempotent(locks, keyfunc.MustParse("{value.tenant}:{header.Idempotency-Key|idempotency}"),
//		lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain},
//		httplock.WithValues(func(r *http.Request, name string) (any, bool) {
//			user, ok := auth.FromContext(r.Context())
//			return user.Tenant, ok && name == "tenant"
//		}))
//	mux.Handle("POST /orders/{id}/pay", once(http.HandlerFunc(pay)))
//
// The first request runs the handler under a lock, and the lease is in the request's context. A request that comes
// meanwhile, in whatever process, waits for the response for as long as f.Policy.Wait allows. A request that comes
// later gets the response until f.Retain is over. Both get the same status, body and header, and Idempotent-Replayed:
// true. The same key on another route, or with another method, is another key. See "Idempotency" in the documentation
// of the package.
//
// Idempotent panics where Middleware does, and in these cases:
//
//   - f is invalid (Locker.ValidateFlight), its Retain is zero, or it has a Fingerprint;
//   - key reads one header or one field of the body, and nothing else, so that nobody can tell whose key that is: put
//     the user in front, or see WithKeysOfEverybody.
//
// To find out what key reads, Idempotent calls it with a made-up request; key may fail or panic then. GET, HEAD,
// OPTIONS and TRACE pass as if the middleware were not there.
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
