// Command workflow ships orders in three activities, each of which may run in another process. The lock of an order goes along from the first
// to the last, so that nobody else changes the order in between.
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

// A state is what an activity returns and the next one is called with. Your workflow engine keeps it.
type state struct {
	Order  string
	Ticket string // of the order's lock; empty: the activity takes the lock itself
}

// perOrder is for whatever changes an order. An activity that is tried again waits, too: others may have had the lock since. MaxHold is for one that hangs.
var perOrder = lockmw.Policy{Prefix: "order:", Wait: 20 * time.Second, MaxHold: 5 * time.Minute}

// between is how long it may take until the next activity begins. If the engine does not learn that an activity is done, it tries it again: then the lock
// belongs, for this long, to a ticket that nobody has.
const between = 30 * time.Second

// A host runs activities.
type host struct {
	locks *lockmw.Locker
}

// charge, pack and ship are the activities. Each may run more than once, and does nothing then that is done.
func (h host) charge(ctx context.Context, s state) (state, error) { return h.goOn(ctx, s, charge) }
func (h host) pack(ctx context.Context, s state) (state, error)   { return h.goOn(ctx, s, pack) }
func (h host) ship(ctx context.Context, s state) (state, error)   { return h.end(ctx, s, ship) }

// giveUp is the activity of a workflow that goes no further: nobody comes with its last ticket any more, so the lock of the order is not to wait for that.
func (h host) giveUp(ctx context.Context, s state) (state, error) {
	if s.Ticket == "" {
		return s, nil
	}
	return state{Order: s.Order}, h.locks.Discard(ctx, s.Ticket)
}

// goOn does a part of the work under the lock, and hands the lock on to the next activity.
func (h host) goOn(ctx context.Context, s state, do func(ctx context.Context, order string) error) (next state, err error) {
	ctx, lease, err := h.lock(ctx, s)
	if err != nil {
		return state{}, err
	}
	done := false
	defer func() {
		if !done { // it has failed, or it panics: there is no next activity, and the lock comes free
			lease.MarkFailed()
		}
		err = errors.Join(err, lease.Release(ctx)) // the lock is handed on here; if that fails, the activity is tried again
	}()
	next = state{Order: s.Order, Ticket: lease.Ticket(between)}
	if err := do(ctx, s.Order); err != nil {
		return state{}, err
	}
	done = true
	return next, nil
}

// end does the last part of the work, and gives the lock back.
func (h host) end(ctx context.Context, s state, do func(ctx context.Context, order string) error) (last state, err error) {
	ctx, lease, err := h.lock(ctx, s)
	if err != nil {
		return state{}, err
	}
	defer func() { err = errors.Join(err, lease.Release(ctx)) }()
	return state{Order: s.Order}, do(ctx, s.Order)
}

// lock returns the lock of the order: from the activity before, or if that one's ticket is spent, in its turn.
func (h host) lock(ctx context.Context, s state) (context.Context, *lockmw.Lease, error) {
	if s.Ticket != "" {
		under, lease, err := h.locks.Resume(ctx, s.Ticket, perOrder)
		if !errors.Is(err, lockmw.ErrTicketSpent) {
			return under, lease, err
		}
	}
	return h.locks.Acquire(ctx, s.Order, perOrder)
}

// The work of the activities, which stands for yours. It is under a context that ends if the lock is lost.
func charge(ctx context.Context, order string) error { return done(ctx, "charged", order) }
func pack(ctx context.Context, order string) error   { return done(ctx, "packed", order) }
func ship(ctx context.Context, order string) error   { return done(ctx, "shipped", order) }

func done(ctx context.Context, what, order string) error {
	slog.Info("the order is "+what, "order", order)
	return context.Cause(ctx)
}

// An activity is what the engine calls, wherever there is a host for it.
type activity func(ctx context.Context, s state) (state, error)

// workflow stands for your engine's: it keeps what an activity has returned, tries one again that has failed, and calls giveUp if it goes no further.
func workflow(ctx context.Context, order string, giveUp activity, activities ...activity) error {
	s := state{Order: order}
	for _, do := range activities {
		for tries := 1; ; tries++ {
			next, err := do(ctx, s)
			if err == nil {
				s = next
				break
			}
			if tries == 5 || ctx.Err() != nil {
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
				defer cancel()
				_, gaveUp := giveUp(last, s)
				return fmt.Errorf("order %s: %w", order, errors.Join(err, gaveUp))
			}
			slog.Warn("the activity is tried again", "order", order, "error", err)
		}
	}
	return nil
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
	h := host{locks}
	var all sync.WaitGroup
	for id := range 3 {
		all.Go(func() {
			if err := workflow(ctx, fmt.Sprint(id), h.giveUp, h.charge, h.pack, h.ship); err != nil {
				slog.Error("a workflow has failed", "error", err)
			}
		})
	}
	all.Wait()
	<-ctx.Done()
	last, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(locks.Close(last), client.Close())
}
