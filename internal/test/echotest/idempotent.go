package echotest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/echodoor"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// once returns the middleware that runs work once for a user.
func (v Version[C]) once(locks *lockmw.Locker, opts ...echodoor.Option[C]) Middleware[C] {
	return v.Once(locks, keyfunc.Header("X-User"), lockmw.Flight{Retain: time.Minute}, append(opts, v.WithKeysOfEverybody())...)
}

// sendAs has handler serve a POST of a user.
func sendAs(handler http.Handler, user, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r.Header.Set("X-User", user)
	handler.ServeHTTP(w, r)
	return w
}

// errorOfAnIdempotentHandlerIsKept: Echo's answer to it is, and middleware in front sees the error, once.
func (v Version[C]) errorOfAnIdempotentHandlerIsKept(t *testing.T) {
	for status, kept := range map[int]bool{http.StatusPaymentRequired: true, http.StatusConflict: false, http.StatusBadGateway: false} {
		locks, _ := testenv.Locker(t)
		reason := errors.New("the card was declined")
		var logged []error
		e := v.New(false)
		e.Around(v.Logger(func(got int, err error) {
			logged = append(logged, err)
			if got != status {
				t.Errorf("logged status %d, want %d", got, status)
			}
		}))
		runs := 0
		e.Route(http.MethodPost, "/", func(C) error {
			runs++
			return v.Error(status, "declined", reason)
		}, v.once(locks))
		for i := range 2 {
			w := sendAs(e, "ann", "/")
			replayed := w.Header().Get("Idempotent-Replayed") == "true"
			if w.Code != status || w.Body.String() != `{"message":"declined"}`+"\n" || replayed != (kept && i == 1) {
				t.Errorf("answer %d = %d %q %v, want Echo's own of %d", i+1, w.Code, w.Body, w.Header(), status)
			}
		}
		if !errors.Is(logged[0], reason) || errors.Is(logged[1], reason) == kept || runs == 1 != kept {
			t.Errorf("%d: logged %v, %d runs; want the reason for each run, kept: %v", status, logged, runs, kept)
		}
	}
}

func (v Version[C]) answerOfAnIdempotentHandlerPassesEchosWriter(t *testing.T) {
	locks, _ := testenv.Locker(t)
	begun := 0
	e := v.New(false)
	e.Around(func(next func(C) error) func(C) error {
		return func(c C) error {
			v.Before(c, func() {
				begun++
				v.Writer(c).Header().Set("X-Begun", "1")
			})
			before := c.Request()
			err := next(c)
			if c.Request() != before {
				t.Error("the request is not put back")
			}
			return err
		}
	})
	e.Route(http.MethodPost, "/", func(c C) error { return c.String(http.StatusCreated, "paid") }, v.once(locks))
	for range 2 {
		if w := sendAs(e, "ann", "/"); w.Code != http.StatusCreated || w.Body.String() != "paid" || w.Header().Get("X-Begun") != "1" {
			t.Errorf("answer = %d %q %v, want 201 paid with the header of middleware", w.Code, w.Body, w.Header())
		}
	}
	if begun != 2 {
		t.Errorf("%d answers have begun, want 2", begun)
	}
}

func (v Version[C]) unknownPathOfAnIdempotentIsEchos(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := v.New(false)
	e.Around(v.once(locks))
	e.Route(http.MethodPost, "/orders", func(c C) error { return c.String(http.StatusCreated, "paid") })
	for _, user := range []string{"ann", "ann", ""} {
		if w := sendAs(e, user, "/nothing"); w.Code != http.StatusNotFound || w.Body.String() != `{"message":"Not Found"}`+"\n" {
			t.Errorf("%q: answer = %d %q, want Echo's 404", user, w.Code, w.Body)
		}
	}
}

// errorThatTellsOfALossIsUncertain: a handler that takes a lock itself returns what its function did and that the lock was lost, as a function of
// lockmw.Do may. Where it has written, that is its answer.
func (v Version[C]) errorThatTellsOfALossIsUncertain(t *testing.T) {
	paid := func(c C) error { return c.String(http.StatusCreated, "paid") }
	for name, tc := range map[string]struct {
		err    error
		writes bool
		want   string // of the second answer
	}{
		"lost":          {lockmw.ErrLost, false, "409 IDEMPOTENCY_UNCERTAIN"},
		"too long":      {lockmw.ErrMaxHold, false, "409 IDEMPOTENCY_UNCERTAIN"},
		"unsure":        {lockmw.ErrUncertain, false, "409 IDEMPOTENCY_UNCERTAIN"},
		"lost, written": {lockmw.ErrLost, true, "201 paid"},
		"another error": {errors.New("declined"), false, "402 declined"},
	} {
		locks, _ := testenv.Locker(t)
		e, runs := v.New(false), 0
		flight := lockmw.Flight{Retain: time.Minute, Crash: lockmw.Uncertain}
		e.Route(http.MethodPost, "/", func(c C) error {
			runs++
			if tc.writes {
				return errors.Join(paid(c), tc.err)
			}
			return v.Error(http.StatusPaymentRequired, "declined", tc.err)
		}, v.Once(locks, keyfunc.Header("X-User"), flight, v.WithKeysOfEverybody()))
		first, second := sendAs(e, "ann", "/"), sendAs(e, "ann", "/")
		if want := map[bool]int{false: http.StatusPaymentRequired, true: http.StatusCreated}[tc.writes]; first.Code != want {
			t.Errorf("%s: the first answer is %d %q, want the handler's %d", name, first.Code, first.Body, want)
		}
		status, text, _ := strings.Cut(tc.want, " ")
		if strconv.Itoa(second.Code) != status || !strings.Contains(second.Body.String(), text) || runs != 1 {
			t.Errorf("%s: the second answer is %d %q, want %s; %d runs", name, second.Code, second.Body, tc.want, runs)
		}
	}
}

// lockInFrontOfIdempotentIsTold, once for each route. Behind it a lock is right.
func (v Version[C]) lockInFrontOfIdempotentIsTold(t *testing.T) {
	var log testenv.Journal
	r := testenv.New(t, redistest.Embedded(t))
	locks := r.NewLocker(log.Option())
	e, paid := v.New(false), func(c C) error { return c.String(http.StatusCreated, "paid") }
	e.Route(http.MethodPost, "/orders/:id/pay", paid, v.lock(locks), v.once(locks))
	e.Route(http.MethodPost, "/orders/:id/cancel", paid, v.once(locks), v.lock(locks))
	for _, path := range []string{"/orders/1/pay", "/orders/2/pay", "/orders/1/cancel"} {
		if w := sendAs(e, "of"+path, path); w.Code != http.StatusCreated {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
	r.CloseNow(locks)
	if log.Count("in front of Idempotent", "POST /orders/:id/pay") != 1 || log.Count("in front of Idempotent") != 1 {
		t.Errorf("want one line, of the first route:\n%s", log.Text())
	}
}
