package locktest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// What users write, as README.md and docs/testing.md show it.

func TestPaymentIsRefusedWhileOthersPay(t *testing.T) {
	locks := locktest.New(t) // over a Redis inside the test
	handler := shop(locks, func(context.Context, int64) error { return nil })

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
	handler := shop(locks, func(ctx context.Context, _ int64) error {
		locktest.Lose(t, locks, "order:42") // takes the lock away; the context ends at once
		return ctx.Err()                    // not nil: the context has ended
	})
	if got := post(handler, "/orders/42/pay"); !strings.Contains(got.Body.String(), "LOCK_LOST") {
		t.Errorf("answer = %d %s, want LOCK_LOST", got.Code, got.Body)
	}
}

func TestAllClicksGetTheReceipt(t *testing.T) {
	locks, charged := locktest.New(t), 0
	second := make(chan *httptest.ResponseRecorder, 1)
	var handler http.Handler
	handler = shop(locks, func(context.Context, int64) error {
		if charged++; charged > 1 {
			return nil
		}
		go func() { second <- click(handler, "/orders/42/pay", "k1") }()
		locktest.AwaitWaiters(t, locks, locktest.Keys(t, locks)[0], 1) // that of Idempotent, in front of order:42
		return nil
	})
	first := click(handler, "/orders/42/pay", "k1")
	for _, got := range []*httptest.ResponseRecorder{<-second, click(handler, "/orders/42/pay", "k1")} {
		if got.Header().Get("Idempotent-Replayed") != "true" || got.Body.String() != first.Body.String() {
			t.Errorf("answer = %d %q, want a replay of %d %q", got.Code, got.Body, first.Code, first.Body)
		}
	}
	if charged != 1 {
		t.Errorf("charged %d times", charged)
	}
}

func TestNobodyPaysAgainAfterACrash(t *testing.T) {
	locks, died, charged := locktest.New(t), false, 0
	handler := shop(locks, func(ctx context.Context, _ int64) error {
		if !died {
			died = true
			locktest.Crash(t, locks) // the process dies before it charges the card
			return ctx.Err()
		}
		charged++
		return nil
	})
	click(handler, "/orders/42/pay", "k1") // not looked at: the client of a dead process gets no answer
	if got := click(handler, "/orders/42/pay", "k1"); charged != 0 || !strings.Contains(got.Body.String(), "IDEMPOTENCY_UNCERTAIN") {
		t.Errorf("charged %d times; answer = %d %s, want IDEMPOTENCY_UNCERTAIN", charged, got.Code, got.Body)
	}
	for _, unknown := range locktest.Uncertain(t, locks) { // somebody has looked: nothing was charged
		if err := locks.Resolve(t.Context(), unknown.Key, unknown.ID, lockmw.Again); err != nil {
			t.Error(err)
		}
	}
	if got := click(handler, "/orders/42/pay", "k1"); charged != 1 || got.Code != http.StatusOK {
		t.Errorf("charged %d times; answer = %d %s", charged, got.Code, got.Body)
	}
}
