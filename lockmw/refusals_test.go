package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/internal/testenv"
	"github.com/lockmw/kit/lockmw"
)

// What a user is told who has made a mistake: no lock, no run without one, no wait for
// what does not pass, and what to do.
func wantMistake(t *testing.T, l *lockmw.Locker, says ...string) {
	t.Helper()
	p := lockmw.Policy{TTL: time.Minute, Wait: time.Minute, FailOpen: true}
	began := time.Now()
	_, err := l.Acquire(context.Background(), "k", p)
	var refusal *lockmw.AcquireError
	if !errors.Is(err, lockmw.ErrUnavailable) || !errors.As(err, &refusal) {
		t.Errorf("err = %v, want %v", err, lockmw.ErrUnavailable)
		return
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("err = %q, want it to say %q", err, part)
		}
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("told after %v", took)
	}
}

func TestMistakesAreToldWithWhatToDo(t *testing.T) {
	t.Parallel()
	t.Run("a Cluster's node", func(t *testing.T) {
		t.Parallel()
		for _, node := range redistest.Cluster(t).Nodes {
			wantMistake(t, newLocker(t, node.Client(t)), node.Addr(), "redis.NewClusterClient")
		}
	})
	t.Run("a right", func(t *testing.T) {
		t.Parallel()
		s := redistest.Real(t)
		if err := s.Client(t).Do(t.Context(), "ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all", "-zadd").Err(); err != nil {
			t.Fatal(err)
		}
		client := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "locker", "secret" })
		wantMistake(t, newLocker(t, client), "ZADD", "README")
	})
}

// A client that Sentinels send to replicas only looks like any other, and is told at
// its first lock.
func TestReplicaOnlyClientIsTold(t *testing.T) {
	testenv.Slow(t)
	t.Parallel()
	w := redistest.Sentinel(t)
	l := newLocker(t, w.Client(t, func(o *redis.FailoverOptions) { o.ReplicaOnly = true }))
	_, err := l.Acquire(context.Background(), "k", lockmw.Policy{FailOpen: true})
	if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "ReplicaOnly") {
		t.Errorf("err = %v, want %v and what to do about ReplicaOnly", err, lockmw.ErrUnavailable)
	}
}
