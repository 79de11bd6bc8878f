package quorum_test

import (
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/quorum"
	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/storetest"
)

// servers are what a quorum's clients talk to, the nodes that are up first.
type servers struct {
	up   []redistest.Backend
	down []string // addresses where nobody listens
}

func (s servers) clients(tb testing.TB) (up, all []redis.UniversalClient) {
	tb.Helper()
	for _, node := range s.up {
		up = append(up, node.Client(tb))
	}
	all = append(all, up...)
	for _, addr := range s.down {
		all = append(all, redistest.NewClient(tb, addr))
	}
	return up, all
}

// keyspace returns one whose locks begin with prefix.
func (s servers) keyspace(tb testing.TB, prefix string) storetest.Keyspace {
	tb.Helper()
	up, all := s.clients(tb)
	key := func(lock string) string { return prefix + ":{" + lock + "}" }
	return storetest.Keyspace{
		Open:  func(tb testing.TB) store.Store { return open(tb, all, len(up), prefix) },
		Nodes: up, Prefix: prefix, Key: key,
	}
}

// open opens a quorum of which so many nodes, the first ones, are up. A node has a
// quarter of a second for its answer, and a busy machine may need longer for the first
// connection, so that is there before a test asks.
func open(tb testing.TB, clients []redis.UniversalClient, up int, ns string) *quorum.Store {
	tb.Helper()
	nodes := make([]quorum.Node, len(clients))
	for i, c := range clients {
		s, err := redisstore.New(c, ns, "node")
		if err != nil {
			tb.Fatal(err)
		}
		for attempts := 1; i < up; attempts++ {
			if _, err = s.Inspect(tb.Context(), "k"); err == nil {
				break
			}
			if attempts == 10 {
				tb.Fatal(err)
			}
		}
		nodes[i] = quorum.Node{Name: s.Addr(), Store: s}
	}
	return quorum.New(nodes, slog.New(slog.DiscardHandler))
}

func TestQuorumConforms(t *testing.T) {
	for name, size := range map[string]struct{ up, down int }{
		"three": {3, 0}, "five": {5, 0}, "three, one down": {2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "three" {
				slow.Test(t)
			}
			var s servers
			for range size.up {
				s.up = append(s.up, redistest.Real(t))
			}
			for range size.down {
				s.down = append(s.down, "127.0.0.1:1")
			}
			storetest.Run(t, storetest.Backend{New: func(tb testing.TB) storetest.Keyspace {
				return s.keyspace(tb, redistest.Prefix(tb))
			}})
		})
	}
}
