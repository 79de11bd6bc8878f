package faultproxy

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
)

// What the proxy does to a server without a socket takes a bubble's time, to the
// nanosecond.
func TestFaultsInMemoryFollowTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		p := InMemory(redistest.InMemory(t).DialInMemory)
		defer func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}()
		c := redistest.NewClient(t, p.Addr(), func(o *redis.Options) {
			o.Dialer, o.MaxRetries, o.ReadTimeout = p.Dial, -1, time.Minute
		})
		defer c.Close()
		takes := func(want time.Duration, wantErr bool) {
			t.Helper()
			began := time.Now()
			err := c.Incr(ctx, "n").Err()
			if took := time.Since(began); took != want || (err != nil) != wantErr {
				t.Errorf("INCR: %v after %v, want it after %v, fails = %t", err, took, want, wantErr)
			}
		}
		takes(0, false)
		p.Delay(ToServer, time.Second)
		p.Delay(ToClient, 2*time.Second)
		takes(3*time.Second, false)
		p.Delay(Both, 0)
		p.BlackHole(ToClient)
		takes(time.Minute, true)
		p.Heal()
		takes(0, false)
		p.DropReplies(1, Match("INCR"))
		takes(0, true)
		p.DropReplies(0, nil)
		if n, err := c.Get(ctx, "n").Int(); n != 5 || err != nil {
			t.Errorf("n = %d, %v, want 5", n, err)
		}
		synctest.Wait() // the ends of those that are over have been passed on
		if got := p.Connections(); got != 1 {
			t.Errorf("%d connections, want 1", got)
		}
		p.Cut()
		if got := p.Connections(); got != 0 {
			t.Errorf("%d connections after a cut, want none", got)
		}
	})
}
