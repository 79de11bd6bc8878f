package quorum

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A hanging node takes its time, as one whose user's Dialer does not return.
type hanging struct {
	store.Store
	policy string
}

func (h *hanging) Close() error {
	time.Sleep(time.Second)
	return nil
}

func (h *hanging) EvictionPolicy(ctx context.Context) (string, error) {
	if h.policy == "" {
		<-ctx.Done()
	}
	return h.policy, ctx.Err()
}

func quorumOf(policies ...string) *Store {
	var nodes []Node
	for _, p := range policies {
		nodes = append(nodes, Node{Name: "node", Store: &hanging{policy: p}})
	}
	return New(nodes, slog.New(slog.DiscardHandler))
}

func TestNodesAreClosedAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quorumOf("", "", "", "", "")
		began := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("five nodes were closed in %v, one takes a second", took)
		}
	})
}

// A node that hangs does not hide what another one says.
func TestEachNodeIsAskedForItsEvictionPolicy(t *testing.T) {
	for want, policies := range map[string][]string{
		"allkeys-lru":  {"", "allkeys-lru", "noeviction"},
		"volatile-ttl": {"noeviction", "", "volatile-ttl"},
		"noeviction":   {"noeviction", "", "noeviction"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := quorumOf(policies...)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if got, err := s.EvictionPolicy(ctx); got != want || err != nil {
				t.Errorf("%q: EvictionPolicy = %s, %v", policies, got, err)
			}
			cancel()
			_ = s.Close()
		})
	}
}
