package httplock_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What only net/http has of Idempotent. What all doors do is in doortest.

func once(locks *lockmw.Locker, opts ...httplock.Option) func(http.Handler) http.Handler {
	return httplock.Idempotent(locks, keyfunc.Header("X-User"), lockmw.Flight{Retain: time.Minute}, append(opts, httplock.WithKeysOfEverybody())...)
}

func TestHandlerOfIdempotentIsChecked(t *testing.T) {
	locks, _ := testenv.Locker(t)
	for want, next := range map[string]http.Handler{
		"httplock: Idempotent: the handler is nil": nil,
		"httplock: Idempotent: http.TimeoutHandler inside of the lock leaves its handler at work without it; write http.TimeoutHandler(lock(handler), …)": http.TimeoutHandler(http.NotFoundHandler(), time.Second, ""),
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic = %v, want %s", got, want)
				}
			}()
			once(locks)(next)
		}()
	}
}

func TestLockInFrontOfIdempotentPanics(t *testing.T) {
	locks, _ := testenv.Locker(t)
	defer func() {
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "httplock: Middleware: Idempotent inside of the lock: ") {
			t.Errorf("panic = %v, want one about the order", got)
		}
	}()
	once(locks)(lock(locks, nil)) // the other way round is right
	httplock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{})(once(locks)(http.NotFoundHandler()))
}

// What stands between the two hides from a lock what is behind it. The log says so, once for each route.
func TestLockInFrontOfIdempotentIsTold(t *testing.T) {
	var log testenv.Journal
	r := testenv.New(t, redistest.Embedded(t))
	locks := r.NewLocker(log.Option())
	mux, paid := http.NewServeMux(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	between := func(next http.Handler) http.Handler { return http.HandlerFunc(next.ServeHTTP) }
	of := httplock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{})
	mux.Handle("POST /orders/{id}/pay", of(between(once(locks)(paid))))
	mux.Handle("POST /orders/{id}/cancel", once(locks)(between(of(paid))))
	for _, path := range []string{"/orders/1/pay", "/orders/2/pay", "/orders/1/cancel"} {
		if got := testenv.Ask(mux, "POST "+path+" of"+path); got != "200 " {
			t.Errorf("%s: %s", path, got)
		}
	}
	r.CloseNow(locks)
	if log.Count("in front of Idempotent", "POST /orders/{id}/pay") != 1 || log.Count("in front of Idempotent") != 1 {
		t.Errorf("want one line, of the first route:\n%s", log.Text())
	}
}

func TestValueWithoutWithValuesPanicsWithTheNameOfTheFunction(t *testing.T) {
	locks, _ := testenv.Locker(t)
	defer func() {
		const want = `httplock: Idempotent: the key reads the value "user", and net/http has no place where middleware leaves values: ` +
			"add httplock.WithValues(func(r *http.Request, name string) (any, bool) { … })"
		if got := recover(); got != want {
			t.Errorf("panic = %v, want %s", got, want)
		}
	}()
	httplock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key}"), lockmw.Flight{Retain: time.Minute})
}

// Around a mux no pattern is known when the key is made: then the path is a part of it.
func TestPathTellsRequestsApartWhereNoPatternIsKnown(t *testing.T) {
	locks, _ := testenv.Locker(t)
	mux := http.NewServeMux()
	runs := make(map[string]int)
	mux.HandleFunc("POST /orders/{id}", func(_ http.ResponseWriter, r *http.Request) { runs[r.PathValue("id")]++ })
	handler := once(locks)(mux)
	for _, request := range []string{"POST /orders/1 ann", "POST /orders/2 ann", "POST /orders/1 ann"} {
		if got := testenv.Ask(handler, request); got != "200 " {
			t.Errorf("%s: %s", request, got)
		}
	}
	if runs["1"] != 1 || runs["2"] != 1 {
		t.Errorf("runs = %v, want one of each order", runs)
	}
	if got := testenv.Ask(handler, "POST /nothing ann"); got != "404 404 page not found" {
		t.Errorf("unknown path: %s", got)
	}
}

// A form that earlier middleware has parsed, such as one that looks for a token in it, has taken the body away.
func TestParsedFormTellsRequestsApart(t *testing.T) {
	locks, _ := testenv.Locker(t)
	runs := 0
	handler := once(locks)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ }))
	var got []int
	for _, body := range []string{"sku=1&n=2", "n=2&sku=1", "sku=1&n=3"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("X-User", "ann")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		_ = r.PostFormValue("token")
		handler.ServeHTTP(w, r)
		got = append(got, w.Code)
	}
	if got[0] != http.StatusOK || got[1] != http.StatusOK || got[2] != http.StatusUnprocessableEntity || runs != 1 {
		t.Errorf("answers %v, %d runs; want 200, 200, 422 and one", got, runs)
	}
}

// payAt has a user pay at a path.
func payAt(h http.Handler, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("X-User", "ann")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// What http.StripPrefix takes away from the path tells two routes apart that have one pattern.
func TestMountsAreApart(t *testing.T) {
	locks, _ := testenv.Locker(t)
	all := http.NewServeMux()
	for _, name := range []string{"/shop", "/admin"} {
		own := http.NewServeMux()
		own.Handle("POST /pay", once(locks)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(name)) })))
		all.Handle(name+"/", http.StripPrefix(name, own))
	}
	for _, name := range []string{"/shop", "/admin", "/shop"} {
		if w := payAt(all, name+"/pay", ""); w.Body.String() != name {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// A body of which middleware has read a part is not taken for a whole one: two payments would be the same.
func TestBodyThatWasReadInPartIsRefused(t *testing.T) {
	locks, _ := testenv.Locker(t)
	served := once(locks)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") }))
	reads := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadFull(r.Body, make([]byte, 8)); err != nil {
			t.Error(err)
		}
		served.ServeHTTP(w, r)
	})
	if w := payAt(reads, "/pay", "00000001 EUR to bob"); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "LOCK_MISUSE") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
