// Command worker handles the messages of a queue: those of one order one after the other, whichever
// worker gets them.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/lockmw"
)

// A message is what the queue delivers, at least once.
type message struct {
	id    int64
	order string
}

// A queue is your broker's client.
type queue interface {
	receive(ctx context.Context) (message, error)
	ack(m message)                       // it is done
	nack(m message, after time.Duration) // deliver it again
	bury(m message)                      // put it into the dead-letter queue
}

// perOrder is the lock of an order. Wait is short: a worker that waits handles nothing else. MaxHold
// is shorter than the time after which the queue delivers a message again.
var perOrder = lockmw.Policy{Prefix: "order:", Wait: time.Second, TTL: 10 * time.Second, MaxHold: 25 * time.Second}

// work handles messages until ctx ends, or the queue's client gives up.
func work(ctx context.Context, locks *lockmw.Locker, q queue, s *store) error {
	for {
		m, err := q.receive(ctx)
		if err != nil {
			return err
		}
		err = locks.WithLock(ctx, m.order, perOrder, func(ctx context.Context) error { return handle(ctx, s, m) })
		switch {
		case err == nil:
			q.ack(m)
		case errors.Is(err, lockmw.ErrInvalidKey): // no lock can have this key, however often the message comes
			slog.Error("the message cannot be handled", "message", m.id, "error", err)
			q.bury(m)
		default:
			after := 5 * time.Second
			if refusal, ok := lockmw.RefusalOf(err); ok && refusal.RetryAfter > 0 {
				after = refusal.RetryAfter // others are at work on this order, or Redis is down
			}
			slog.Warn("the message comes again", "message", m.id, "after", after, "error", err)
			q.nack(m, after)
		}
	}
}

// handle does the work for one message. ctx ends if the lock is lost, and when MaxHold is over.
func handle(ctx context.Context, s *store, m message) error {
	text, err := compute(ctx, m)
	if err != nil {
		return err
	}
	lease, _ := lockmw.FromContext(ctx)
	if !lease.Valid() { // right before the side effect; it sees what ctx may tell a moment later
		return lockmw.ErrLost
	}
	return s.write(m, lease.Fence(), text)
}

func compute(ctx context.Context, m message) (string, error) {
	return "shipped by message " + fmt.Sprint(m.id), ctx.Err()
}

// A store refuses a fence that is lower than one it has seen for the order, and does nothing for a
// message that it has seen: a message may come twice. In SQL, both are in one transaction with the work.
type store struct {
	mu     sync.Mutex
	fences map[string]int64
	seen   map[int64]bool
	orders map[string]string
}

var errStale = errors.New("a later holder has written already")

func newStore() *store {
	return &store{fences: make(map[string]int64), seen: make(map[int64]bool), orders: make(map[string]string)}
}

func (s *store) write(m message, fence int64, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.seen[m.id]:
		return nil
	case fence < s.fences[m.order]:
		return errStale
	}
	s.seen[m.id], s.fences[m.order], s.orders[m.order] = true, fence, text
	return nil
}

// inMemory stands for a broker.
type inMemory chan message

func (q inMemory) receive(ctx context.Context) (message, error) {
	select {
	case m := <-q:
		return m, nil
	case <-ctx.Done():
		return message{}, context.Cause(ctx)
	}
}

func (q inMemory) ack(m message) { slog.Info("done", "message", m.id) }

func (q inMemory) nack(m message, after time.Duration) {
	time.AfterFunc(after, func() { q <- m })
}

func (q inMemory) bury(m message) { slog.Info("in the dead-letter queue", "message", m.id) }

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
	q, s := make(inMemory, 100), newStore()
	for id := range int64(10) {
		q <- message{id: id, order: fmt.Sprint(id % 3)}
	}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() { _ = work(ctx, locks, q, s) }) // it ends with ctx
	}
	workers.Wait()
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(locks.Close(last), client.Close())
}
