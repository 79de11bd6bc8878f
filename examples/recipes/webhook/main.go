// Command webhook takes events from a sender that repeats each of them until it is answered with 2xx, and handles each once.
package main

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// An event is what the sender tells. Its ID is the same each time that it is sent; other fields may differ.
type event struct {
	ID   string          `json:"id"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// once has an event handled once. Wait is shorter than the sender waits for an answer, and Retain is longer than it goes on trying. Where a
// process dies in the middle the next try handles the event: nobody sits there who could look.
var once = lockmw.Flight{
	Policy: lockmw.Policy{Name: "webhook", Prefix: "event:", Wait: 5 * time.Second, MaxHold: time.Minute},
	Retain: 4 * 24 * time.Hour,
	Crash:  lockmw.RunAgain,
}

// signed reports whether signature is the HMAC-SHA256 of the body with the secret that the sender shares with this service.
func signed(secret, body []byte, signature string) bool {
	sent, err := hex.DecodeString(signature)
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return err == nil && hmac.Equal(sent, mac.Sum(nil)) // in constant time
}

// routes returns the service. An error of handle has the sender try again.
func routes(locks *lockmw.Locker, secret []byte, handle func(ctx context.Context, e event) error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhooks", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		if !signed(secret, body, r.Header.Get("Signature")) { // before anything that a stranger sends is believed
			http.Error(w, "the signature is wrong", http.StatusUnauthorized)
			return
		}
		var e event
		if err := json.Unmarshal(body, &e); err != nil || e.ID == "" {
			http.Error(w, "that is no event", http.StatusBadRequest)
			return
		}
		// A sender that hangs up does not end the work; MaxHold does.
		ctx := context.WithoutCancel(r.Context())
		_, _, err = lockmw.Do(ctx, locks, e.ID, once, func(ctx context.Context) (struct{}, error) { return struct{}{}, handle(ctx, e) })
		if err != nil {
			slog.Warn("the sender is to send the event again", "event", e.ID, "error", err)
			http.Error(w, "send it again later", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func main() {
	secret := os.Getenv("WEBHOOK_SECRET")
	if secret == "" {
		log.Fatal("WEBHOOK_SECRET is empty: everybody could sign with it")
	}
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		log.Fatal(err)
	}
	handle := func(ctx context.Context, e event) error { // in the place of your work
		slog.Info("the event is handled here", "event", e.ID, "type", e.Type)
		return ctx.Err()
	}
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("ADDR"), ":8080"), routes(locks, []byte(secret), handle)))
}
