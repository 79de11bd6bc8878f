package matrix

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockmw/kit/proof/admin"
	"github.com/lockmw/kit/proof/clock"
)

// forget lists how a Redis forgets or rewrites a lock that is held. Two may hold
// it then, until the first one's next renewal; the fence is what helps.
func forget() []Kind {
	return slices.Concat(forgetHeld(), forgetBetween(), forgetInTenure())
}

// forgetHeld lists what befalls locks that are held, at any moment.
func forgetHeld() []Kind {
	everything := []string{"*"}
	return []Kind{
		{Name: "FLUSHALL", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			l.forget(func() { l.do("FLUSHALL") })
			return everything
		}},
		{Name: "an operator deletes the key", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			l.forget(func() {
				for _, name := range l.held() {
					l.do("DEL", name)
				}
			})
			return []string{"l1", "l2"}
		}},
		{Name: "an operator overwrites the key", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			l.forget(func() {
				for _, name := range l.held() {
					l.do("SET", name, "mine", "PX", 50)
				}
			})
			return []string{"l1", "l2"}
		}},
		{Name: "restart without persistence", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			l.forget(func() {
				l.redis.Kill()
				l.check(l.redis.Restart())
			})
			return everything
		}},
		{Name: "restart with an older state, as after a fail-over to a replica that is behind", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			l.do("SAVE")
			l.last(l.TTL) // what is granted now is lost
			l.forget(func() {
				l.redis.Kill()
				l.check(l.redis.Restart())
			})
			return nil // what was held at the save is remembered
		}},
		{Name: "eviction", Forgets: true, Needs: forgetful, Do: func(l *Lane) []string {
			l.forget(l.evict)
			return everything
		}},
		{Name: "the clock jumps forward by two TTLs", Forgets: true, Needs: movedClock, Do: func(l *Lane) []string {
			l.forget(func() {
				l.skew += 2 * l.TTL
				l.check(l.clock.Set(l.skew))
			})
			return everything
		}},
	}
}

// aheadByForce is how far a release by force may put fences ahead of the clock (force.lua),
// and a little more.
const aheadByForce = 2500 * time.Millisecond

// forgetBetween lists what another client can do to a lock between the commands that
// take it, after which Redis has forgotten it.
func forgetBetween() []Kind {
	between := func(do func(l *Lane, key string)) func(*Lane) []string {
		return func(l *Lane) []string {
			l.forget(func() {
				l.between(l.proxies[l.place()], 0.3, func(key string) { do(l, key) })
			})
			return nil
		}
	}
	return []Kind{
		{Name: "the key is deleted between SET, EXISTS and TIME", Forgets: true, Needs: forgetful, Do: between(func(l *Lane, key string) {
			l.do("DEL", redisKey(key))
		})},
		{Name: "the key is overwritten between SET, EXISTS and TIME", Forgets: true, Needs: forgetful, Do: between(func(l *Lane, key string) {
			l.do("SET", redisKey(key), "foreign", "PX", 20)
		})},
		{Name: "an operator forces the release between SET, EXISTS and TIME", Ahead: aheadByForce, Forgets: true, Needs: forgetful, Do: between((*Lane).force)},
	}
}

func (l *Lane) force(key string) { l.check(admin.Force(l.rival.locks, key)) }

// forgetInTenure lists what takes a lock from its holder in the middle of a tenure.
func forgetInTenure() []Kind {
	in := func(name string, do func(l *Lane, key string)) Kind {
		return Kind{Name: "tenure: " + name, Forgets: true, Needs: tenuredForgetful, Do: func(l *Lane) []string {
			place, key := l.tenure()
			l.forget(func() { do(l, key) })
			return []string{tenureKey(place)}
		}}
	}
	forced := in("an operator forces the release", (*Lane).force)
	forced.Ahead = aheadByForce
	return []Kind{
		forced,
		in("the key is deleted", func(l *Lane, key string) { l.do("DEL", redisKey(key)) }),
		in("the key is overwritten", func(l *Lane, key string) { l.do("SET", redisKey(key), "foreign", "PX", 50) }),
	}
}

// held returns the long locks that are held.
func (l *Lane) held() []string {
	var held []string
	for _, key := range []string{"l1", "l2"} {
		l.check(admin.Retry(func() error {
			locks, err := admin.Locks(l.admin, fmt.Sprintf("lock:{%s@*}", key))
			if err == nil {
				held = append(held, locks...)
			}
			return err
		}))
	}
	return held
}

// evict has Redis evict all its keys, for which it may take several turns. It writes none
// meanwhile, because nothing fits.
func (l *Lane) evict() {
	l.do("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	l.do("CONFIG", "SET", "maxmemory", 1)
	for until := time.Now().Add(5 * time.Second); ; {
		_ = l.admin.Set(context.Background(), "filler", "x", time.Second).Err() // it is refused, after an eviction
		left, err := l.admin.DBSize(context.Background()).Result()
		if err == nil && left == 0 {
			break
		}
		if time.Now().After(until) {
			l.tb.Errorf("%s: Redis has %d keys left, and evicts them no more: %v", l.Name, left, err)
			break
		}
	}
	l.do("CONFIG", "SET", "maxmemory", 0)
	l.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
}

// forget does what has Redis forget, notes when, and leaves the holders the time to notice.
func (l *Lane) forget(do func()) {
	l.before = clock.Now()
	do()
	l.moment = clock.Now()
	l.last(l.TTL/3 + 600*time.Millisecond)
}
