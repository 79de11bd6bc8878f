package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	slots         = 16384
	readyTogether = 30 * time.Second // for several servers to know each other, on a busy machine
)

// Shards are the masters of a Redis Cluster. They have no replicas, unless a test asks for one
// by Replica: what a killed one had is gone, while the others go on serving their slots.
type Shards struct {
	Nodes []*Server

	opts []Option // each node's
	ids  []string // the names that the Nodes have for each other
}

// Cluster starts a Redis Cluster of three masters for this test alone and
// returns once all of them serve and have their links to each other: what is
// published on one node before it has its link to another never gets there.
// It takes two to three seconds, because a new master refuses to serve for
// two. It is closed when the test ends. The options are for each of the
// masters.
func Cluster(tb testing.TB, opts ...Option) *Shards {
	tb.Helper()
	const masters = 3
	c := &Shards{opts: append(slices.Clone(opts), Args("--cluster-enabled", "yes", "--cluster-node-timeout", "15000",
		"--cluster-require-full-coverage", "no", "--repl-diskless-sync", "yes"))}
	for range masters {
		c.Nodes = append(c.Nodes, Real(tb, c.opts...))
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTogether)
	defer cancel()
	for i, node := range c.Nodes {
		c.ids = append(c.ids, fmt.Sprint(command(ctx, tb, node, "CLUSTER", "MYID")))
		first, last := i*slots/masters, (i+1)*slots/masters-1
		command(ctx, tb, node, "CLUSTER", "ADDSLOTSRANGE", first, last)
		// Before they meet, as Redis wants it: with the same epoch they would first have to agree who takes another.
		command(ctx, tb, node, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		host, port, _ := strings.Cut(node.Addr(), ":")
		for _, earlier := range c.Nodes[:i] { // a node that only hears of another may make its link to it seconds later
			command(ctx, tb, earlier, "CLUSTER", "MEET", host, port)
		}
	}
	for _, node := range c.Nodes {
		awaitSaid(ctx, tb, node, "serves in the Cluster", func(client *redis.Client) (string, bool) {
			info := client.ClusterInfo(ctx).Val()
			whole := true
			for _, sign := range []string{"cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d\r", masters), fmt.Sprintf("cluster_slots_ok:%d\r", slots)} {
				whole = whole && strings.Contains(info, sign)
			}
			return info, whole
		})
		c.awaitLinks(ctx, tb, node, masters-1)
	}
	return c
}

// awaitLinks waits until a node has links to n of the Nodes.
func (c *Shards) awaitLinks(ctx context.Context, tb testing.TB, node *Server, n int) {
	tb.Helper()
	awaitSaid(ctx, tb, node, "has its links to the others", func(client *redis.Client) (string, bool) {
		links, err := client.ClusterLinks(ctx).Result()
		to := 0
		for _, link := range links {
			if link.Direction == "to" && slices.Contains(c.ids, link.Node) { // in the handshake a node goes by a random name
				to++
			}
		}
		return fmt.Sprintf("%v %v", links, err), to == n
	})
}

// Replica starts a replica of one of the Nodes, for this test alone, and returns once it can
// take that one's place by CLUSTER FAILOVER: it has what its master has, and all know it, whose
// votes it needs. It is not one of the Nodes afterwards either.
func (c *Shards) Replica(tb testing.TB, of *Server) *Server {
	tb.Helper()
	replica := Real(tb, c.opts...)
	ctx, cancel := context.WithTimeout(context.Background(), readyTogether)
	defer cancel()
	host, port, _ := strings.Cut(replica.Addr(), ":")
	for _, node := range c.Nodes {
		command(ctx, tb, node, "CLUSTER", "MEET", host, port)
	}
	c.awaitLinks(ctx, tb, replica, len(c.Nodes)) // otherwise it would not know whom to follow
	master := c.ids[slices.Index(c.Nodes, of)]
	command(ctx, tb, replica, "CLUSTER", "REPLICATE", master)
	awaitSaid(ctx, tb, replica, "has what its master has", func(client *redis.Client) (string, bool) {
		info := client.Info(ctx, "replication").Val()
		return info, strings.Contains(info, "master_link_status:up")
	})
	for _, node := range c.Nodes {
		awaitSaid(ctx, tb, node, "knows the replica", func(client *redis.Client) (string, bool) {
			nodes := client.ClusterNodes(ctx).Val()
			return nodes, strings.Contains(nodes, "slave "+master)
		})
	}
	return replica
}

// Client opens a client of the Cluster, with Options' settings, and closes it
// when the test ends.
func (c *Shards) Client(tb testing.TB, mutators ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	tb.Helper()
	opts := &redis.ClusterOptions{MaintNotificationsConfig: Options("").MaintNotificationsConfig}
	for _, node := range c.Nodes {
		opts.Addrs = append(opts.Addrs, node.Addr())
	}
	for _, mutate := range mutators {
		mutate(opts)
	}
	client := redis.NewClusterClient(opts)
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Errorf("close the Cluster's client: %v", err)
		}
	})
	return client
}

// Owner returns the node that serves key's slot, by what the first node that
// runs says.
func (c *Shards) Owner(ctx context.Context, key string) (*Server, error) {
	for _, asked := range c.Nodes {
		owner, err := c.ownerBy(ctx, asked, key)
		if err == nil {
			return owner, nil
		}
	}
	return nil, fmt.Errorf("redistest: no node of the Cluster knows who serves %q", key)
}

// Other returns a node that is not this one.
func (c *Shards) Other(node *Server) *Server {
	if c.Nodes[0] == node {
		return c.Nodes[1]
	}
	return c.Nodes[0]
}

func (c *Shards) ownerBy(ctx context.Context, asked *Server, key string) (*Server, error) {
	client := redis.NewClient(Options(asked.Addr()))
	defer client.Close()
	slot, err := client.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return nil, err
	}
	shards, err := client.ClusterShards(ctx).Result()
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		for _, r := range shard.Slots {
			if r.Start > slot || slot > r.End || len(shard.Nodes) == 0 {
				continue
			}
			for _, node := range c.Nodes {
				if int64(node.port) == shard.Nodes[0].Port {
					return node, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("redistest: nobody serves slot %d", slot)
}

// Move moves key's slot to another node, as an operator does while clients go
// on: during opens a window in which the slot is in both places, calls the
// function, if there is one, and closes it. Until then commands on several of
// the slot's keys are refused with TRYAGAIN, if only some of them exist.
func (c *Shards) Move(ctx context.Context, key string, to *Server, during func()) error {
	from, err := c.Owner(ctx, key)
	if err != nil || from == to {
		return err
	}
	m := &move{ctx: ctx, from: redis.NewClient(Options(from.Addr())), to: redis.NewClient(Options(to.Addr()))}
	defer m.from.Close()
	defer m.to.Close()
	slot := m.do(m.from, "CLUSTER", "KEYSLOT", key)
	source, target := m.do(m.from, "CLUSTER", "MYID"), m.do(m.to, "CLUSTER", "MYID")
	m.do(m.to, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	m.do(m.from, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	if during != nil && m.err == nil {
		during()
	}
	host, port, _ := strings.Cut(to.Addr(), ":")
	for m.err == nil {
		keys, _ := m.do(m.from, "CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		m.do(m.from, append([]any{"MIGRATE", host, port, "", 0, 5000, "KEYS"}, keys...)...)
	}
	m.do(m.to, "CLUSTER", "SETSLOT", slot, "NODE", target) // first, or both might refuse the slot
	m.do(m.from, "CLUSTER", "SETSLOT", slot, "NODE", target)
	return m.err
}

// A move remembers its first error, after which it does nothing.
type move struct {
	ctx      context.Context
	from, to *redis.Client
	err      error
}

func (m *move) do(at *redis.Client, args ...any) any {
	if m.err != nil {
		return nil
	}
	reply, err := at.Do(m.ctx, args...).Result()
	if err != nil {
		m.err = fmt.Errorf("redistest: %v at %s: %w", args, at.Options().Addr, err)
	}
	return reply
}

// command has a server carry out a command and returns its reply, or fails the test.
func command(ctx context.Context, tb testing.TB, s *Server, args ...any) any {
	tb.Helper()
	client := redis.NewClient(Options(s.Addr()))
	defer client.Close()
	reply, err := client.Do(ctx, args...).Result()
	if err != nil {
		tb.Fatalf("redistest: %v at %s: %v", args, s.Addr(), err)
	}
	return reply
}

// awaitSaid asks a server until it says what it should.
func awaitSaid(ctx context.Context, tb testing.TB, s *Server, what string, ask func(client *redis.Client) (said string, ok bool)) {
	tb.Helper()
	client := redis.NewClient(Options(s.Addr()))
	defer client.Close()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		said, ok := ask(client)
		if ok {
			return
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			tb.Fatalf("redistest: the server at %s is not ready %v after the first began: wanted was that it %s; it said last:\n%s", s.Addr(), readyTogether, what, said)
		}
	}
}
