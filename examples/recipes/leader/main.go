// Command leader has one process of many write a summary each second. Start it three times, with
// ADDR=:8081 and so on, and kill the one that leads.
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
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// A store refuses writers whose fence is lower than one that it has seen: a former leader that has
// not noticed yet. In SQL: UPDATE summary SET text = $1, fence = $2 WHERE fence <= $2, and no row
// that was changed is a refusal.
type store struct {
	mu    sync.Mutex
	fence int64
	text  string
}

var errStale = errors.New("a later leader has written already")

func (s *store) write(fence int64, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fence < s.fence {
		return errStale
	}
	s.fence, s.text = fence, text
	return nil
}

// lead is the work of the leader. It returns when ctx ends: at the loss, and when the program ends.
func lead(ctx context.Context, s *store) error {
	lease, _ := lockmw.FromContext(ctx)
	slog.Info("this process leads", "fence", lease.Fence())
	for {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.write(lease.Fence(), "written at "+time.Now().Format(time.TimeOnly)); err != nil {
			return err // Run tries again to become leader
		}
	}
}

// routes tells who leads. Whoever does not is ready as well: it serves requests, and can take over.
func routes(locks *lockmw.Locker, leader *lockmw.Leader) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		if err := locks.Ping(r.Context()); errors.Is(err, lockmw.ErrUnavailable) {
			http.Error(w, "locks are not available", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		leads := 0
		if leader.IsLeader() {
			leads = 1
		}
		fmt.Fprintf(w, "# TYPE summary_leader gauge\nsummary_leader %d\n", leads)
	})
	return mux
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	leader := locks.Leader("summary", lockmw.Policy{Prefix: "leader:", TTL: 5 * time.Second})
	server := &http.Server{Addr: cmp.Or(os.Getenv("ADDR"), ":8080"), Handler: routes(locks, leader)}
	go func() {
		if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
			slog.Error("nobody can ask who leads", "error", err)
		}
	}()
	var s store
	err = leader.Run(ctx, func(ctx context.Context) error { return lead(ctx, &s) })
	if ctx.Err() != nil {
		err = nil // the program was told to end
	}
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(last), locks.Close(last), client.Close())
}
