// Command events lets one person at a time edit a document: whoever has its stream of server-sent
// events open.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

const (
	longest = 30 * time.Minute // a document may be edited without asking anew
	beat    = 15 * time.Second // between two signs of life, shorter than time-outs of proxies
)

// routes returns the service. The lock is held for as long as the stream is open.
func routes(locks *lockmw.Locker, longest, beat time.Duration) http.Handler {
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.id}"), lockmw.Policy{
		Prefix: "document:", TTL: 10 * time.Second, MaxHold: longest, RetryAfter: 10 * time.Second})
	mux := http.NewServeMux()
	mux.HandleFunc("HEAD /documents/{id}/edit", func(w http.ResponseWriter, _ *http.Request) { // GET has it, too: a lock without a stream
		w.WriteHeader(http.StatusMethodNotAllowed)
	})
	mux.Handle("GET /documents/{id}/edit", lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Accel-Buffering", "no") // nginx
		send := func(event string) error {
			stream := http.NewResponseController(w)
			if err := stream.SetWriteDeadline(time.Now().Add(beat)); err != nil { // for a client that reads no more
				return err
			}
			defer func() { _ = stream.SetWriteDeadline(time.Time{}) }() // HTTP/2 ends a stream whose deadline passes between two events
			if _, err := fmt.Fprintf(w, "event: %s\ndata: {}\n\n", event); err != nil {
				return err
			}
			return stream.Flush()
		}
		for event := "yours"; send(event) == nil; event = "beat" { // an error: the client has left
			select {
			case <-time.After(beat):
			case <-r.Context().Done():
				_ = send(ending(r.Context())) // the stream ends in any case
				return
			}
		}
	})))
	return mux
}

// ending tells the client why its stream ends.
func ending(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, lockmw.ErrMaxHold):
		return "over" // the client may ask anew, behind those who wait
	case errors.Is(cause, lockmw.ErrLost):
		return "lost" // somebody else may edit the document
	}
	return "bye"
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("ADDR"), ":8080"), routes(locks, longest, beat))) // without a WriteTimeout
}
