package matrix

import (
	"context"
	"fmt"
	"time"

	"github.com/lockmw/kit/proof/admin"
	"github.com/lockmw/kit/proof/clock"
)

// forgets lists how a Redis forgets or rewrites a lock that is held. Two may hold
// it then, until the first one's next renewal; the fence is what helps.
func forgets() []Kind {
	everything := []string{"*"}
	return []Kind{
		{Name: "FLUSHALL", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			l.do("FLUSHALL")
			l.settle()
			return everything
		}},
		{Name: "an operator deletes the key", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			for _, name := range l.held() {
				l.do("DEL", name)
			}
			l.settle()
			return []string{"l1", "l2"}
		}},
		{Name: "an operator overwrites the key", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			for _, name := range l.held() {
				l.do("SET", name, "mine", "PX", 50)
			}
			l.settle()
			return []string{"l1", "l2"}
		}},
		{Name: "restart without persistence", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			l.redis.Kill()
			l.check(l.redis.Restart())
			l.settle()
			return everything
		}},
		{Name: "restart with an older state, as after a fail-over to a replica that is behind", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			l.do("SAVE")
			l.last(l.TTL) // what is granted now is lost
			l.redis.Kill()
			l.check(l.redis.Restart())
			l.settle()
			return nil // what was held at the save is remembered
		}},
		{Name: "eviction", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			l.do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
			l.do("CONFIG", "SET", "maxmemory", 1)
			for range 5 {
				_ = l.admin.Set(context.Background(), "filler", "x", time.Second).Err() // whatever it says: it has Redis evict
			}
			l.do("CONFIG", "SET", "maxmemory", 0)
			l.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			l.settle()
			return everything
		}},
		{Name: "the clock jumps forward by two TTLs", Forgets: true, Needs: movedClock, Do: func(l *Lane) []string {
			l.skew += 2 * l.TTL
			l.check(l.clock.Set(l.skew))
			l.settle()
			return everything
		}},
	}
}

// held returns the long locks that are held.
func (l *Lane) held() []string {
	var held []string
	for _, key := range []string{"l1", "l2"} {
		locks, err := admin.Locks(l.admin, fmt.Sprintf("lock:{%s@*}", key))
		l.check(err)
		held = append(held, locks...)
	}
	return held
}

// settle notes the moment at which Redis had forgotten, and leaves the holders
// the time to notice.
func (l *Lane) settle() {
	l.moment = clock.Now()
	l.last(l.TTL/3 + 600*time.Millisecond)
}
