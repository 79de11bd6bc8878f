package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockmw/kit/locktest"
)

func transfer(handler http.Handler, from, to string, amount int) int {
	body := fmt.Sprintf(`{"from": %q, "to": %q, "amount": %d}`, from, to, amount)
	r := httptest.NewRequest(http.MethodPost, "/transfers", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code
}

func TestBothAccountsAreLocked(t *testing.T) {
	locks := locktest.New(t)
	b := &bank{balances: map[string]int{"ann": 100, "bob": 100}}
	handler := routes(locks, b)
	for _, other := range []string{"account:ann", "account:bob"} {
		release := locktest.Hold(t, locks, other)
		done := make(chan int, 1)
		go func() { done <- transfer(handler, "ann", "bob", 10) }()
		locktest.AwaitWaiters(t, locks, other, 1)
		release()
		if status := <-done; status != http.StatusOK {
			t.Errorf("behind %s: %d", other, status)
		}
	}
	if b.balances["ann"] != 80 || b.balances["bob"] != 120 {
		t.Errorf("balances are %v", b.balances)
	}
	if status := transfer(handler, "ann", "bob", 1000); status != http.StatusUnprocessableEntity {
		t.Errorf("too much: %d", status)
	}
	if status := transfer(handler, "ann", "", 1); status != http.StatusBadRequest {
		t.Errorf("to nobody: %d", status)
	}
}

func TestTransfersBothWaysDoNotBlockEachOther(t *testing.T) {
	locks := locktest.New(t)
	b := &bank{balances: map[string]int{"ann": 100, "bob": 100}}
	var wg sync.WaitGroup
	for i := range 20 {
		accounts := []string{"ann", "bob"}
		if i%2 == 1 {
			slices.Reverse(accounts)
		}
		wg.Go(func() {
			if err := settle(t.Context(), locks, b, accounts[0], accounts[1], 1); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if b.balances["ann"] != 100 || b.balances["bob"] != 100 {
		t.Errorf("balances are %v", b.balances)
	}
}
