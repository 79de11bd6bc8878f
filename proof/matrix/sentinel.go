package matrix

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/engines"
)

// NewSentinelPipelineLane is NewSentinelLane with many commands in flight at a time.
func NewSentinelPipelineLane(tb testing.TB, name string, seed uint64, ttl time.Duration) *Lane {
	tb.Helper()
	return newSentinelLane(tb, name, seed, ttl, func(l *Lane) { l.pipelined(tb) })
}

// NewSentinelLane starts a lane over a master and a replica that Sentinels watch.
func NewSentinelLane(tb testing.TB, name string, seed uint64, ttl time.Duration) *Lane {
	tb.Helper()
	return newSentinelLane(tb, name, seed, ttl, func(*Lane) {})
}

func newSentinelLane(tb testing.TB, name string, seed uint64, ttl time.Duration, prepare func(l *Lane)) *Lane {
	tb.Helper()
	l := newLane(tb, name, seed, ttl)
	l.watched = redistest.Sentinel(tb, redistest.DownSoon())
	l.nodes = l.watched.Servers()
	at := engines.Redis{Kind: engines.Sentinel}
	at.Master, at.Addrs = l.watched.Sentinels()
	l.where = func(int) engines.Redis { return at }
	prepare(l)
	l.open()
	return l
}

// failover kills the master.
var failover = Kind{Name: "Sentinel: fail-over", Forgets: true, Do: func(l *Lane) []string {
	l.check(l.watched.KillMaster(context.Background()))
	return nil
}}

// masterOfPipeline has the Sentinels replace a master that is well, while many commands
// are in flight to it. What had not reached the replica is forgotten.
var masterOfPipeline = Kind{Name: "Sentinel: fail-over in the middle of a pipeline", Forgets: true, Do: func(l *Lane) []string {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	old, err := l.watched.Master(ctx)
	l.check(err)
	if err != nil {
		return nil
	}
	l.gather(old)
	l.check(l.watched.Replace(ctx))
	l.moment = clock.Now()
	return nil
}}
