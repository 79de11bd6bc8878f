package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	os.Exit(m.Run())
}

func TestTenantsHaveLocksOfTheirOwn(t *testing.T) {
	for name, service := range map[string]func(locks *lockmw.Locker, ran func()) http.Handler{
		"net/http": func(locks *lockmw.Locker, ran func()) http.Handler {
			return netHTTP(locks, func(http.ResponseWriter, *http.Request) { ran() })
		},
		"Gin": func(locks *lockmw.Locker, ran func()) http.Handler {
			return inGin(locks, func(*gin.Context) { ran() })
		},
	} {
		locks := locktest.New(t)
		var keys []string
		handler := service(locks, func() { keys = append(keys, locktest.Keys(t, locks)...) })
		for token, want := range map[string]int{"Bearer a": 200, "Bearer b": 200, "Bearer c": 401} {
			r := httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil)
			r.Header.Set("Authorization", token)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s, %s: %d, want %d", name, token, w.Code, want)
			}
		}
		slices.Sort(keys)
		if want := []string{"order:acme:42", "order:bolt:42"}; !slices.Equal(keys, want) {
			t.Errorf("%s: the locks are %q, want %q", name, keys, want)
		}
	}
}
