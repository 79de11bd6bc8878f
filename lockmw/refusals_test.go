package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// What a user is told who has made a mistake: no lock, no run without one, no wait for
// what does not pass, and what to do.
func wantMistake(t *testing.T, l *lockmw.Locker, says ...string) {
	t.Helper()
	p := lockmw.Policy{TTL: time.Minute, Wait: time.Minute, FailOpen: true}
	var after time.Duration
	err := askUntil(unavailable(says...), func() (err error) {
		after, _, err = took(l, "k", p)
		return err
	})
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
	if after > 30*time.Second {
		t.Errorf("told after %v", after)
	}
}

func TestMistakesAreToldWithWhatToDo(t *testing.T) {
	t.Parallel()
	t.Run("a Cluster's node", func(t *testing.T) {
		t.Parallel()
		for _, node := range redistest.Cluster(t).Nodes {
			wantMistake(t, testenv.Open(t, node.Client(t)), node.Addr(), "redis.NewClusterClient")
		}
	})
	t.Run("a right", func(t *testing.T) {
		t.Parallel()
		s := redistest.Real(t)
		if err := s.Client(t).Do(t.Context(), "ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all", "-zadd").Err(); err != nil {
			t.Fatal(err)
		}
		client := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "locker", "secret" })
		wantMistake(t, testenv.Open(t, client), "ZADD", "README")
	})
}

// A client that Sentinels send to replicas only looks like any other, and is told at
// its first lock.
func TestReplicaOnlyClientIsTold(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	w := redistest.Sentinel(t)
	l := testenv.Open(t, w.Client(t, func(o *redis.FailoverOptions) { o.ReplicaOnly = true }))
	err := askUntil(unavailable("ReplicaOnly"), func() error {
		_, _, err := l.Acquire(context.Background(), "k", lockmw.Policy{FailOpen: true})
		return err
	})
	if !unavailable("ReplicaOnly")(err) {
		t.Errorf("err = %v, want %v and what to do about ReplicaOnly", err, lockmw.ErrUnavailable)
	}
}

// What Redis refuses is in the Locker's log, with what to do, and nothing of it is for
// clients.
func TestRefusalsOfRedisAreLogged(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	admin := s.Client(t)
	for user, rights := range map[string][]any{"locker": {"~*", "&*", "+@all", "-set"}, "guest": {"~*", "&*", "+@all"}} {
		args := append([]any{"ACL", "SETUSER", user, "on", ">secret"}, rights...)
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.HSet(t.Context(), "lock:{k}", "their", "data").Err(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, user, password, key string
		says                      []string
	}{
		{"a wrong password", "guest", "guess", "j", []string{"level=WARN", "reason=LOCK_BACKEND_UNAVAILABLE", "key=j", "WRONGPASS"}},
		{"a missing right", "locker", "secret", "j", []string{"level=WARN", "reason=LOCK_BACKEND_UNAVAILABLE", "key=j", "the Redis user may not run SET, see the ACL line in lockmw's README"}},
		{"other data", "guest", "secret", "k", []string{"level=WARN", "reason=LOCK_BACKEND_UNAVAILABLE", "key=k", `\"lock:{k}\" holds data of another program`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log := new(logBuffer)
			l := testenv.Open(t, s.Client(t, func(o *redis.Options) { o.Username, o.Password = tc.user, tc.password }), log.option())
			for range 3 {
				_, _, err := l.Acquire(context.Background(), tc.key, lockmw.Policy{})
				refusal, ok := lockmw.RefusalOf(err)
				if !ok || refusal.Code != lockmw.CodeBackendUnavailable || strings.ContainsAny(refusal.Detail, "\":{}") {
					t.Errorf("%v is %+v", err, refusal)
				}
			}
			await.Until(t, "the refusal is logged", func() bool { return strings.Contains(strings.Join(log.lines(), "\n"), "lock was refused") })
			_ = l.Close(over()) // all lines are written
			text := strings.Join(log.lines(), "\n")
			if n := strings.Count(text, "lock was refused"); n < 1 || n > 2 {
				t.Errorf("%d lines about three refusals in a row, want one (or two, if it took a second):\n%s", n, text)
			}
			for _, says := range tc.says {
				if !strings.Contains(text, says) {
					t.Errorf("the log does not say %q:\n%s", says, text)
				}
			}
		})
	}
}

// clicks has one request hold the lock, and returns what another one gets 200 ms later; or a nested call with the first
// one's context.
func (s scene) clicks(p lockmw.Policy, nested bool) error {
	one, leave := context.WithCancel(context.Background())
	defer leave()
	another, alsoLeave := context.WithCancel(context.Background())
	defer alsoLeave()
	_, lease, err := s.locks.Acquire(one, "42", order)
	if err != nil {
		s.Fatal(err)
	}
	defer mustRelease(s, lease)
	time.Sleep(200 * time.Millisecond)
	if nested {
		another = context.WithValue(one, afterwards{}, "a value of its own")
	}
	_, _, err = s.locks.Acquire(another, "42", p)
	return err
}

type afterwards struct{}

// Who gives up at a deadline is told what Redis has said last: that it refuses to write is no silence.
func TestADeadlineTellsWhatRedisRefuses(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	client := s.Client(t)
	l := testenv.Open(t, s.Client(t))
	mustRelease(t, mustAcquire(t, l, "suits", lockmw.Policy{}))
	if err := client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	err := askUntil(unavailable("NOREPLICAS"), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, _, err := l.Acquire(ctx, "k", lockmw.Policy{Wait: time.Minute})
		return err
	})
	if !unavailable("NOREPLICAS")(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire = %v, want what Redis refuses, and that the deadline has passed", err)
	}
}
