package quorum

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A node that answers pings, or fails, or is silent until the end.
type pingedNode struct {
	store.Store
	err    error
	silent bool
}

func (n *pingedNode) Server(string) string { return "" }

func (n *pingedNode) Ping(ctx context.Context, _ string, _ store.Progress) error {
	if n.silent {
		<-ctx.Done()
		return &store.Error{Err: ctx.Err(), Evidence: store.Silent}
	}
	return n.err
}

func TestAMajorityMustBeThere(t *testing.T) {
	dead := &store.Error{Err: errors.New("refused"), Evidence: store.Unreachable}
	for _, tc := range []struct {
		name  string
		nodes [3]pingedNode
		there bool
		took  time.Duration
	}{
		{"all", [3]pingedNode{}, true, 0},
		{"one dead", [3]pingedNode{{err: dead}}, true, 0},
		{"one silent", [3]pingedNode{{silent: true}}, true, 0},
		{"two dead", [3]pingedNode{{err: dead}, {}, {err: dead}}, false, 0},
		{"one dead, one silent", [3]pingedNode{{err: dead}, {silent: true}}, false, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var nodes []Node
				for i := range tc.nodes {
					nodes = append(nodes, Node{Name: "node", Store: &tc.nodes[i]})
				}
				s := New(nodes, slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				began := time.Now()
				err := s.Ping(ctx, "k", store.Progress{})
				if took := time.Since(began); (err == nil) != tc.there || took != tc.took {
					t.Errorf("%v after %v, want there %t after %v", err, took, tc.there, tc.took)
				}
				cancel()
				s.calls.Wait()
			})
		})
	}
}
