package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/bsm/redislock"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	fiberredis "github.com/gofiber/storage/redis/v3"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

const (
	keyHeader = "Idempotency-Key"
	// dieHeader names the step at which the process that serves the request is killed.
	dieHeader = "Die"

	workTakes = 50 * time.Millisecond
	ttl       = 2 * time.Second
	retain    = 10 * time.Minute
	mostBody  = 1 << 10
)

// The steps at which a process dies.
var steps = []string{"before the work", "in the work, nothing done", "in the work, paid", "after the work, nothing sent"}

// die kills the process if the request says so for this step.
func die(at, step string) {
	if at == step {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal has come
	}
}

// pay is the handler: it makes a payment, and answers with its number behind what was asked for.
func pay(l ledger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		at := r.Header.Get(dieHeader)
		asked, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
		if err != nil {
			http.Error(w, "no body", http.StatusBadRequest)
			return
		}
		die(at, steps[1])
		time.Sleep(workTakes)
		if err := l.note(r.Header.Get(keyHeader)); err != nil {
			http.Error(w, "no ledger", http.StatusInternalServerError)
			return
		}
		die(at, steps[2])
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s", asked, uuid.NewString())
	}
}

// outermost has the process die before and behind everything else.
func outermost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.Header.Get(dieHeader)
		die(at, steps[0])
		next.ServeHTTP(w, r)
		die(at, steps[3]) // net/http has a short answer in its buffer still
	})
}

// A contestant makes the service of a process.
type contestant func(client *redis.Client, work http.Handler) (http.Handler, error)

var contestants = map[string]contestant{
	"lockmw, Uncertain":              ours(lockmw.Uncertain),
	"lockmw, RunAgain":               ours(lockmw.RunAgain),
	"Fiber v3, storage in Redis":     byFiber,
	"by hand: redislock, look, make": byLock,
	"by hand: SET NX":                bySetNX,
}

func ours(crash lockmw.Crash) contestant {
	return func(client *redis.Client, work http.Handler) (http.Handler, error) {
		locks, err := lockmw.New(client)
		if err != nil {
			return nil, err
		}
		once := httplock.Idempotent(locks, keyfunc.MustParse("{header.Idempotency-Key|idempotency}"),
			lockmw.Flight{Policy: lockmw.Policy{TTL: ttl, Wait: 5 * time.Second}, Retain: retain, Crash: crash},
			httplock.WithKeysOfEverybody())
		mux := http.NewServeMux()
		mux.Handle("POST /pay", once(work))
		return mux, nil
	}
}

// byFiber is Fiber's own middleware, whose lock is in the memory of its process.
func byFiber(client *redis.Client, work http.Handler) (http.Handler, error) {
	app := fiber.New()
	app.Use(idempotency.New(idempotency.Config{KeyHeader: keyHeader, Lifetime: retain, Storage: fiberredis.New(fiberredis.Config{
		Addrs: []string{client.Options().Addr},
	})}))
	app.Post("/pay", adaptor.HTTPHandler(work))
	return adaptor.FiberApp(app), nil
}

// byLock is what people write with a lock: take it, look whether the answer is there, and otherwise make it.
func byLock(client *redis.Client, work http.Handler) (http.Handler, error) {
	locker := redislock.New(client)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(keyHeader)
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		lock, err := locker.Obtain(ctx, "lock:"+key, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(20 * time.Millisecond)})
		if err != nil {
			http.Error(w, "not locked", http.StatusServiceUnavailable)
			return
		}
		defer lock.Release(context.WithoutCancel(ctx)) //nolint:errcheck // as people write it
		kept, err := client.Get(ctx, "answer:"+key).Result()
		switch {
		case err == nil:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, kept)
			return
		case !errors.Is(err, redis.Nil):
			http.Error(w, "no answer", http.StatusServiceUnavailable)
			return
		}
		held := &buffer{header: w.Header(), status: http.StatusOK}
		work.ServeHTTP(held, r)
		if err := client.Set(context.WithoutCancel(ctx), "answer:"+key, held.body, retain).Err(); err != nil {
			http.Error(w, "not kept", http.StatusServiceUnavailable)
			return
		}
		held.send(w)
	}), nil
}

// bySetNX is what people write without a lock: a key that says that the work was begun, and has the answer later.
func bySetNX(client *redis.Client, work http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := "answer:" + r.Header.Get(keyHeader)
		ctx := context.WithoutCancel(r.Context())
		first, err := client.SetNX(ctx, key, "pending", retain).Result()
		if err != nil {
			http.Error(w, "no Redis", http.StatusServiceUnavailable)
			return
		}
		if !first {
			switch kept, err := client.Get(ctx, key).Result(); {
			case err != nil:
				http.Error(w, "no Redis", http.StatusServiceUnavailable)
			case kept == "pending":
				w.Header().Set("Retry-After", "1")
				http.Error(w, "in progress", http.StatusConflict)
			default:
				w.WriteHeader(http.StatusCreated)
				fmt.Fprint(w, kept)
			}
			return
		}
		held := &buffer{header: w.Header(), status: http.StatusOK}
		work.ServeHTTP(held, r)
		if err := client.Set(ctx, key, held.body, retain).Err(); err != nil {
			http.Error(w, "not kept", http.StatusServiceUnavailable)
			return
		}
		held.send(w)
	}), nil
}

// A buffer holds an answer back.
type buffer struct {
	header http.Header
	status int
	body   []byte
}

// Header returns the header of the answer.
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader keeps the status.
func (b *buffer) WriteHeader(status int) { b.status = status }

// Write keeps a part of the body.
func (b *buffer) Write(p []byte) (int, error) {
	b.body = append(b.body, p...)
	return len(p), nil
}

func (b *buffer) send(w http.ResponseWriter) {
	w.WriteHeader(b.status)
	_, _ = w.Write(b.body) // to a client that left, perhaps
}

// serve is the life of a process: it serves a contestant until it is killed.
func serve(name, redisAddr, ledgerPath, addr string) error {
	client := redis.NewClient(&redis.Options{Addr: redisAddr})
	handler, err := contestants[name](client, pay(ledger{ledgerPath}))
	if err != nil {
		return err
	}
	server := &http.Server{Addr: addr, Handler: outermost(handler), ReadHeaderTimeout: time.Second}
	return server.ListenAndServe()
}
