package library

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestRequestsAreCountedWhereverAWriteEnds(t *testing.T) {
	const text = "*1\r\n$4\r\nPING\r\n" +
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$15\r\n*9\r\n$1\r\nx\r\n*2\r\n\r\n" + // an argument that looks like requests
		"*2\r\n$3\r\nGET\r\n$0\r\n\r\n"
	for size := 1; size <= len(text); size++ {
		var r requests
		var got int64
		for rest := []byte(text); len(rest) > 0; {
			n := min(size, len(rest))
			got += r.feed(rest[:n])
			rest = rest[n:]
		}
		if got != 3 {
			t.Errorf("written in pieces of %d: %d requests, want 3", size, got)
		}
	}
}

func TestEachLibraryLocks(t *testing.T) {
	server := redistest.Shared(t)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			var wire Wire
			locks, err := Open(name, server.Addr(), &wire)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := locks.Close(); err != nil {
					t.Error(err)
				}
			}()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			key := redistest.Prefix(t)
			unlock, err := locks.Lock(ctx, key)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(Rivals(), name) { // whether a rival wakes its waiters is no test of ours
				waitsForItsTurn(ctx, t, locks, key, unlock)
				return
			}
			for range 2 {
				if err := unlock(); err != nil {
					t.Error(err)
				}
				if unlock, err = locks.Lock(ctx, key); err != nil {
					t.Fatal(err)
				}
			}
			if err := unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

// waitsForItsTurn sees that a second one has the lock of key only after unlock.
func waitsForItsTurn(ctx context.Context, t *testing.T, locks Locker, key string, unlock func() error) {
	second := make(chan error)
	released := make(chan struct{})
	go func() {
		unlock, err := locks.Lock(ctx, key)
		select {
		case <-released:
		default:
			t.Error("two have the lock")
		}
		if err == nil {
			err = unlock()
		}
		second <- err
	}()
	time.Sleep(20 * time.Millisecond) // the second one waits by now, or the test is easier
	close(released)
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}
