package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func TestRefusalsHaveTheEnvelope(t *testing.T) {
	locks := locktest.New(t)
	handler := routes(locks, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) })
	pay := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
		return w
	}
	release := locktest.Hold(t, locks, "order:42")
	for status, code := range map[int]string{http.StatusConflict: lockmw.CodeBusy, http.StatusServiceUnavailable: lockmw.CodeBackendUnavailable} {
		if status == http.StatusServiceUnavailable {
			locktest.Down(t, locks)
		}
		w := pay()
		var got envelope
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		if w.Code != status || got.Error.Code != code || got.Error.Message == "" || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d %s %v, want %d %s", w.Code, w.Body, w.Header(), status, code)
		}
		if strings.Contains(w.Body.String(), "42") {
			t.Errorf("the answer shows the key: %s", w.Body)
		}
		locktest.Up(t, locks)
	}
	release()
	if w := pay(); w.Code != http.StatusCreated {
		t.Errorf("%d", w.Code)
	}
}
