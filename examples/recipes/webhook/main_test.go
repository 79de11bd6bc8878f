package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/locktest"
)

const paid = `{"id":"evt_1","type":"paid"}`

var secret = []byte("whsec")

func signature(secret []byte, body string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

func request(body, signature string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader(body))
	r.Header.Set("Signature", signature)
	return r
}

// send sends an event as the sender does, and returns the status of the answer.
func send(service http.Handler, body string) int {
	w := httptest.NewRecorder()
	service.ServeHTTP(w, request(body, signature(secret, body)))
	return w.Code
}

func TestAnEventIsHandledOnce(t *testing.T) {
	locks := locktest.New(t)
	handled := 0 // under the lock of the event
	service := routes(locks, secret, func(_ context.Context, e event) error {
		if handled++; handled == 1 {
			locktest.AwaitWaiters(t, locks, once.Policy.Prefix+e.ID, 2)
		}
		return nil
	})
	statuses := make([]int, 3)
	var all sync.WaitGroup
	for i := range statuses {
		all.Go(func() { statuses[i] = send(service, paid) })
	}
	all.Wait()
	later := []int{send(service, paid), send(service, `{"id":"evt_1","type":"paid","tries":5}`)}
	for _, status := range append(later, statuses...) {
		if status != http.StatusNoContent {
			t.Errorf("the statuses are %v, and later %v", statuses, later)
		}
	}
	if handled != 1 {
		t.Errorf("handled %d times", handled)
	}
	if send(service, `{"id":"evt_2","type":"paid"}`); handled != 2 {
		t.Error("another event is not handled")
	}
}

// The sender must not take the event for handled while it may still fail.
func TestTheFirstIsStillAtWork(t *testing.T) {
	defer func(was time.Duration) { once.Policy.Wait = was }(once.Policy.Wait)
	once.Policy.Wait = time.Millisecond
	var (
		service   http.Handler
		handled   int
		meanwhile int
	)
	service = routes(locktest.New(t), secret, func(context.Context, event) error {
		if handled++; handled == 1 {
			meanwhile = send(service, paid)
			return errors.New("the database is away")
		}
		return nil
	})
	if first := send(service, paid); first != http.StatusServiceUnavailable || meanwhile != http.StatusServiceUnavailable {
		t.Errorf("the first: %d, meanwhile: %d", first, meanwhile)
	}
	if later := send(service, paid); later != http.StatusNoContent || handled != 2 {
		t.Errorf("later: %d, handled %d times", later, handled)
	}
}

func TestTheProcessDiesInTheMiddle(t *testing.T) {
	handled := 0
	service := routes(locktest.New(t), secret, func(context.Context, event) error {
		if handled++; handled == 1 {
			panic("the power is gone")
		}
		return nil
	})
	func() {
		defer func() { _ = recover() }()
		send(service, paid)
	}()
	if again := send(service, paid); again != http.StatusNoContent || handled != 2 {
		t.Errorf("again: %d, handled %d times", again, handled)
	}
}

func TestASenderThatHasHungUpDoesNotEndTheWork(t *testing.T) {
	handled := false
	service := routes(locktest.New(t), secret, func(ctx context.Context, _ event) error {
		handled = true
		return ctx.Err()
	})
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	service.ServeHTTP(httptest.NewRecorder(), request(paid, signature(secret, paid)).WithContext(gone))
	if !handled {
		t.Error("the event is not handled")
	}
}

func TestWhatIsNoEventOfTheSenderIsRefused(t *testing.T) {
	long := `{"id":"evt_3","data":"` + strings.Repeat("a", 1<<20) + `"}`
	service := routes(locktest.New(t), secret, func(_ context.Context, e event) error {
		t.Errorf("%+v is handled", e)
		return nil
	})
	for name, c := range map[string]struct {
		body, signature string
		want            int
	}{
		"nothing signed":   {paid, "", 401},
		"no hexadecimal":   {paid, "signed", 401},
		"another secret":   {paid, signature([]byte("guess"), paid), 401},
		"another body":     {`{"id":"evt_2"}`, signature(secret, paid), 401},
		"half a signature": {paid, signature(secret, paid)[:32], 401},
		"no JSON":          {"paid", signature(secret, "paid"), 400},
		"no ID":            {"{}", signature(secret, "{}"), 400},
		"too long":         {long, signature(secret, long), 400},
	} {
		w := httptest.NewRecorder()
		service.ServeHTTP(w, request(c.body, c.signature))
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", name, w.Code, c.want)
		}
	}
}
