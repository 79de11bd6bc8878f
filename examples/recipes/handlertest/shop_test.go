package shop

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func pay(shop http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	shop.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	return w
}

// The right lock is held while the customer is charged, and nothing is left behind.
func TestTheOrderIsLocked(t *testing.T) {
	locks := locktest.New(t) // over a Redis inside the test
	shop := Routes(locks, func(context.Context, string) error {
		if keys := locktest.Keys(t, locks); !slices.Equal(keys, []string{"order:42"}) {
			t.Errorf("locked are %q", keys)
		}
		return nil
	})
	if got := pay(shop); got.Code != http.StatusOK {
		t.Errorf("status = %d", got.Code)
	}
	if keys := locktest.Keys(t, locks); len(keys) != 0 {
		t.Errorf("%q is still locked", keys)
	}
}

// A second payment runs when the first one is over. AwaitWaiters takes the place of a pause.
func TestAPaymentWaits(t *testing.T) {
	locks := locktest.New(t)
	shop := Routes(locks, func(context.Context, string) error { return nil })
	release := locktest.Hold(t, locks, "order:42") // as another process would
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() { done <- pay(shop) }()
	locktest.AwaitWaiters(t, locks, "order:42", 1)
	release()
	if got := <-done; got.Code != http.StatusOK {
		t.Errorf("status = %d", got.Code)
	}
}

// Nobody is told that a payment has gone through that may have been made twice.
func TestALostLockIsNoSuccess(t *testing.T) {
	locks := locktest.New(t)
	shop := Routes(locks, func(ctx context.Context, _ string) error {
		locktest.Lose(t, locks, "order:42") // as a Redis does that forgets
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), lockmw.ErrLost) {
			t.Errorf("cause = %v", context.Cause(ctx))
		}
		return context.Cause(ctx)
	})
	if got := pay(shop); got.Code != http.StatusInternalServerError {
		t.Errorf("status = %d", got.Code)
	}
}

// Without Redis nobody pays without the lock.
func TestRedisIsDown(t *testing.T) {
	locks := locktest.New(t)
	shop := Routes(locks, func(context.Context, string) error {
		t.Error("charged without the lock")
		return nil
	})
	locktest.Down(t, locks)
	if got := pay(shop); got.Code != http.StatusServiceUnavailable {
		t.Errorf("status = %d", got.Code)
	}
}
