package matrix

import (
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/worker"
)

// NewQuorumLane starts a lane over five independent nodes, each behind a proxy
// that all workers share. A quorum has no permits, and hands no lock on.
func NewQuorumLane(tb testing.TB, name string, seed uint64, ttl time.Duration) *Lane {
	tb.Helper()
	l := newLane(tb, name, seed, ttl)
	at := engines.Redis{Kind: engines.Quorum}
	for range 5 {
		node := redistest.Real(tb)
		proxy := faultproxy.Start(tb, node.Addr())
		l.nodes, l.nodeProxies = append(l.nodes, node), append(l.nodeProxies, proxy)
		at.Addrs = append(at.Addrs, proxy.Addr())
	}
	l.where = func(int) engines.Redis { return at }
	l.load = slices.DeleteFunc(l.load, func(k worker.Key) bool { return k.Kind == history.Permits || k.Hands > 0 })
	l.turnKeys = []string{"m", "r"}
	l.open()
	return l
}

// quorum lists what can happen to two or three nodes of five.
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
			func(l *Lane, i int) { l.nodeProxies[i].BlackHole(faultproxy.Both) },
			func(l *Lane, i int) { l.nodeProxies[i].Heal() })},
		{Name: "quorum: two nodes of five stopped", Do: two(1.5,
			func(l *Lane, i int) { l.check(l.nodes[i].Stop()) },
			func(l *Lane, i int) { l.check(l.nodes[i].Cont()) })},
		{Name: "quorum: two nodes of five killed, and empty after the longest TTL", Do: two(1.6, // 1.28 at least
			func(l *Lane, i int) { l.nodes[i].Kill() },
			func(l *Lane, i int) { l.check(l.nodes[i].Restart()) })},
		{Name: "quorum: two nodes of five slow", Do: two(1,
			func(l *Lane, i int) { l.nodeProxies[i].Delay(faultproxy.Both, l.TTL/20) },
			func(l *Lane, i int) { l.nodeProxies[i].Delay(faultproxy.Both, 0) })},
		{Name: "quorum: no majority", Do: func(l *Lane) []string {
			some := l.rnd.Perm(len(l.nodes))[:3]
			for _, i := range some {
				l.nodeProxies[i].BlackHole(faultproxy.Both)
			}
			l.last(l.part(1.5))
			for _, i := range some {
				l.nodeProxies[i].Heal()
				l.nodeProxies[i].Cut()
			}
			return nil
		}},
	}
}
