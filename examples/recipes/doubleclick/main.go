// Command doubleclick pays once, however often the same request comes, and gives each of them the receipt.
package main

import (
	"cmp"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// once has a payment made once for each key, and its receipt given to whoever sends the same request again that day. Where the
// process dies in the middle, somebody has to look: the card may have been charged.
var once = lockmw.Flight{
	Policy: lockmw.Policy{Name: "pay", Prefix: "pay:", Wait: 10 * time.Second, MaxHold: time.Minute},
	Retain: 24 * time.Hour,
	Crash:  lockmw.Uncertain,
}

// routes returns the service. user says who sends a request, as your authentication knows it.
func routes(locks *lockmw.Locker, user func(r *http.Request) (string, bool), pay http.HandlerFunc) http.Handler {
	idempotent := httplock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"), once,
		httplock.WithValues(func(r *http.Request, name string) (any, bool) {
			id, ok := user(r)
			return id, ok && name == "user"
		}))
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second})
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", idempotent(lock(pay)))
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
	pay := func(w http.ResponseWriter, _ *http.Request) { // in the place of your payment
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "receipt %d\n", rand.Uint32())
	}
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("ADDR"), ":8080"), routes(locks, user, pay)))
}
