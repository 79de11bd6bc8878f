package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/locktest"
)

func post(handler http.Handler, path, body string) int {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code
}

func TestEachOrderIsLocked(t *testing.T) {
	locks := locktest.New(t)
	var keys []string
	handler := routes(locks, func(int64) { keys = locktest.Keys(t, locks) })
	if status := post(handler, "/orders/ship", `{"ids": [2, 1, 2]}`); status != http.StatusOK {
		t.Fatal(status)
	}
	if want := []string{"order:1", "order:2"}; !slices.Equal(keys, want) {
		t.Errorf("the locks are %q, want %q", keys, want)
	}
	if status := post(handler, "/orders/7/ship", ""); status != http.StatusOK || !slices.Equal(keys, []string{"order:7"}) {
		t.Errorf("one order: %d under %q", status, keys)
	}
}

// What is shipped is what is locked, whatever spelling of its number a client finds.
func TestAnOrderIsShippedUnderItsOwnLock(t *testing.T) {
	locks := locktest.New(t)
	handler := routes(locks, func(id int64) {
		if keys, want := locktest.Keys(t, locks), fmt.Sprint("order:", id); !slices.Equal(keys, []string{want}) {
			t.Errorf("order %d is shipped under %q", id, keys)
		}
	})
	for spelling, want := range map[string]int{
		"10": http.StatusOK, "010": http.StatusOK, "08": http.StatusOK, "+7": http.StatusOK, "-0": http.StatusOK,
		"0x10": http.StatusBadRequest, "1_0": http.StatusBadRequest, "7%208": http.StatusBadRequest, "99999999999999999999": http.StatusBadRequest,
	} {
		if status := post(handler, "/orders/"+spelling+"/ship", ""); status != want {
			t.Errorf("%s: status = %d, want %d", spelling, status, want)
		}
	}
}

func TestABatchWaitsForOneOfItsOrders(t *testing.T) {
	locks := locktest.New(t)
	shipped := make(chan int64, 2)
	handler := routes(locks, func(id int64) { shipped <- id })
	release := locktest.Hold(t, locks, "order:2")
	done := make(chan int, 1)
	go func() { done <- post(handler, "/orders/ship", `{"ids": [1, 2]}`) }()
	locktest.AwaitWaiters(t, locks, "order:2", 1)
	if len(shipped) != 0 {
		t.Error("an order was shipped before all were locked")
	}
	release()
	if status := <-done; status != http.StatusOK || len(shipped) != 2 {
		t.Errorf("%d, and %d shipped", status, len(shipped))
	}
}

func TestABatchThatIsTooLongIsRefused(t *testing.T) {
	handler := routes(locktest.New(t), func(int64) { t.Error("shipped") })
	ids := make([]string, 65)
	for i := range ids {
		ids[i] = fmt.Sprint(i)
	}
	for _, body := range []string{`{"ids": [` + strings.Join(ids, ",") + `]}`, `{"ids": []}`, `{}`} {
		if status := post(handler, "/orders/ship", body); status != http.StatusBadRequest {
			t.Errorf("%.20s: %d, want 400", body, status)
		}
	}
}
