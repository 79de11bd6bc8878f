package testenv

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// Open opens a Locker on a Redis, for a test that needs no more of a [Env]. It is closed
// when the test ends, with what is still held. What it could not give back then is only
// logged: many tests break the Redis.
func Open(tb testing.TB, client redis.UniversalClient, opts ...lockmw.Option) *lockmw.Locker {
	tb.Helper()
	l, err := lockmw.New(client, append([]lockmw.Option{quiet}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := l.Close(ctx); err != nil && !tb.Failed() {
			tb.Logf("close: %v", err)
		}
	})
	return l
}

// AskedAgain takes the lock, and asks again, for 20 s, where silent says that Redis did not answer a question that was
// asked then, as happens on a busy machine: a policy's Wait does not outlast a silence of more than a second. What such a
// question has left may be in the way of the next one for a moment.
func AskedAgain(ctx context.Context, l *lockmw.Locker, key string, p lockmw.Policy, silent func(err error, asked time.Time) bool) (*lockmw.Lease, error) {
	unheard := false
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		asked := time.Now()
		_, lease, err := l.Acquire(ctx, key, p)
		again := silent(err, asked)
		unheard = unheard || again
		if again = again || unheard && errors.Is(err, lockmw.ErrNotAcquired); !again || time.Now().After(end) {
			return lease, err
		}
	}
}

// Answered asks until Redis answers in time, five times at most: to a short wait it may seem to be away on a busy machine.
func Answered[A any](ask func() A, late func(A) bool) (a A) {
	for range 5 {
		if a = ask(); !late(a) {
			break
		}
	}
	return a
}

// quiet keeps the Lockers of tests from logging, unless a test has a log of its own: many make mistakes.
var quiet = lockmw.WithLogger(slog.New(slog.DiscardHandler))

// Locker is Open without options on an embedded Redis of its own, where the lock k is
// "lock:{k}". To close it waits for what is still held, and fails the test if that does
// not work.
func Locker(tb testing.TB) (*lockmw.Locker, *redis.Client) {
	tb.Helper()
	client := redistest.Embedded(tb).Client(tb)
	l, err := lockmw.New(client)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return l, client
}
