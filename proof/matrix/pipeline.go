package matrix

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/worker"
)

// crowd is how many keys a lane with pipelines has.
const crowd = 48

// pipelined gives a lane's workers many keys, each with a goroutine of its own, so that
// many commands share a connection, and a lock that is nearly always held. A Cluster's has half of the keys in one slot.
func (l *Lane) pipelined(tb testing.TB) {
	tb.Helper()
	names := []string{"c0"}
	if l.shards != nil {
		names = oneSlot(tb, l.nodes[0].Client(tb), crowd/2)
	}
	for i := range crowd - len(names) {
		names = append(names, fmt.Sprint("d", i))
	}
	l.turnKeys = []string{names[0], "d0", "d1"}
	l.epoch = 0                              // another name would be another slot
	l.load = []worker.Key{long("l1", l.TTL)} // the others are so short that at times nobody holds one
	for _, name := range names {
		l.load = append(l.load, worker.Key{
			Name: name, Kind: history.Mutex, Goroutines: 1, Least: time.Millisecond, Most: 5 * time.Millisecond, Think: 300 * time.Millisecond,
		})
	}
}

// oneSlot returns n keys of locks that lie in one slot of a Cluster.
func oneSlot(tb testing.TB, node *redis.Client, n int) (names []string) {
	tb.Helper()
	ctx := context.Background()
	slot := int64(-1)
	for i := 0; len(names) < n; i += 1000 {
		cmds, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for j := range 1000 {
				pipe.ClusterKeySlot(ctx, redisKey(fmt.Sprint("c", i+j)))
			}
			return nil
		})
		if err != nil {
			tb.Fatal(err)
		}
		for j, cmd := range cmds {
			at := cmd.(*redis.IntCmd).Val()
			if slot < 0 {
				slot = at
			}
			if at == slot && len(names) < n {
				names = append(names, fmt.Sprint("c", i+j))
			}
		}
	}
	return names
}

// gather has a node put off all writes for a moment, in which every worker's pipeline to it
// fills with commands.
func (l *Lane) gather(node *redistest.Server) {
	c := node.Client(l.tb)
	defer c.Close()
	l.check(c.Do(context.Background(), "CLIENT", "PAUSE", 300, "WRITE").Err())
	l.last(250 * time.Millisecond)
}
