package main

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
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
	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

const (
	keyHeader  = "Idempotency-Key"
	userHeader = "X-User"
	// dieHeader names the step at which the process that serves the request is killed.
	dieHeader = "Die"

	workTakes = 50 * time.Millisecond
	ttl       = 2 * time.Second
	retain    = 10 * time.Minute
	mostBody  = 1 << 10
)

// The routes of the service. Both do the same.
var routes = []string{"/pay", "/refund"}

// The steps at which a process dies, in the order in which a request comes to them.
const (
	beforeLock   = "before the lock"
	beforeNoted  = "before it is noted that the work begins"
	beforeWork   = "before the work"
	inWork       = "in the work, nothing done"
	paidInWork   = "in the work, paid"
	afterWork    = "after the work"
	beforeRecord = "as the answer is to be kept"
	afterRecord  = "after the answer was kept, nothing sent"
)

// stepsOf are the steps at which a contestant's process dies. Two of them lie within what is ours.
func stepsOf(name string) []string {
	if isOurs(name) {
		return []string{beforeLock, beforeNoted, beforeWork, inWork, paidInWork, afterWork, beforeRecord, afterRecord}
	}
	return []string{beforeLock, beforeWork, inWork, paidInWork, afterWork, afterRecord}
}

// isOurs reports whether a contestant is this module.
func isOurs(name string) bool { return strings.HasPrefix(name, "lockmw") }

// idOf names the payment that a request is about: the same key of another user, or on another route, is another one.
func idOf(r *http.Request) string {
	return r.Header.Get(userHeader) + r.URL.Path + "/" + r.Header.Get(keyHeader)
}

// A doom is the step at which a request has its process die. The zero value is none.
type doom struct {
	ledger ledger
	id     string // of the payment
	at     string
}

func doomOf(l ledger, r *http.Request) doom { return doom{l, idOf(r), r.Header.Get(dieHeader)} }

// strikes kills the process if the request says so for this step.
func (d doom) strikes(step string) {
	if d.at != step {
		return
	}
	_ = d.ledger.note(died, d.id, step)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal has come
}

type doomKey struct{}

// pay is the handler: it makes a payment, and answers with its number behind what was asked for, by whom, and where.
func pay(l ledger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d := doomOf(l, r)
		d.strikes(beforeWork)
		defer d.strikes(afterWork)
		leave, err := l.enter(d.id)
		if err != nil {
			http.Error(w, "no ledger", http.StatusInternalServerError)
			return
		}
		defer leave()
		asked, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
		if err != nil {
			http.Error(w, "no body", http.StatusBadRequest)
			return
		}
		d.strikes(inWork)
		time.Sleep(workTakes)
		if err := l.note(paid, d.id, ""); err != nil {
			http.Error(w, "no ledger", http.StatusInternalServerError)
			return
		}
		d.strikes(paidInWork)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s %s %s", asked, r.Header.Get(userHeader), r.URL.Path, uuid.NewString())
	}
}

// outermost has the process die before and behind everything else.
func outermost(l ledger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d := doomOf(l, r)
		d.strikes(beforeLock)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), doomKey{}, d)))
		d.strikes(afterRecord) // net/http has a short answer in its buffer still
	})
}

// A snare is in front of Redis, and has the process die within what is ours: when the lock was granted and nothing is noted of the work, or right before
// the command is written that keeps its answer.
type snare struct {
	set atomic.Pointer[snared]
}

// A snared is work whose process is to die before its answer is kept.
type snared struct {
	doom doom
	key  []byte // of its lock
}

// observe is told of the lock before anything is noted of the work.
func (s *snare) observe(ctx context.Context, e lockmw.Event) {
	d, _ := ctx.Value(doomKey{}).(doom)
	if e.Kind != lockmw.EventAcquired {
		return
	}
	d.strikes(beforeNoted)
	if d.at == beforeRecord {
		s.set.Store(&snared{d, []byte(e.Key)})
	}
}

// dial opens a connection to Redis that is watched.
func (s *snare) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return watchedConn{conn, s}, nil
}

type watchedConn struct {
	net.Conn
	snare *snare
}

// keepers are the names of the scripts that keep an answer.
var keepers = [][]byte{nameOf("keep"), nameOf("keepto")}

func nameOf(script string) []byte {
	sum := sha1.Sum([]byte(redisstore.Scripts()[script]))
	return []byte(hex.EncodeToString(sum[:]))
}

// Write writes commands, unless one of them is to keep the answer of work whose process dies first.
func (c watchedConn) Write(p []byte) (int, error) {
	if s := c.snare.set.Load(); s != nil && bytes.Contains(p, s.key) &&
		slices.ContainsFunc(keepers, func(name []byte) bool { return bytes.Contains(p, name) }) {
		s.doom.strikes(beforeRecord)
	}
	return c.Conn.Write(p)
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
		s := new(snare)
		watched := redis.NewClient(&redis.Options{Addr: client.Options().Addr, Dialer: s.dial})
		locks, err := lockmw.New(watched, lockmw.WithObserver(s.observe))
		if err != nil {
			return nil, err
		}
		once := httplock.Idempotent(locks, keyfunc.MustParse("{header.X-User}:{header.Idempotency-Key|idempotency}"),
			lockmw.Flight{Policy: lockmw.Policy{TTL: ttl, Wait: 5 * time.Second}, Retain: retain, Crash: crash})
		mux := http.NewServeMux()
		for _, route := range routes {
			mux.Handle("POST "+route, once(work))
		}
		return mux, nil
	}
}

// byFiber is Fiber's own middleware, whose lock is in the memory of its process, and whose key is the header alone.
func byFiber(client *redis.Client, work http.Handler) (http.Handler, error) {
	app := fiber.New()
	app.Use(idempotency.New(idempotency.Config{KeyHeader: keyHeader, Lifetime: retain, Storage: fiberredis.New(fiberredis.Config{
		Addrs: []string{client.Options().Addr},
	})}))
	for _, route := range routes {
		app.Post(route, adaptor.HTTPHandler(work))
	}
	return adaptor.FiberApp(app), nil
}

// byLock is what people write with a lock: take it, look whether the answer is there, and otherwise make it.
func byLock(client *redis.Client, work http.Handler) (http.Handler, error) {
	locker := redislock.New(client)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := idOf(r)
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
		key := "answer:" + idOf(r)
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
	l := ledger{ledgerPath}
	handler, err := contestants[name](client, pay(l))
	if err != nil {
		return err
	}
	server := &http.Server{Addr: addr, Handler: outermost(l, handler), ReadHeaderTimeout: time.Second}
	return server.ListenAndServe()
}
