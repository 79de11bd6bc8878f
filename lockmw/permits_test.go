package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

const mostPermits = 1_000_000_000

// The largest number of permits works as a small one does.
func TestTheMostPermitsAreRenewedAndReleased(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		var seen events
		l := testenv.Open(t, c, seen.option())
		p := lockmw.Policy{Permits: mostPermits, TTL: 30 * time.Second}
		var leases []*lockmw.Lease
		for range 3 {
			leases = append(leases, mustAcquire(t, l, key, p))
		}
		if err := c.PExpire(context.Background(), "lock:{"+key+"}", 20*time.Second).Err(); err != nil {
			t.Fatal(err)
		}
		lockmw.RenewAll(l)
		if left := c.PTTL(context.Background(), "lock:{"+key+"}").Val(); left < 25*time.Second {
			t.Errorf("PTTL = %v after the renewal, want nearly %v", left, p.TTL)
		}
		if _, _, err := l.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("a mutex beside permits: %v", err)
		}
		for _, lease := range leases {
			if !lease.Valid() {
				t.Error("a lease is lost")
			}
			mustRelease(t, lease)
		}
		noKeys(t, c, key, time.Second)
	})
}

func TestMorePermitsAreRefused(t *testing.T) {
	for _, n := range []int{mostPermits + 1, math.MaxInt32, math.MaxInt} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			if err := (lockmw.Policy{Permits: n}).Validate(); !errors.Is(err, lockmw.ErrInvalidPolicy) {
				t.Errorf("Validate = %v, want ErrInvalidPolicy", err)
			}
		})
	}
}
