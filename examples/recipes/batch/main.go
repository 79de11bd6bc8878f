// Command batch ships several orders at a time, each of which is locked.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// routes locks each element of {"ids": [1, 2]}: all of them or none. Whoever ships one order takes
// the same lock.
func routes(locks *lockmw.Locker, ship func(id int64)) http.Handler {
	policy := lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second}
	each := httplock.Middleware(locks, keyfunc.Each("body.ids", keyfunc.MustParse("{body.ids|int}")), policy)
	one := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), policy)
	mux := http.NewServeMux()
	mux.Handle("POST /orders/ship", each(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var orders struct{ IDs []int64 }
		if err := json.NewDecoder(r.Body).Decode(&orders); err != nil {
			http.Error(w, "that is no list of orders", http.StatusBadRequest)
			return
		}
		for _, id := range orders.IDs {
			if r.Context().Err() != nil { // a lock was lost, or the client has left
				return
			}
			ship(id)
		}
		fmt.Fprintf(w, "%d shipped\n", len(orders.IDs))
	})))
	mux.Handle("POST /orders/{id}/ship", one(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64) // as |int reads it: fmt.Sscan takes 010 for 8, under the lock of 10
		if err != nil {
			http.Error(w, "that is no order", http.StatusBadRequest)
			return
		}
		ship(id)
	})))
	return mux
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		log.Fatal(err)
	}
	ship := func(id int64) { slog.Info("shipped", "order", id) }
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("ADDR"), ":8080"), routes(locks, ship)))
}
