package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// told is a queue that says what becomes of its messages.
type told struct {
	messages chan message
	acked    chan message
	nacked   chan time.Duration
	buried   chan message
}

func (q told) receive(ctx context.Context) (message, error) { return inMemory(q.messages).receive(ctx) }
func (q told) ack(m message)                                { q.acked <- m }
func (q told) nack(_ message, after time.Duration)          { q.nacked <- after }
func (q told) bury(m message)                               { q.buried <- m }

func start(t *testing.T, locks *lockmw.Locker, s *store) told {
	t.Helper()
	q := told{make(chan message, 10), make(chan message, 10), make(chan time.Duration, 10), make(chan message, 10)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- work(ctx, locks, q, s) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("work: %v", err)
		}
	})
	return q
}

func TestAMessageIsHandledUnderItsOrdersLock(t *testing.T) {
	locks, s := locktest.New(t), newStore()
	q := start(t, locks, s)
	release := locktest.Hold(t, locks, "order:42")
	q.messages <- message{id: 1, order: "42"}
	locktest.AwaitWaiters(t, locks, "order:42", 1)
	release()
	if m := <-q.acked; m.id != 1 || s.orders["42"] == "" {
		t.Errorf("message %d was handled, and the orders are %v", m.id, s.orders)
	}
}

func TestAMessageComesAgain(t *testing.T) {
	locks, s := locktest.New(t), newStore()
	q := start(t, locks, s)
	locktest.Hold(t, locks, "order:42")
	q.messages <- message{id: 1, order: "42"}
	if after := <-q.nacked; after < time.Second {
		t.Errorf("after %v, want a second at least", after)
	}
	locktest.Down(t, locks)
	q.messages <- message{id: 2, order: "43"}
	if after := <-q.nacked; after != time.Second {
		t.Errorf("while Redis is down: after %v, want 1s", after)
	}
	if len(q.acked) != 0 || len(s.orders) != 0 {
		t.Errorf("a message was handled without its lock: %v", s.orders)
	}
}

func TestAMessageThatNoLockCanHaveDoesNotComeAgain(t *testing.T) {
	s := newStore()
	q := start(t, locktest.New(t), s)
	q.messages <- message{id: 1, order: "{42}"}
	select {
	case m := <-q.buried:
		if m.id != 1 || len(s.orders) != 0 {
			t.Errorf("message %d was buried, and the orders are %v", m.id, s.orders)
		}
	case after := <-q.nacked:
		t.Errorf("it comes again after %v", after)
	}
}

func TestNothingIsWrittenWithoutTheLock(t *testing.T) {
	locks, s := locktest.New(t), newStore()
	err := locks.WithLock(t.Context(), "42", perOrder, func(ctx context.Context) error {
		locktest.Lose(t, locks, "order:42")
		return handle(context.WithoutCancel(ctx), s, message{id: 1, order: "42"})
	})
	if !errors.Is(err, lockmw.ErrLost) || len(s.orders) != 0 {
		t.Errorf("err = %v, and the orders are %v", err, s.orders)
	}
}

func TestTheStoreRefusesALateWriter(t *testing.T) {
	s := newStore()
	if err := s.write(message{id: 2, order: "42"}, 8, "later"); err != nil {
		t.Fatal(err)
	}
	if err := s.write(message{id: 1, order: "42"}, 7, "earlier"); !errors.Is(err, errStale) {
		t.Errorf("err = %v", err)
	}
	if err := s.write(message{id: 2, order: "42"}, 9, "again"); err != nil || s.orders["42"] != "later" {
		t.Errorf("a message that comes twice: %v, %v", err, s.orders)
	}
}
