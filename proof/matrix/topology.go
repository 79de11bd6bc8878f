package matrix

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/worker"
)

// NewClusterLane starts a lane over a Cluster of three masters.
func NewClusterLane(tb testing.TB, name string, seed uint64, ttl time.Duration) *Lane {
	tb.Helper()
	return newClusterLane(tb, name, seed, ttl, func(*Lane) {})
}

func newClusterLane(tb testing.TB, name string, seed uint64, ttl time.Duration, prepare func(l *Lane)) *Lane {
	tb.Helper()
	l := newLane(tb, name, seed, ttl)
	l.shards = redistest.Cluster(tb)
	l.nodes = l.shards.Nodes
	at := engines.Redis{Kind: engines.Cluster, Addrs: addrs(l.nodes)}
	l.where = func(int) engines.Redis { return at }
	prepare(l)
	l.open()
	return l
}

// NewPipelineLane is NewClusterLane with many commands in flight at a time.
func NewPipelineLane(tb testing.TB, name string, seed uint64, ttl time.Duration) *Lane {
	tb.Helper()
	return newClusterLane(tb, name, seed, ttl, func(l *Lane) { l.pipelined(tb) })
}

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
	l.watched = redistest.Sentinel(tb)
	l.nodes = l.watched.Servers()
	at := engines.Redis{Kind: engines.Sentinel}
	at.Master, at.Addrs = l.watched.Sentinels()
	l.where = func(int) engines.Redis { return at }
	prepare(l)
	l.open()
	return l
}

// NewQuorumLane starts a lane over five independent nodes, each behind a proxy
// that all workers share. A quorum has no permits.
func NewQuorumLane(tb testing.TB, name string, seed uint64, ttl time.Duration) *Lane {
	tb.Helper()
	l := newLane(tb, name, seed, ttl)
	at := engines.Redis{Kind: engines.Quorum}
	for range 5 {
		node := redistest.Real(tb)
		door := faultproxy.Start(tb, node.Addr())
		l.nodes, l.nodeDoors = append(l.nodes, node), append(l.nodeDoors, door)
		at.Addrs = append(at.Addrs, door.Addr())
	}
	l.where = func(int) engines.Redis { return at }
	l.load = slices.DeleteFunc(l.load, func(k worker.Key) bool { return k.Kind == history.Permits })
	l.turnKeys = []string{"m", "r"}
	l.open()
	return l
}

func addrs(nodes []*redistest.Server) (all []string) {
	for _, node := range nodes {
		all = append(all, node.Addr())
	}
	return all
}

// workers lists the faults of processes that need no proxy before them.
func workers() []Kind {
	return slices.DeleteFunc(process(), func(k Kind) bool { return k.Name == "worker stopped in a partition" })
}

// cluster lists what can happen to a Cluster that keeps its word.
func cluster() []Kind {
	return []Kind{
		{Name: "Cluster: a slot is moved", Do: func(l *Lane) []string {
			name := fmt.Sprintf("lock:{%s@%d}", l.turnKeys[l.rnd.IntN(len(l.turnKeys))], clock.Now()/epoch)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			l.check(l.shards.Move(ctx, name, l.nodes[l.rnd.IntN(len(l.nodes))], func() { l.last(l.part(0.1)) }))
			return nil
		}},
		{Name: "Cluster: a node stopped, shorter than the TTL", Do: func(l *Lane) []string {
			node := l.nodes[l.rnd.IntN(len(l.nodes))]
			l.check(node.Stop())
			l.last(l.part(0.3))
			l.check(node.Cont())
			return nil
		}},
	}
}

// quorum lists what can happen to two nodes of five.
func quorum() []Kind {
	two := func(share float64, begin, end func(l *Lane, i int)) func(*Lane) []string {
		return func(l *Lane) []string {
			some := l.rnd.Perm(len(l.nodes))[:2]
			for _, i := range some {
				begin(l, i)
			}
			l.last(l.part(share))
			for _, i := range some {
				end(l, i)
			}
			return nil
		}
	}
	return []Kind{
		{Name: "quorum: two nodes of five partitioned", Do: two(1.5,
			func(l *Lane, i int) { l.nodeDoors[i].BlackHole(faultproxy.Both) },
			func(l *Lane, i int) { l.nodeDoors[i].Heal() })},
		{Name: "quorum: two nodes of five stopped", Do: two(1.5,
			func(l *Lane, i int) { l.check(l.nodes[i].Stop()) },
			func(l *Lane, i int) { l.check(l.nodes[i].Cont()) })},
		{Name: "quorum: two nodes of five killed, and empty after the longest TTL", Do: two(1.6, // 1.28 at least
			func(l *Lane, i int) { l.nodes[i].Kill() },
			func(l *Lane, i int) { l.check(l.nodes[i].Restart()) })},
		{Name: "quorum: two nodes of five slow", Do: two(1,
			func(l *Lane, i int) { l.nodeDoors[i].Delay(faultproxy.Both, l.TTL/20) },
			func(l *Lane, i int) { l.nodeDoors[i].Delay(faultproxy.Both, 0) })},
		{Name: "quorum: no majority", Do: func(l *Lane) []string {
			some := l.rnd.Perm(len(l.nodes))[:3]
			for _, i := range some {
				l.nodeDoors[i].BlackHole(faultproxy.Both)
			}
			l.last(l.part(1.5))
			for _, i := range some {
				l.nodeDoors[i].Heal()
				l.nodeDoors[i].Cut()
			}
			return nil
		}},
	}
}

// failover is the one fault of a lane with Sentinels.
var failover = Kind{Name: "Sentinel: fail-over", Forgets: true, Do: func(l *Lane) []string {
	l.check(l.watched.KillMaster(context.Background()))
	return nil
}}
