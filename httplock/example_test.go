package httplock_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// open returns a Locker on a Redis inside this program. A service passes its
// own client to New.
func open() (locks *lockmw.Locker, closeAll func()) {
	client, closeRedis := redistest.Example()
	locks, err := lockmw.New(client)
	if err != nil {
		log.Fatal(err)
	}
	return locks, func() {
		_ = locks.Close(context.Background())
		closeRedis()
	}
}

func ExampleMiddleware() {
	locks, closeAll := open()
	defer closeAll()
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := lockmw.FromContext(r.Context())
		fmt.Fprint(w, "paid under ", lease.Key())
	})

	mux := http.NewServeMux()
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second})
	mux.Handle("POST /orders/{id}/pay", lock(pay)) // around one route, not around the mux

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Println(w.Body)
	// Output: paid under order:42
}

// Two clicks of one user, and another request under the same key.
func ExampleIdempotent() {
	locks, closeAll := open()
	defer closeAll()
	receipts := 0
	pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		receipts++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "receipt ", receipts)
	})

	mux := http.NewServeMux()
	once := httplock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
		lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain},
		httplock.WithValues(func(*http.Request, string) (any, bool) { return "ann", true })) // what authentication knows
	mux.Handle("POST /orders/{id}/pay", once(pay))

	for _, path := range []string{"/orders/42/pay", "/orders/42/pay", "/orders/43/pay"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, path, nil)
		r.Header.Set("Idempotency-Key", `"8e03978e-40d5"`)
		mux.ServeHTTP(w, r)
		if w.Code < 300 {
			fmt.Println(w.Code, w.Body, w.Header().Get("Idempotent-Replayed") == "true")
		} else {
			fmt.Println(w.Code)
		}
	}
	// Output:
	// 201 receipt 1 false
	// 201 receipt 1 true
	// 422
}

// A handler that takes a lock itself answers as the middleware does.
func ExampleWriteRefusal() {
	locks, closeAll := open()
	defer closeAll()
	write := func(context.Context) error { return nil }

	mux := http.NewServeMux()
	mux.HandleFunc("POST /reports/{day}", func(w http.ResponseWriter, r *http.Request) {
		err := locks.WithLock(r.Context(), r.PathValue("day"), lockmw.Policy{Prefix: "report:"}, write)
		switch {
		case httplock.WriteRefusal(w, r, err):
		case err != nil: // of write
			http.Error(w, "not written", http.StatusInternalServerError)
		default:
			fmt.Fprint(w, "written")
		}
	})

	ask := func() {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/reports/2026-11-29", nil))
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	ctx, lease, err := locks.Acquire(context.Background(), "2026-11-29", lockmw.Policy{Prefix: "report:"}) // somebody writes it
	if err != nil {
		fmt.Println(err)
		return
	}
	ask()
	_ = lease.Release(ctx)
	ask()
	// Output:
	// 409 application/problem+json
	// 200 text/plain; charset=utf-8
}

type tenantKey struct{}

// The tenant is what authentication has found out, so that no tenant can block
// another's orders, and a request without one is refused.
func ExampleWithValues() {
	locks, closeAll := open()
	defer closeAll()
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := lockmw.FromContext(r.Context())
		fmt.Fprint(w, "paid under ", lease.Key())
	})

	lock := httplock.Middleware(locks, keyfunc.MustParse("{value.tenant}:{param.id|int}"), lockmw.Policy{Prefix: "order:"},
		httplock.WithValues(func(r *http.Request, name string) (any, bool) {
			tenant, ok := r.Context().Value(tenantKey{}).(string)
			return tenant, ok && name == "tenant"
		}))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", lock(pay))

	r := httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil)
	for _, ctx := range []context.Context{context.WithValue(r.Context(), tenantKey{}, "acme"), r.Context()} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r.WithContext(ctx))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 paid under order:acme:42
	// 400 {"type":"about:blank","title":"Bad Request","status":400,"detail":"The request does not name the resource it is about: the value \"tenant\" is missing.","code":"LOCK_KEY_INVALID"}
}

type varsKey struct{}

// vars stands for what another router has: mux.Vars of gorilla/mux, or a loop over
// httprouter.ParamsFromContext.
func vars(r *http.Request) map[string]string {
	found, _ := r.Context().Value(varsKey{}).(map[string]string)
	return found
}

func ExampleWithParams() {
	locks, closeAll := open()
	defer closeAll()
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := lockmw.FromContext(r.Context())
		fmt.Fprint(w, "paid under ", lease.Key())
	})
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:"}, httplock.WithParams(vars))

	r := httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil)
	w := httptest.NewRecorder()
	lock(pay).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), varsKey{}, map[string]string{"id": "42"})))
	fmt.Println(w.Body)
	// Output: paid under order:42
}
