// Command envelope answers refusals in an envelope of its own.
package main

import (
	"cmp"
	"encoding/json"
	"log"
	"log/slog"
	"math"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// An envelope is the body of all answers of this API that are errors.
type envelope struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// refuse answers a request that has not got its lock, or that has lost it. Nothing of the error's
// own text goes out, because it names the key.
func refuse(w http.ResponseWriter, _ *http.Request, err error) {
	refusal, ok := lockmw.RefusalOf(err)
	if !ok || refusal.Code == "" {
		return // nobody is there to tell
	}
	if refusal.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(refusal.RetryAfter.Seconds()))))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(refusal.Status)
	var e envelope
	e.Error.Code, e.Error.Message = refusal.Code, refusal.Detail
	if err := json.NewEncoder(w).Encode(e); err != nil {
		slog.Info("the client has left", "error", err)
	}
}

func routes(locks *lockmw.Locker, pay http.HandlerFunc) http.Handler {
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:"},
		httplock.WithErrorHandler(refuse))
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
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("ADDR"), ":8080"), routes(locks, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(5 * time.Second) // the work; try a second request meanwhile
		w.WriteHeader(http.StatusCreated)
	})))
}
