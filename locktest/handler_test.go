package locktest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/lockmw/kit/locktest"
)

// What users write, as README.md and docs/testing.md show it.

func TestPaymentIsRefusedWhileOthersPay(t *testing.T) {
	locks := locktest.New(t) // over a Redis inside the test
	handler := shop(locks, func(context.Context) error { return nil })

	release := locktest.Hold(t, locks, "order:42") // as another process would
	if got := post(handler, "/orders/42/pay"); got.Code != http.StatusConflict {
		t.Errorf("status = %d, want 409", got.Code)
	}
	release()
	if got := post(handler, "/orders/42/pay"); got.Code != http.StatusOK {
		t.Errorf("status = %d, want 200", got.Code)
	}
}

func TestPaymentStopsWhenTheLockIsLost(t *testing.T) {
	locks := locktest.New(t)
	handler := shop(locks, func(ctx context.Context) error {
		locktest.Lose(t, locks, "order:42") // as if Redis had forgotten it
		return ctx.Err()                    // has ended
	})
	if got := post(handler, "/orders/42/pay"); !strings.Contains(got.Body.String(), "LOCK_LOST") {
		t.Errorf("answer = %d %s, want LOCK_LOST", got.Code, got.Body)
	}
}
