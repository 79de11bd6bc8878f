package testenv

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// Locker opens a Locker with default options on an embedded Redis of its own,
// where the lock k is "lock:{k}", for a test that needs no more of a [Env]. It
// is closed when the test ends; that waits for what is still held.
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
