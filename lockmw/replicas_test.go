package lockmw_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// replicated starts a master and a replica that follows it.
func replicated(t *testing.T) (master, replica *redistest.Server) {
	t.Helper()
	master, replica = redistest.Real(t), redistest.Real(t)
	followAt(t, replica, master, master.Addr())
	return master, replica
}

// followAt has a server follow a master, which it reaches at addr, and returns when it confirms what the master is told.
// Other replicas of that master must confirm nothing meanwhile.
func followAt(t *testing.T, replica, master *redistest.Server, addr string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	c := replica.Client(t)
	if err := c.ReplicaOf(context.Background(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	confirmsPromptly(t, master)
}

// confirmsPromptly returns when a master's replica confirms at once what the master is told, as it does in the end.
func confirmsPromptly(t *testing.T, master *redistest.Server) {
	t.Helper()
	conn := master.Client(t).Conn() // WAIT is about what its connection wrote
	defer conn.Close()
	// Just after a replica's first copy Redis 7.0 can lose one of the questions
	// behind WAIT; the answer then comes with the replica's next report, up to a
	// second later. Several prompt ones in a row say that this is over.
	prompt := 0
	await.Within(t, 20*time.Second, "the replica follows", func() bool {
		ctx := context.Background()
		if conn.Set(ctx, "probe", 1, time.Second).Err() == nil && conn.Do(ctx, "WAIT", 1, 300).Val() == int64(1) {
			prompt++
		} else {
			prompt = 0
		}
		return prompt == 5
	})
}

func TestReplicasConfirmALock(t *testing.T) {
	master, replica := replicated(t)
	l := testenv.Open(t, master.Client(t), lockmw.WithReplicaAcks(1, 500*time.Millisecond))
	lease := mustAcquire(t, l, "k", lockmw.Policy{Wait: 10 * time.Second})
	if n := replica.Client(t).Exists(context.Background(), "lock:{k}").Val(); n != 1 {
		t.Error("the lock is held and the replica does not have it")
	}
	next := make(chan *lockmw.Lease, 1)
	go func() { // a hand-over is confirmed too
		_, lease, err := l.Acquire(context.Background(), "k", lockmw.Policy{Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	await.Within(t, 5*time.Second, "it waits", func() bool { return lockmw.Waiting(l, "k") == 1 })
	mustRelease(t, lease)
	mustRelease(t, <-next)
}

// A lock that one of two replicas has confirmed is kept when that one takes over from a killed master, though the news had a long
// way to it. If the other one does, it is forgotten: whoever has it then has a higher fence, and the first one learns of the loss
// at its next renewal.
func TestAConfirmedLockDependsOnWhichReplicaTakesOver(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	for name, kept := range map[string]bool{"one that has confirmed it": true, "one that has not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, confirms, behind := redistest.Real(t), redistest.Real(t), redistest.Real(t)
			toBehind, toConfirming := faultproxy.Start(t, master.Addr()), faultproxy.Start(t, master.Addr())
			followAt(t, behind, master, toBehind.Addr())
			toBehind.BlackHole(faultproxy.ToClient) // it learns of nothing more
			followAt(t, confirms, master, toConfirming.Addr())
			toConfirming.Delay(faultproxy.ToClient, 100*time.Millisecond)

			address := faultproxy.Start(t, master.Addr())
			acks := lockmw.WithReplicaAcks(1, 500*time.Millisecond)
			l, other := testenv.Open(t, redistest.NewClient(t, address.Addr()), acks), testenv.Open(t, redistest.NewClient(t, address.Addr()), acks)
			first := mustAcquire(t, l, "k", lockmw.Policy{Wait: 20 * time.Second})
			next, remains := confirms, behind
			if !kept {
				next, remains = behind, confirms
			}
			command(t, next, "REPLICAOF", "NO", "ONE")
			master.Kill()
			address.LeadTo(next.Addr())
			followAt(t, remains, next, next.Addr())

			waits := lockmw.Policy{Wait: 20 * time.Second}
			if kept {
				wantRenewed(t, l, first)
				asked := time.Now()
				if _, _, err := other.Acquire(context.Background(), "k", lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) && !unanswered(err, asked) {
					t.Errorf("another one gets %v, want that the lock is held", err)
				}
				mustRelease(t, first)
			}
			second := mustAcquire(t, other, "k", waits)
			if second.Fence() <= first.Fence() {
				t.Errorf("the fence of the next one is %d, want one above %d", second.Fence(), first.Fence())
			}
			if !kept {
				await.Until(t, "the first one learns of the loss", func() bool {
					lockmw.RenewAll(l)
					return !first.Valid()
				})
				if err := first.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) || !errors.Is(context.Cause(first.Context()), lockmw.ErrLost) {
					t.Errorf("Release of the first one = %v (its context ended by %v), want %v", err, context.Cause(first.Context()), lockmw.ErrLost)
				}
			}
			if !second.Valid() {
				t.Error("the second one has lost its lock, too")
			}
			mustRelease(t, second)
		})
	}
}

func TestLockThatNoReplicaConfirmsIsTakenBack(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	master, replica := replicated(t)
	l := testenv.Open(t, master.Client(t), lockmw.WithReplicaAcks(1, 20*time.Millisecond))
	mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{Wait: 5 * time.Second}))
	if err := replica.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []lockmw.Policy{{}, {Wait: 2 * time.Second}} {
		var after time.Duration
		err := askUntil(unavailable("0 of 1 replicas"), func() (err error) {
			after, _, err = took(l, "k", p)
			return err
		})
		if !unavailable("0 of 1 replicas")(err) {
			t.Errorf("err = %v", err)
		}
		if after > p.Wait+2*time.Second {
			t.Errorf("refused after %v", after)
		}
		c := master.Client(t)
		await.Within(t, 5*time.Second, "it is taken back", func() bool {
			return c.Exists(context.Background(), "lock:{k}", "lock:{k}:queue").Val() == 0
		})
	}
	if err := replica.Cont(); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{Wait: 10 * time.Second}))
}

func TestReplicaAcksAreChecked(t *testing.T) {
	c := redistest.NewClient(t, "127.0.0.1:1")
	for _, opt := range []lockmw.Option{
		lockmw.WithReplicaAcks(0, time.Millisecond), lockmw.WithReplicaAcks(1, 0), lockmw.WithReplicaAcks(1, time.Second),
	} {
		if _, err := lockmw.New(c, opt); err == nil || !strings.HasPrefix(err.Error(), "lockmw: WithReplicaAcks: ") {
			t.Errorf("err = %v", err)
		}
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	if _, err := lockmw.New(cluster, lockmw.WithReplicaAcks(1, time.Millisecond)); err == nil || !strings.Contains(err.Error(), "Cluster") {
		t.Errorf("err = %v", err)
	}
}

// A server that refuses WAIT has given the lock all the same.
func TestLockIsTakenBackWhereWaitIsRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	c := s.Client(t)
	if err := c.Do(context.Background(), "ACL", "SETUSER", "hasty", "on", ">word", "allkeys", "allchannels", "+@all", "-wait").Err(); err != nil {
		t.Fatal(err)
	}
	l := testenv.Open(t, s.Client(t, func(o *redis.Options) { o.Username, o.Password = "hasty", "word" }), lockmw.WithReplicaAcks(1, 20*time.Millisecond))
	if _, _, err := l.Acquire(context.Background(), "k", lockmw.Policy{}); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("err = %v", err)
	}
	noKeys(t, c, "k", 5*time.Second)
}

// A Redis that answers is not one that cannot be reached.
func TestMissingReplicaDoesNotFailOpen(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	l := testenv.Open(t, s.Client(t), lockmw.WithReplicaAcks(1, 20*time.Millisecond))
	if _, _, err := l.Acquire(context.Background(), "k", lockmw.Policy{FailOpen: true}); !errors.Is(err, lockmw.ErrUnavailable) {
		t.Errorf("err = %v, want a refusal", err)
	}
	noKeys(t, s.Client(t), "k", 5*time.Second)
}

// A replica may take as long as the option says, also where the client has less patience with
// a server's answers.
func TestAReplicaHasItsTimeWhateverTheReadTimeout(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	master, replica := replicated(t)
	impatient := master.Client(t, func(o *redis.Options) { o.ReadTimeout = 50 * time.Millisecond })
	l := testenv.Open(t, impatient, lockmw.WithReplicaAcks(1, 500*time.Millisecond))
	mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{Wait: 10 * time.Second}))
	var lease *lockmw.Lease
	err := askUntil(func(err error) bool { return !unavailable("0 of 1 replicas")(err) }, func() (err error) { // one attempt, each time with a replica that is stopped
		if err := replica.Stop(); err != nil {
			t.Fatal(err)
		}
		on := time.AfterFunc(150*time.Millisecond, func() { _ = replica.Cont() })
		defer on.Stop()
		_, lease, err = l.Acquire(context.Background(), "k", lockmw.Policy{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, lease)
}

// Do has its lock, the beginning of its work and its answer confirmed.
func TestReplicasConfirmAnAnswer(t *testing.T) {
	for crash, name := range map[lockmw.Crash]string{lockmw.RunAgain: "RunAgain", lockmw.Uncertain: "Uncertain"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, replica := replicated(t)
			l := testenv.Open(t, master.Client(t), lockmw.WithReplicaAcks(1, 500*time.Millisecond))
			flight := lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: time.Hour, Crash: crash}
			var goesOn atomic.Bool
			answer, shared, err := lockmw.Do(context.Background(), l, "k", flight, func(context.Context) (string, error) {
				if got := replica.Client(t).Get(context.Background(), "lock:{k}:answer").Val(); strings.HasPrefix(got, "begun ") != (crash == lockmw.Uncertain) {
					t.Errorf("the work runs, and the replica has %q", got)
				}
				if err := replica.Stop(); err != nil {
					t.Error(err)
				}
				time.AfterFunc(50*time.Millisecond, func() { // early in the 500 ms that it has, for a machine may be late
					goesOn.Store(true)
					_ = replica.Cont()
				})
				return "done", nil
			})
			if err != nil || shared || answer != "done" {
				t.Fatalf("%q, %v, %v", answer, shared, err)
			}
			if !goesOn.Load() {
				t.Error("the answer was given while no replica could have it")
			}
			c := replica.Client(t)
			await.Within(t, 5*time.Second, "the replica has the answer", func() bool {
				return strings.Contains(c.Get(context.Background(), "lock:{k}:answer").Val(), "done")
			})
			if err := c.ReplicaOf(context.Background(), "no", "one").Err(); err != nil {
				t.Fatal(err)
			}
			answer, shared, err = lockmw.Do(context.Background(), testenv.Open(t, c), "k", flight, func(context.Context) (string, error) { return "again", nil })
			if err != nil || !shared || answer != "done" {
				t.Errorf("after a fail-over: %q, %v, %v", answer, shared, err)
			}
		})
	}
}

// Work of which a fail-over would forget that it was begun is not begun.
func TestWorkWhoseBeginningNoReplicaConfirmsDoesNotBegin(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	master, replica := replicated(t)
	var stops sync.Once
	l := testenv.Open(t, master.Client(t), lockmw.WithReplicaAcks(1, 100*time.Millisecond), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == lockmw.EventAcquired {
			stops.Do(func() { _ = replica.Stop() })
		}
	}))
	flight := lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: time.Hour, Crash: lockmw.Uncertain}
	asked := time.Now()
	_, _, err := lockmw.Do(context.Background(), l, "k", flight, func(context.Context) (string, error) {
		t.Error("the work runs")
		return "", nil
	})
	if !unavailable("0 of 1 replicas")(err) && !unanswered(err, asked) {
		t.Errorf("err = %v", err)
	}
	noKeys(t, master.Client(t), "k", 5*time.Second)
	if err := replica.Cont(); err != nil {
		t.Fatal(err)
	}
	answer, _, err := lockmw.Do(context.Background(), l, "k", flight, func(context.Context) (string, error) { return "done", nil })
	if err != nil || answer != "done" {
		t.Errorf("when the replica is back: %q, %v", answer, err)
	}
}
