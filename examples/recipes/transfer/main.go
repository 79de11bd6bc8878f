// Command transfer moves money between two accounts, both of which are locked.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// account is the policy of all code that changes an account. The key is the account's name, so all of that code asks for the same lock.
var account = lockmw.Policy{Prefix: "account:", Wait: 2 * time.Second, TTL: 10 * time.Second}

// A bank keeps balances. It stands for a database that many processes use.
type bank struct {
	mu       sync.Mutex
	balances map[string]int
}

var errBroke = errors.New("there is not enough money")

// move is one transaction, made while both accounts are locked.
func (b *bank) move(ctx context.Context, from, to string, amount int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lease, ok := lockmw.FromContext(ctx); !ok || !lease.Valid() { // right before the side effect
		return errors.New("the locks are over")
	}
	if b.balances[from] < amount {
		return errBroke
	}
	b.balances[from] -= amount
	b.balances[to] += amount
	return nil
}

// routes locks both accounts by fields of the body. They are taken together, in the same order
// whichever way the money goes, so two transfers never wait for each other in a circle.
func routes(locks *lockmw.Locker, b *bank) http.Handler {
	both := keyfunc.All(keyfunc.MustParse("{body.from}"), keyfunc.MustParse("{body.to}"))
	lock := httplock.Middleware(locks, both, account)
	mux := http.NewServeMux()
	mux.Handle("POST /transfers", lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var order struct {
			From, To string
			Amount   int
		}
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil || order.Amount <= 0 {
			http.Error(w, "that is no transfer", http.StatusBadRequest)
			return
		}
		if err := b.move(r.Context(), order.From, order.To, order.Amount); err != nil {
			http.Error(w, "not transferred", http.StatusUnprocessableEntity)
		}
	})))
	return mux
}

// settle does the same where there is no request: in a job, or a consumer of a queue. The names of accounts have no "%", which
// a template escapes, and 200 bytes at most.
func settle(ctx context.Context, locks *lockmw.Locker, b *bank, from, to string, amount int) error {
	return locks.WithLocks(ctx, []string{from, to}, account, func(ctx context.Context) error {
		return b.move(ctx, from, to, amount)
	})
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		log.Fatal(err)
	}
	b := &bank{balances: map[string]int{"ann": 100, "bob": 100}}
	if err := settle(context.Background(), locks, b, "ann", "bob", 10); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("ADDR"), ":8080"), routes(locks, b)))
}
