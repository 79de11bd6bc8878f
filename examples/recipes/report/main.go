// Command report makes the report of a day once for all processes, and gives it to everybody who asks.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/lockmw"
)

// A report is for everybody who asks for its day, so nothing in it depends on who asked first.
type report struct {
	Day  string    `json:"day"`
	Text string    `json:"text"`
	Made time.Time `json:"made"`
}

// once has a report made once for all processes. Retain is how old it may be. Wait has room for a process that dies in the middle: for
// what that one had done, the TTL, and the work again.
var once = lockmw.Flight{
	Policy:    lockmw.Policy{Name: "report", Prefix: "reports:", TTL: 5 * time.Second, Wait: 30 * time.Second},
	Retain:    time.Minute,
	MaxAnswer: 1 << 20,
}

// routes returns the service. generate makes the report of a day; its context ends when nobody waits for the report any more.
func routes(locks *lockmw.Locker, generate func(ctx context.Context, day string) (report, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /reports/{day}", func(w http.ResponseWriter, r *http.Request) {
		day := r.PathValue("day")
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			http.Error(w, "a day is written as 2026-11-27", http.StatusBadRequest)
			return
		}
		made, _, err := lockmw.Do(r.Context(), locks, day, once, func(ctx context.Context) (report, error) { return generate(ctx, day) })
		if errors.Is(err, lockmw.ErrAnswerTooLarge) { // the report is right, and the next process has to make it again
			slog.Warn("the report is larger than MaxAnswer", "day", day)
			err = nil
		}
		switch {
		case httplock.WriteRefusal(w, r, err): // others make it, or Redis is away: as a lock in front would say
			return
		case err != nil: // that of generate, whose text is not for clients
			slog.Error("the report could not be made", "error", err)
			http.Error(w, "The report could not be made.", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(made); err != nil {
			slog.Info("the client has left", "error", err)
		}
	})
	return mux
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		log.Fatal(err)
	}
	var made atomic.Int64
	generate := func(ctx context.Context, day string) (report, error) { // in the place of your queries
		select {
		case <-time.After(2 * time.Second):
			return report{Day: day, Text: fmt.Sprintf("report %d of this process", made.Add(1)), Made: time.Now()}, nil
		case <-ctx.Done():
			return report{}, context.Cause(ctx)
		}
	}
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("ADDR"), ":8080"), routes(locks, generate)))
}
