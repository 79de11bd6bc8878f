package matrix

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/engines"
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
	l.shards = redistest.Cluster(tb, redistest.DownSoon())
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

func addrs(nodes []*redistest.Server) (all []string) {
	for _, node := range nodes {
		all = append(all, node.Addr())
	}
	return all
}

// cluster lists what can happen to a Cluster that keeps its word.
func cluster() []Kind {
	return []Kind{
		{Name: "Cluster: a slot is moved", Do: func(l *Lane) []string {
			movable := slices.Clip(l.turnKeys)
			if slices.ContainsFunc(l.load, func(k worker.Key) bool { return k.Name == handedOn }) {
				movable = append(movable, handedOn)
			}
			l.moveSlot(l.nameNow(movable[l.rnd.IntN(len(movable))]), nil, func() { l.last(l.part(0.1)) })
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

// slotOfPipeline moves a slot while many commands on its keys are in flight.
var slotOfPipeline = Kind{Name: "Cluster: a slot is moved in the middle of a pipeline", Do: func(l *Lane) []string {
	l.moveSlot(l.turnKeys[0], l.gather, nil)
	return nil
}}

// moveSlot moves the slot of a key to another node: before is called first, with the node that has it, and during while
// the slot is in both places, each unless it is nil.
func (l *Lane) moveSlot(key string, before func(from *redistest.Server), during func()) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	from, err := l.shards.Owner(ctx, redisKey(key))
	if err != nil {
		l.check(err)
		return
	}
	if before != nil {
		before(from)
	}
	l.check(l.shards.Move(ctx, redisKey(key), l.shards.Other(from), during))
}
