package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	os.Exit(m.Run())
}

func post(service http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	service.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	return w
}

func TestPaymentAndRefundHaveOneLock(t *testing.T) {
	locks := locktest.New(t)
	var booked []string
	service := routes(locks, func(_ context.Context, order int, paid bool) error {
		booked = append(booked, fmt.Sprint(order, paid, locktest.Keys(t, locks)))
		return nil
	})
	for _, path := range []string{"/orders/42/pay", "/orders/42/refund", "/orders/042/pay"} {
		if w := post(service, path); w.Code != http.StatusCreated {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if want := []string{"42 true [order:42]", "42 false [order:42]", "42 true [order:42]"}; !slices.Equal(booked, want) {
		t.Errorf("booked are %q, want %q", booked, want)
	}
}

// What the client is told, whether it is asked to come again, and that no name of a lock goes out.
func TestEachEndHasItsAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		want  int
		again bool
	}{
		"booked":                     {nil, http.StatusCreated, false},
		"nothing to do":              {errUnchanged, http.StatusConflict, false},
		"a later holder has written": {&fence.StaleError{Key: "order:42", RedisKey: "lock:{order:42}", Fence: 1, Highest: 2}, http.StatusConflict, true},
		"the lock was lost":          {fmt.Errorf("order:42: %w", lockmw.ErrLost), http.StatusConflict, true},
		"it has taken too long":      {fmt.Errorf("order:42: %w", lockmw.ErrMaxHold), http.StatusConflict, true},
		"the database":               {errors.New("order:42: the connection is gone"), http.StatusServiceUnavailable, true},
		"the commit":                 {fmt.Errorf("order:42: %w, %w", errUnknown, lockmw.ErrLost), http.StatusServiceUnavailable, true},
	} {
		w := post(routes(locktest.New(t), func(context.Context, int, bool) error { return tc.err }), "/orders/42/pay")
		if w.Code != tc.want || (w.Header().Get("Retry-After") != "") != tc.again {
			t.Errorf("%s: %d, Retry-After %q; want %d, %v", name, w.Code, w.Header().Get("Retry-After"), tc.want, tc.again)
		}
		if text := w.Body.String(); text == "" || strings.Contains(text, "order:42") {
			t.Errorf("%s: the answer is %q", name, text)
		}
	}
}

// Redis forgets the lock while another service is asked, or during the transaction, and this process notices it.
func TestALockThatIsLostIsAnswered(t *testing.T) {
	for name, work := range map[string]func(ctx context.Context) error{
		"another service": func(ctx context.Context) error { return approve(ctx, 42) },
		"a transaction":   func(ctx context.Context) error { return ctx.Err() },
	} {
		locks := locktest.New(t)
		service := routes(locks, func(ctx context.Context, _ int, _ bool) error {
			locktest.Lose(t, locks, "order:42")
			return work(ctx)
		})
		if w := post(service, "/orders/42/pay"); w.Code != http.StatusConflict || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %d, Retry-After %q", name, w.Code, w.Header().Get("Retry-After"))
		}
	}
}

func TestWhatIsNoOrderIsRefused(t *testing.T) {
	service := routes(locktest.New(t), func(_ context.Context, order int, _ bool) error {
		t.Errorf("%d is booked", order)
		return nil
	})
	for _, id := range []string{"x", "1.5", "99999999999999999999"} {
		if w := post(service, "/orders/"+id+"/pay"); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", id, w.Code)
		}
	}
}
