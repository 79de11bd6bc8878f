// Command doubleclick refuses a second click on the button of an order.
package main

import (
	"cmp"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// oneClick keeps a user's order taken for five seconds after the first click, also when that was
// answered at once. A click that fails frees it, so that the user can try again.
var oneClick = lockmw.Policy{Name: "pay", Prefix: "click:", MinHold: 5 * time.Second}

// routes returns the service. user says who sends a request, as your authentication knows it.
func routes(locks *lockmw.Locker, user func(r *http.Request) (string, bool), pay http.HandlerFunc) http.Handler {
	lock := httplock.Middleware(locks, keyfunc.MustParse("{value.user}:{param.id|int}"), oneClick,
		httplock.WithValues(func(r *http.Request, name string) (any, bool) {
			id, ok := user(r)
			return id, ok && name == "user"
		}))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", lock(pay))
	return mux
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		log.Fatal(err)
	}
	user := func(r *http.Request) (string, bool) { // in the place of your authentication
		name, _, ok := r.BasicAuth()
		return name, ok
	}
	pay := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	}
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("ADDR"), ":8080"), routes(locks, user, pay)))
}
