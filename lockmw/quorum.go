package lockmw

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/quorum"
	"github.com/lockmw/kit/internal/redisstore"
)

const leastNodes = 3

// NewQuorum returns a Locker that takes each lock at a majority of independent Redis
// nodes, as Redlock describes it. Locks are held and given while fewer than half of the
// nodes are away. There must be an odd number of nodes, at least three, and none of them
// twice. That is checked, and the error says what is wrong, as New's does. No node may be
// a replica of another: that cannot be checked here.
//
// It differs from New's Locker in these points:
//
//   - Waiters do not stand in a queue. They ask again after each retry interval. Only
//     those of one process are served in the order in which they came. So a stream of
//     Shared holders can keep a writer out.
//   - Fences are 0.
//   - Permits are refused, because a majority does not bound them. So are Shadow, Do,
//     tickets and SettingsInRedis.
//   - A refusal tells each node's vote, see AcquireError.
//
// A node that restarts without its data may give its vote a second time. Keep such a node
// away for the longest TTL in use, or have it write each command to disk. The clocks of
// all nodes must run at about the same rate.
func NewQuorum(clients []redis.UniversalClient, opts ...Option) (*Locker, error) {
	o, err := gather(opts)
	if err != nil {
		return nil, err
	}
	for _, source := range o.settings {
		if source.kind == fromRedis {
			return nil, errors.New("lockmw: NewQuorum: SettingsInRedis: no node of a quorum can speak for the others; use SettingsFile")
		}
	}
	switch n := len(clients); {
	case n < leastNodes:
		return nil, fmt.Errorf("lockmw: NewQuorum: %d nodes; there must be at least %d: with fewer, no node may fail", n, leastNodes)
	case n%2 == 0:
		return nil, fmt.Errorf("lockmw: NewQuorum: %d nodes; the number must be odd: one more node than %d lets no more of them fail", n, n-1)
	}
	nodes := make([]quorum.Node, len(clients))
	for i, client := range clients {
		s, err := redisstore.New(client, o.namespace, o.instance)
		if err != nil {
			return nil, fmt.Errorf("lockmw: NewQuorum: node %d: %w", i+1, err)
		}
		if err := confirm(s, o); err != nil {
			return nil, err
		}
		nodes[i] = quorum.Node{Name: s.Addr(), Store: s}
		if nodes[i].Name == "" {
			nodes[i].Name = fmt.Sprintf("node %d", i+1)
		}
		for j := range i {
			if clients[j] == client || nodes[j].Name == nodes[i].Name {
				return nil, fmt.Errorf("lockmw: NewQuorum: nodes %d and %d are both %s: it would have two votes", j+1, i+1, nodes[i].Name)
			}
		}
	}
	l := newLocker(quorum.New(nodes, o.logger), o)
	l.quorum = true
	return l, nil
}
