package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Clocks, for operators: Redis's clock ends the locks and dates their fences, and nothing else says so where it is wrong.

const (
	// serversApart is how far the clocks of a Cluster's masters may be apart, as docs/redis.md has it.
	serversApart = 100 * time.Millisecond

	// machinesApart is how far a server's clock may be from this machine's. Machines that keep time by NTP are much closer.
	machinesApart = time.Second
)

// A clock is how far a server's clock is ahead of this machine's, which may itself be wrong.
type clock struct {
	server string
	ahead  time.Duration
	within time.Duration // by which ahead may be wrong, since question and answer were on their way
}

// greet asks a master whether it is there, and then for its time over the connection that PING has used, which bounds what is wrong about it by half a
// round trip. A server that does not tell its time is there all the same, and told is false.
func (s *Store) greet(ctx context.Context, master *redis.Client) (_ clock, told bool, _ error) {
	of := "the server"
	if s.cluster {
		of = master.Options().Addr
	}
	if err := master.Ping(ctx).Err(); err != nil {
		return clock{}, false, err
	}
	asked := time.Now()
	now, err := master.Time(ctx).Result()
	within := time.Since(asked) / 2
	return clock{of, now.Sub(asked.Add(within)), within}, err == nil, nil
}

// clocksAdvice tells of clocks that disagree with each other, or with this machine's.
func clocksAdvice(all []clock) (advice []error) {
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b clock) int { return cmp.Compare(a.ahead, b.ahead) })
	first, last := all[0], all[len(all)-1]
	if apart := last.ahead - first.ahead; apart-first.within-last.within > serversApart {
		advice = append(advice, fmt.Errorf("the clock of %s is %v behind that of %s: while a slot moves between them, fences may fall, and locks end sooner or later by as much; "+
			"have the machines keep time (NTP)", first.server, apart.Round(time.Millisecond), last.server))
	}
	worst := slices.MaxFunc(all, func(a, b clock) int { return cmp.Compare(a.ahead.Abs(), b.ahead.Abs()) })
	if off := worst.ahead.Abs(); off-worst.within > machinesApart {
		side := "ahead of"
		if worst.ahead < 0 {
			side = "behind"
		}
		advice = append(advice, fmt.Errorf("the clock of %s is %v %s this machine's, so one of the two is wrong: if it is the server's, locks and fences jump by as much "+
			"when it is set right, or when another server takes its place; have the machines keep time (NTP)", worst.server, off.Round(time.Millisecond), side))
	}
	return advice
}
