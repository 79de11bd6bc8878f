package lockadmin_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// The handler has no authentication: here HTTP's own stands in front of it. All who are let
// in may look, and those who are on call may release locks.
func ExampleHandler() {
	client, closeRedis := redistest.Example() // a service has its own client
	locks, err := lockmw.New(client)
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		_ = locks.Close(context.Background())
		closeRedis()
	}()

	onCall := func(r *http.Request) bool {
		user, _, _ := r.BasicAuth()
		return user == "ada"
	}
	signedIn := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			if !check(user, password) {
				w.Header().Set("WWW-Authenticate", "Basic")
				http.Error(w, "Who are you?", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/locks", signedIn(lockadmin.Handler(locks, lockadmin.WithHosts("locks.internal"), lockadmin.WithForceRelease(onCall))))

	for _, user := range []string{"", "ada"} {
		r := httptest.NewRequest(http.MethodGet, "http://locks.internal/ops/locks", nil)
		r.SetBasicAuth(user, "secret")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// 401 text/plain; charset=utf-8
	// 200 text/html; charset=utf-8
}

// check stands for what a service knows of its users.
func check(user, password string) bool { return user != "" && password == "secret" }
