package lockmw_test

import (
	"context"
	"fmt"
	"net"
	"strings"
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

// An address is one behind which the master changes, as behind a Kubernetes Service or a
// balancer. The old master becomes a replica of the new one, and keeps its connections open.
type address struct {
	*faultproxy.Proxy
	master, replica *redistest.Server
}

func oneAddress(t *testing.T) *address {
	t.Helper()
	master, replica := replicated(t)
	return &address{faultproxy.Start(t, master.Addr()), master, replica}
}

func (a *address) client(t *testing.T) *redis.Client { return redistest.NewClient(t, a.Addr()) }

// waysToReplace are how master and replica change places. They return before both know.
var waysToReplace = map[string]func(t *testing.T, a *address){
	"FAILOVER": func(t *testing.T, a *address) { // loses nothing
		t.Helper()
		host, port, _ := net.SplitHostPort(a.replica.Addr())
		command(t, a.master, "FAILOVER", "TO", host, port)
	},
	"REPLICAOF": func(t *testing.T, a *address) {
		t.Helper()
		host, port, _ := net.SplitHostPort(a.replica.Addr())
		command(t, a.replica, "REPLICAOF", "NO", "ONE")
		command(t, a.master, "REPLICAOF", host, port)
	},
}

func command(t *testing.T, s *redistest.Server, args ...any) {
	t.Helper()
	if err := s.Client(t).Do(context.Background(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// replace has the replica be the master, and then be behind the address, and returns since
// when. Afterwards the old master follows it.
func (a *address) replace(t *testing.T, way func(*testing.T, *address)) (since time.Time) {
	t.Helper()
	way(t, a)
	a.master, a.replica = a.replica, a.master
	await.Until(t, "the replica is the master", func() bool { return isMaster(t, a.master) })
	a.LeadTo(a.master.Addr())
	since = time.Now()
	old := a.replica.Client(t)
	await.Until(t, "the old master follows it", func() bool {
		return strings.Contains(old.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
	return since
}

// catchUp returns when a master's replica has all that the master has. It writes a key.
func catchUp(t *testing.T, master *redistest.Server, key string) {
	t.Helper()
	conn := master.Client(t).Conn() // WAIT is about what its connection wrote
	defer conn.Close()
	ctx := context.Background()
	if err := conn.Set(ctx, key, "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the replica has all", func() bool { return conn.Do(ctx, "WAIT", 1, 300).Val() == int64(1) })
}

// Whatever a Locker that has rested asks first, it is answered by the new master; a lease is
// given back there. Once all of it was refused for as long as the old one kept its connections.
func TestANewMasterBehindOneAddressAnswersTheFirstCommand(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	ctx := context.Background()
	free := lockmw.Policy{TTL: time.Minute}
	take := func(t *testing.T, l *lockmw.Locker, key string, p lockmw.Policy) {
		t.Helper()
		mustRelease(t, mustAcquire(t, l, key, p))
	}
	asks := map[string]func(t *testing.T, l *lockmw.Locker, held *lockmw.Lease){
		"a mutex":          func(t *testing.T, l *lockmw.Locker, _ *lockmw.Lease) { t.Helper(); take(t, l, "free", free) },
		"one that is held": func(t *testing.T, _ *lockmw.Locker, held *lockmw.Lease) { t.Helper(); mustRelease(t, held) },
		"a reader": func(t *testing.T, l *lockmw.Locker, _ *lockmw.Lease) {
			t.Helper()
			take(t, l, "read", lockmw.Policy{TTL: time.Minute, Mode: lockmw.Shared})
		},
		"a lock by force": func(t *testing.T, l *lockmw.Locker, held *lockmw.Lease) {
			t.Helper()
			if err := l.ForceRelease(ctx, held.Key()); err != nil {
				t.Error(err)
			}
			take(t, l, held.Key(), free)
		},
		"several": func(t *testing.T, l *lockmw.Locker, _ *lockmw.Lease) {
			t.Helper()
			asked := time.Now()
			_, several, err := l.AcquireAll(ctx, []string{"a", "b"}, free)
			// A replica that stood still may not confirm in time; what that left is in the way for a moment.
			for stood := unanswered(err, asked); stood && err != nil && time.Since(asked) < 20*time.Second; {
				time.Sleep(10 * time.Millisecond)
				_, several, err = l.AcquireAll(ctx, []string{"a", "b"}, free)
			}
			if err != nil {
				t.Fatal(err)
			}
			asked = time.Now()
			if err := several.Release(ctx); err != nil && !unanswered(err, asked) {
				t.Error(err)
			}
		},
		"a ping": func(t *testing.T, l *lockmw.Locker, _ *lockmw.Lease) {
			t.Helper()
			if err := answered(func() error { return l.Ping(ctx) }); err != nil {
				t.Error(err)
			}
		},
	}
	for name, way := range waysToReplace {
		for acks, opts := range map[string][]lockmw.Option{"": nil, "/with_acks": {lockmw.WithReplicaAcks(1, 500*time.Millisecond)}} {
			t.Run(name+acks, func(t *testing.T) {
				t.Parallel()
				a := oneAddress(t)
				type rests struct {
					*lockmw.Locker
					held *lockmw.Lease
				}
				all := make(map[string]rests)
				for what := range asks {
					l := testenv.Open(t, a.client(t), opts...)
					all[what] = rests{l, mustAcquire(t, l, what, free)}
				}
				catchUp(t, a.master, "last")
				a.replace(t, way)
				if acks != "" {
					confirmsPromptly(t, a.master)
				}
				for what, ask := range asks {
					t.Run(what, func(t *testing.T) { ask(t, all[what].Locker, all[what].held) })
				}
			})
		}
	}
}

// waysToRefuse have an old master refuse what it is asked, by the word that they are listed under,
// for longer than a test takes. It keeps its connections. next is the new master.
var waysToRefuse = map[string]func(t *testing.T, old, next *redistest.Server){
	"MASTERDOWN": func(t *testing.T, old, _ *redistest.Server) { // it follows one that is gone, and may not answer from what it has
		t.Helper()
		command(t, old, "CONFIG", "SET", "replica-serve-stale-data", "no")
		command(t, old, "REPLICAOF", "127.0.0.1", "1")
	},
	"LOADING": func(t *testing.T, old, next *redistest.Server) { // it follows the new one, whose data it loads, a millisecond for each key
		t.Helper()
		host, port, _ := net.SplitHostPort(next.Addr())
		command(t, next, "EVAL", fillers, 0)
		command(t, next, "CONFIG", "SET", "rdbcompression", "no")
		command(t, next, "DEBUG", "CHANGE-REPL-ID") // otherwise it would be sent only what it lacks
		slowToLoad(t, old)
		command(t, old, "REPLICAOF", host, port)
	},
}

// refuse has the replica be the master behind the address, and the old one refuse by that word.
func (a *address) refuse(t *testing.T, word string) {
	t.Helper()
	catchUp(t, a.master, "last")
	command(t, a.replica, "REPLICAOF", "NO", "ONE")
	waysToRefuse[word](t, a.master, a.replica)
	a.master, a.replica = a.replica, a.master
	old := a.replica.Client(t)
	await.Until(t, "the old master says "+word, func() bool {
		return redis.HasErrorPrefix(old.Get(context.Background(), "last").Err(), word)
	})
	a.LeadTo(a.master.Addr())
}

// An old master may refuse otherwise than by READONLY, as one that has lost its own master does, or one
// that loads what the new one has sent. The new one behind the address answers then, too.
func TestANewMasterAnswersWhateverTheOldOneRefusesBy(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	const soon = 2 * time.Second
	ctx := context.Background()
	long := lockmw.Policy{TTL: time.Minute}
	asks := map[string]func(t *testing.T, l *lockmw.Locker, held *lockmw.Lease){
		"a mutex": func(t *testing.T, l *lockmw.Locker, _ *lockmw.Lease) {
			t.Helper()
			mustRelease(t, mustAcquire(t, l, "free", long))
		},
		"a reader": func(t *testing.T, l *lockmw.Locker, _ *lockmw.Lease) {
			t.Helper()
			mustRelease(t, mustAcquire(t, l, "read", lockmw.Policy{TTL: time.Minute, Mode: lockmw.Shared}))
		},
		"a renewal": func(t *testing.T, l *lockmw.Locker, held *lockmw.Lease) {
			t.Helper()
			wantRenewed(t, l, held)
		},
		"a release": func(t *testing.T, _ *lockmw.Locker, held *lockmw.Lease) { t.Helper(); mustRelease(t, held) },
		"a ping": func(t *testing.T, l *lockmw.Locker, _ *lockmw.Lease) {
			t.Helper()
			if err := answered(func() error { return l.Ping(ctx) }); err != nil {
				t.Error(err)
			}
		},
	}
	for word := range waysToRefuse {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			a := oneAddress(t)
			lockers, leases := make(map[string]*lockmw.Locker), make(map[string]*lockmw.Lease)
			for what := range asks { // each with connections of its own: the first question leaves the old master
				lockers[what] = testenv.Open(t, a.client(t))
				leases[what] = mustAcquire(t, lockers[what], what, long)
			}
			a.refuse(t, word)
			for what, ask := range asks {
				t.Run(what, func(t *testing.T) {
					began := time.Now()
					ask(t, lockers[what], leases[what])
					if took := time.Since(began); took > soon+machine.Between(began, time.Now())+time.Second {
						t.Errorf("answered after %v, want %v", took, soon)
					}
				})
			}
		})
	}
}

// The master changes to and fro while callers take turns. Locks are given at once, and a lease whose key
// the new master has is kept.
func TestANewMasterBehindOneAddressUnderLoad(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	const soon = 2 * time.Second
	for name, way := range waysToReplace {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := oneAddress(t)
			lockers := []*lockmw.Locker{testenv.Open(t, a.client(t)), testenv.Open(t, a.client(t))}
			renewed := make(chan struct{}, 1)
			holder := testenv.Open(t, a.client(t), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
				if e.Kind == lockmw.EventRenewed {
					select {
					case renewed <- struct{}{}:
					default:
					}
				}
			}))
			held := mustAcquire(t, holder, "held", lockmw.Policy{TTL: 20 * time.Second}) // which a machine that stands still does not use up
			ld := startLoad(lockers, 4, []string{"a", "b", "c"}, lockmw.Policy{TTL: 2 * time.Second, Wait: time.Second})
			for round := range 3 {
				ld.more(t, 100)
				since := a.replace(t, way)
				await.Until(t, "locks are given", func() bool {
					_, lease, err := lockers[0].Acquire(context.Background(), fmt.Sprint("fresh", round), lockmw.Policy{TTL: time.Second})
					return err == nil && lease.Release(context.Background()) == nil
				})
				took := time.Since(since)
				t.Logf("locks are given %v after the new master is behind the address", took)
				if took > soon+6*time.Second { // a slow machine
					t.Errorf("locks were given after %v, want %v", took, soon)
				}
				select {
				case <-renewed: // maybe by the one that is replaced
				default:
				}
				// One replacement after the other, without a renewal in between, outlasts any TTL.
				await.Until(t, "the lock that is held is renewed", func() bool {
					lockmw.RenewAll(holder)
					return len(renewed) > 0 || !held.Valid()
				})
			}
			ld.more(t, 100)
			ld.end(t)
			ld.overlaps(t)
			if !held.Valid() {
				t.Errorf("the lock that was held was lost: %v", context.Cause(held.Context()))
			}
			mustRelease(t, held)
			noKeys(t, a.master.Client(t), "{", 15*time.Second)
		})
	}
}

// A server's timeout ends connections that rest, and never a subscription. So that may stay at the old master while commands
// go to the new one, which hears nobody there: it would pass over who waits in this process, as long as others wait, too.
func TestASubscriptionFollowsTheCommandsToANewMaster(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	a := oneAddress(t)
	l := testenv.Open(t, a.client(t))
	waits := lockmw.Policy{TTL: time.Minute, Wait: time.Minute}
	mustRelease(t, mustAcquire(t, l, "k", waits))
	await.Until(t, "the Locker is subscribed", func() bool { return l.Stats().Subscribed })
	command(t, a.master, "CLIENT", "KILL", "TYPE", "normal")
	a.replace(t, waysToReplace["REPLICAOF"])
	mustRelease(t, mustAcquire(t, l, "k", waits))
	master := a.master.Client(t)
	await.Until(t, "it is subscribed at the new master", func() bool {
		return len(master.PubSubChannels(context.Background(), "*").Val()) == 1
	})
}

// A quorum goes on over a node that does so.
func TestANodeOfAQuorumHasANewMasterBehindItsAddress(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	a, others := oneAddress(t), []*redistest.Server{redistest.Real(t), redistest.Real(t)}
	l, err := lockmw.NewQuorum([]redis.UniversalClient{a.client(t), others[0].Client(t), others[1].Client(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(over())
	mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
	a.replace(t, waysToReplace["FAILOVER"])
	others[0].Kill() // so that the node's vote is needed
	mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{TTL: 5 * time.Second, Wait: 10 * time.Second}))
}

// A server that stays a replica is told of as before, and not dialled without end.
func TestAReplicaThatStaysOneIsNotDialledWithoutEnd(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	a := oneAddress(t)
	a.LeadTo(a.replica.Addr())
	l := testenv.Open(t, a.client(t))
	const long = 3 * time.Second
	began, calls := time.Now(), 0
	for ; time.Since(began) < long; calls++ {
		err := askUntil(unavailable("the server is a replica"), func() error {
			_, _, err := l.Acquire(context.Background(), "k", lockmw.Policy{FailOpen: true})
			return err
		})
		if !unavailable("the server is a replica")(err) {
			t.Fatalf("err = %v, want %v and that the server is a replica", err, lockmw.ErrUnavailable)
		}
	}
	took := time.Since(began)
	// Those of one moment once a second, and room for calls whose first connection is slow to answer, as on a busy machine.
	if dials, most := a.Commands()["HELLO"], 8*int(took/time.Second)+16; dials > most {
		t.Errorf("%d calls in %v made %d connections, want at most %d", calls, took, dials, most)
	}
}
