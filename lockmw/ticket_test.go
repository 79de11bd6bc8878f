package lockmw_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// mustResume goes on by a ticket, or fails the test. A policy without a wait has one: a Resume that was not answered may have spent its
// ticket, so that only the same call may ask again.
func mustResume(tb testing.TB, l *lockmw.Locker, ticket string, p lockmw.Policy) *lockmw.Lease {
	tb.Helper()
	if p.Wait == 0 && p.Retries == 0 {
		p.Wait = 10 * time.Second
	}
	_, lease, err := l.Resume(context.Background(), ticket, p)
	if err != nil {
		tb.Fatalf("Resume: %v", err)
	}
	return lease
}

// goesOn has some work go on by a ticket, so that Redis knows the scripts: what it does not know it does not carry out.
func goesOn(tb testing.TB, c *redis.Client) {
	tb.Helper()
	l := testenv.Open(tb, c)
	lease := mustAcquire(tb, l, redistest.Prefix(tb), lockmw.Policy{})
	ticket := lease.Ticket(time.Minute)
	mustRelease(tb, lease)
	mustRelease(tb, mustResume(tb, l, ticket, lockmw.Policy{}))
}

// isSpent wants a ticket to be.
func isSpent(tb testing.TB, l *lockmw.Locker, ticket, when string) {
	tb.Helper()
	var lease *lockmw.Lease
	err := answered(func() (err error) {
		_, lease, err = l.Resume(context.Background(), ticket, lockmw.Policy{})
		return err
	})
	if !errors.Is(err, lockmw.ErrTicketSpent) || lease != nil {
		tb.Errorf("%s: Resume = %v, want ErrTicketSpent", when, err)
	}
}

// handedOn wants the lock to be a ticket's.
func handedOn(tb testing.TB, l *lockmw.Locker, key string) lockmw.Holder {
	tb.Helper()
	var info lockmw.Info
	err := answered(func() (err error) {
		info, err = l.Inspect(context.Background(), key)
		return err
	})
	if err != nil || len(info.Holders) != 1 || !info.Holders[0].HandedOn || !info.Held {
		tb.Fatalf("Inspect = %+v, %v, want a lock that was handed on", info, err)
	}
	return info.Holders[0]
}

func TestWorkGoesOnElsewhereByATicket(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		var told, toldOther events
		l := testenv.Open(t, c, told.option(), lockmw.WithInstance("api"), lockmw.WithNote(func(context.Context) string { return "order 7" }))
		other := testenv.Open(t, c, toldOther.option())
		first := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := first.Ticket(10 * time.Minute)
		if err := lockmw.CheckTicket(ticket); err != nil {
			t.Fatal(err)
		}
		if again := first.Ticket(20 * time.Minute); again != ticket {
			t.Errorf("asked twice there are two tickets: %q and %q", ticket, again)
		}
		mustRelease(t, first)
		h := handedOn(t, other, key)
		if !strings.HasPrefix(h.Instance, "api-") || h.Note != "order 7" || h.Left > 20*time.Minute || h.Left < 19*time.Minute {
			t.Errorf("the holder is told as %+v", h)
		}
		if _, _, err := other.Acquire(context.Background(), key, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("Acquire meanwhile = %v, want ErrNotAcquired", err)
		}
		ctx, lease, err := other.Resume(context.Background(), ticket, lockmw.Policy{Name: "job"})
		if err != nil {
			t.Fatal(err)
		}
		if lease.Key() != key || !lease.Valid() || lease.Fence() <= first.Fence() {
			t.Errorf("it goes on with %v and fence %d, behind fence %d", lease, lease.Fence(), first.Fence())
		}
		if own, ok := lockmw.FromContext(ctx); !ok || own != lease {
			t.Error("its context has another lease")
		}
		isSpent(t, l, ticket, "while somebody goes on")
		if err := lease.Release(ctx); err != nil {
			t.Errorf("Release = %v", err)
		}
		isSpent(t, l, ticket, "when the work is done")
		noKeys(t, c, key, 0)
		if got := told.of(lockmw.EventReleased); len(got) != 1 || !got[0].Ticket || got[0].Err != nil {
			t.Errorf("of the issuer's release the observer hears %+v", got)
		}
		if got := toldOther.of(lockmw.EventAcquired); len(got) != 1 || !got[0].Ticket || got[0].Name != "job" {
			t.Errorf("of Resume the observer hears %+v", got)
		}
		if got := toldOther.of(lockmw.EventReleased); len(got) != 1 || got[0].Ticket {
			t.Errorf("of the last release the observer hears %+v", got)
		}
		if got := told.of(lockmw.EventRefused); len(got) != 2 || got[0].Reason != lockmw.CodeTicketSpent {
			t.Errorf("of a ticket that is spent the observer hears %+v", got)
		}
	})
}

// A lock that is taken has one of several values, by which a worker that is early knows its issuer.
func TestAWorkerThatIsEarlyWaits(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		mustRelease(t, mustAcquire(t, other, key+"other", lockmw.Policy{})) // the first command of a Locker is a script
		for _, tc := range []struct {
			what   string
			policy lockmw.Policy
			waiter bool
		}{
			{"a lock that a script has given", lockmw.Policy{}, false},
			{"a lock that SET took", lockmw.Policy{}, false},
			{"a lock that SET took, and for which somebody waits", lockmw.Policy{}, true},
			{"a lock that may pass on", lockmw.Policy{Wait: time.Minute}, true},
		} {
			first := mustAcquire(t, l, key, tc.policy)
			ticket := first.Ticket(time.Minute)
			var waits sync.WaitGroup
			if tc.waiter {
				waits.Go(func() {
					if _, lease, err := other.Acquire(context.Background(), key, lockmw.Policy{Wait: time.Minute}); err != nil {
						t.Errorf("%s: who waits: %v", tc.what, err)
					} else {
						mustRelease(t, lease)
					}
				})
				await.Until(t, "it waits", func() bool { return queued(t, c, key) == 1 })
			}
			_, _, err := other.Resume(context.Background(), ticket, lockmw.Policy{})
			if refusal, _ := lockmw.RefusalOf(err); !errors.Is(err, lockmw.ErrNotAcquired) || refusal.Code != lockmw.CodeBusy {
				t.Errorf("%s: Resume before the release = %v", tc.what, err)
			}
			resumed := make(chan *lockmw.Lease, 1)
			waits.Go(func() {
				resumed <- mustResume(t, other, ticket, lockmw.Policy{Retries: lockmw.Forever, RetryInterval: time.Millisecond})
			})
			mustRelease(t, first)
			mustRelease(t, await.Receive(t, "it goes on", resumed))
			waits.Wait()
			noKeys(t, c, key+"}", 0)
		}
	})
}

// Whatever way work fails, it gives the lock back, and its ticket is spent.
func TestFailedWorkVoidsItsTicket(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		ctx, fails := context.Background(), errors.New("it fails")
		for what, work := range map[string]func(t *testing.T) (ticket string){
			"MarkFailed": func(t *testing.T) string {
				lease := mustAcquire(t, l, key, lockmw.Policy{})
				ticket := lease.Ticket(time.Minute)
				lease.MarkFailed()
				if none := lease.Ticket(time.Minute); !errors.Is(lockmw.CheckTicket(none), lockmw.ErrTicketSpent) {
					t.Errorf("when the work has failed there is another ticket: %q", none)
				}
				mustRelease(t, lease)
				return ticket
			},
			"an error": func(t *testing.T) (ticket string) {
				err := l.WithLock(ctx, key, lockmw.Policy{}, func(ctx context.Context) error {
					lease, _ := lockmw.FromContext(ctx)
					ticket = lease.Ticket(time.Minute)
					return fails
				})
				if !errors.Is(err, fails) {
					t.Error(err)
				}
				return ticket
			},
			"a panic": func(t *testing.T) (ticket string) {
				defer func() { _ = recover() }()
				_ = l.WithLock(ctx, key, lockmw.Policy{}, func(ctx context.Context) error {
					lease, _ := lockmw.FromContext(ctx)
					ticket = lease.Ticket(time.Minute)
					panic(fails)
				})
				return ticket
			},
			"Close": func(t *testing.T) string {
				closes := testenv.Open(t, c)
				lease := mustAcquire(t, closes, key, lockmw.Policy{})
				ticket := lease.Ticket(time.Minute)
				_ = closes.Close(over())
				if err := lease.Release(ctx); !errors.Is(err, lockmw.ErrLost) {
					t.Errorf("Release behind Close = %v", err)
				}
				return ticket
			},
			"a loss": func(t *testing.T) string {
				lease := mustAcquire(t, l, key, lockmw.Policy{})
				ticket := lease.Ticket(time.Minute)
				if err := c.Del(ctx, "lock:{"+key+"}").Err(); err != nil {
					t.Fatal(err)
				}
				if err := lease.Release(ctx); !errors.Is(err, lockmw.ErrLost) {
					t.Errorf("Release = %v, want ErrLost", err)
				}
				return ticket
			},
		} {
			ticket := work(t)
			if err := lockmw.CheckTicket(ticket); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			noKeys(t, c, key, 0)
			isSpent(t, l, ticket, what)
		}
	})
}

// Those who wait in the issuer's Locker rest behind its tenure, and those elsewhere stand in Redis's queue. None of them is given the lock,
// those of the issuer's take their places, and all have their turns in the order in which they came.
func TestWhoWaitsKeepsHisPlaceBehindATicket(t *testing.T) {
	keeps := func(t *testing.T, c *redis.Client, key string, apart time.Duration) {
		t.Helper()
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		first := mustAcquire(t, l, key, lockmw.Policy{Wait: time.Minute})
		ticket := first.Ticket(time.Minute)
		turns := make(chan string, 2)
		var waiters sync.WaitGroup
		waits := func(by *lockmw.Locker, name string) {
			waiters.Go(func() {
				_, lease, err := by.Acquire(context.Background(), key, lockmw.Policy{Wait: time.Minute})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				turns <- name
				mustRelease(t, lease)
			})
			await.Until(t, name+" waits", func() bool { return lockmw.Waiting(by, key) == 1 })
		}
		waits(l, "of the issuer's Locker")
		time.Sleep(apart) // a place is told by how long one has waited, and the command that tells it takes a moment
		waits(other, "of another one")
		await.Until(t, "the other one has its place", func() bool { return queued(t, c, key) >= 1 })
		mustRelease(t, first)
		await.Until(t, "both have places", func() bool { return queued(t, c, key) == 2 })
		if h := handedOn(t, other, key); h.Instance != l.Instance() {
			t.Errorf("the holder is %+v", h)
		}
		lease := mustResume(t, other, ticket, lockmw.Policy{Wait: time.Minute})
		select {
		case name := <-turns:
			t.Errorf("the one %s has the lock while the work goes on", name)
		default:
		}
		mustRelease(t, lease)
		for _, want := range []string{"of the issuer's Locker", "of another one"} {
			if got := await.Receive(t, "a turn", turns); got != want {
				t.Errorf("the one %s has the lock, want the one %s", got, want)
			}
		}
		waiters.Wait()
		noKeys(t, c, key, 2*time.Second) // in a bubble no time has passed since the grant, so its fence is remembered
	}
	t.Run("in a bubble", func(t *testing.T) {
		inBubble(t, func(t *testing.T, s *redistest.Mini) {
			keeps(t, s.Client(t), redistest.Prefix(t), 100*time.Millisecond)
		})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		keeps(t, redistest.Shared(t).Client(t), redistest.Prefix(t), 2*time.Second) // longer than a busy machine takes for that command
	})
}

// Leases that follow one another without a command have fences of which Redis does not know.
func TestAFenceBehindATicketIsHigherThanThoseOfThePasses(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		lease := mustAcquire(t, l, key, lockmw.Policy{Wait: time.Minute})
		next := make(chan *lockmw.Lease)
		go func() {
			_, lease, _ := l.Acquire(context.Background(), key, lockmw.Policy{Wait: time.Minute})
			next <- lease
		}()
		await.Until(t, "it waits", func() bool { return lockmw.Waiting(l, key) == 1 })
		mustRelease(t, lease)
		last := <-next
		ticket := last.Ticket(time.Minute)
		if _, _, err := other.Resume(context.Background(), ticket, lockmw.Policy{}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("Resume before the release = %v", err)
		}
		mustRelease(t, last)
		value := c.Get(context.Background(), "lock:{"+key+"}").Val()
		resumed := mustResume(t, other, ticket, lockmw.Policy{})
		if resumed.Fence() <= last.Fence() || last.Fence() <= lease.Fence() {
			t.Errorf("the fences are %d, %d and %d (%s)", lease.Fence(), last.Fence(), resumed.Fence(), value)
		}
		mustRelease(t, resumed)
	})
}

// A reply that is lost is no matter: each swap is sent again, and does the same.
func TestATicketWhoseRepliesAreLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c := s.Client(t)
		goesOn(t, c)
		for _, script := range []string{"handon", "resume"} {
			key := redistest.Prefix(t)
			client, proxy := proxied(t, s)
			l, other := testenv.Open(t, client), testenv.Open(t, c)
			first := mustAcquire(t, l, key, lockmw.Policy{})
			ticket := first.Ticket(time.Minute)
			proxy.DropReplies(1, faultproxy.MatchScript(redisstore.Scripts()[script]))
			mustRelease(t, first)
			resumed := mustResume(t, l, ticket, lockmw.Policy{Wait: 5 * time.Second})
			if proxy.Dropped() != 1 {
				t.Errorf("%s: %d replies were lost", script, proxy.Dropped())
			}
			if !resumed.Valid() || resumed.Fence() <= first.Fence() {
				t.Errorf("%s: it goes on with %v, behind fence %d", script, resumed, first.Fence())
			}
			isSpent(t, other, ticket, script)
			mustRelease(t, resumed)
			noKeys(t, c, key, 2*time.Second)
		}
	})
}

// A release that never has a reply does not know whether the lock was handed on. It says so, and leaves the lock neither to itself nor
// to the ticket.
func TestATicketInDoubtIsTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, c)
		goesOn(t, c)
		first := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := first.Ticket(time.Minute)
		proxy.DropReplies(1000, faultproxy.MatchScript(redisstore.Scripts()["handon"]))
		err := first.Release(context.Background())
		if !errors.Is(err, lockmw.ErrUnavailable) || !strings.Contains(err.Error(), "do not hand the ticket on") {
			t.Errorf("Release = %v, want ErrUnavailable that says so", err)
		}
		noKeys(t, c, key, 2*time.Second)
		isSpent(t, other, ticket, "after a release in doubt")
	})
}

// A Resume whose command is carried out after it has given up leaves nothing.
func TestAResumeThatGivesUpLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, c), testenv.Open(t, client)
		goesOn(t, c)
		first := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := first.Ticket(time.Minute)
		mustRelease(t, first)
		proxy.DropReplies(1000, faultproxy.MatchScript(redisstore.Scripts()["resume"]))
		if _, _, err := other.Resume(context.Background(), ticket, lockmw.Policy{Wait: 3 * time.Second}); !errors.Is(err, lockmw.ErrUnavailable) && !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("Resume = %v", err)
		}
		noKeys(t, c, key, 2*time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		waits := mustAcquire(t, l, key, lockmw.Policy{})
		early := waits.Ticket(time.Minute)
		if _, _, err := l.Resume(ctx, early, lockmw.Policy{Retries: lockmw.Forever}); !errors.Is(err, lockmw.ErrNotAcquired) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Resume that its context ended = %v", err)
		}
		mustRelease(t, waits)
		mustRelease(t, mustResume(t, l, early, lockmw.Policy{}))
		noKeys(t, c, key, 2*time.Second) // no time has passed since the grant, so its fence is remembered
	})
}

func TestATicketEndsByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, client), testenv.Open(t, c)
		first := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := first.Ticket(10 * time.Minute)
		mustRelease(t, first)
		time.Sleep(10*time.Minute - time.Second) // nobody renews it
		handedOn(t, other, key)
		time.Sleep(2 * time.Second)
		isSpent(t, other, ticket, "when its time is over")

		// An issuer that is cut off hands nothing on, and a worker that waits for it is told when the TTL is over.
		dies := mustAcquire(t, l, key, lockmw.Policy{TTL: 10 * time.Second})
		ticket = dies.Ticket(10 * time.Minute)
		proxy.BlackHole(faultproxy.Both)
		began := time.Now()
		_, _, err := other.Resume(context.Background(), ticket, lockmw.Policy{Wait: time.Minute})
		if waited := time.Since(began); !errors.Is(err, lockmw.ErrTicketSpent) || waited > 11*time.Second || waited < 5*time.Second {
			t.Errorf("Resume behind an issuer that has died = %v, after %v", err, waited)
		}
	})
}

func TestDiscardLetsTheLockGo(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		var told events
		l, other := testenv.Open(t, c), testenv.Open(t, c, told.option())
		ctx := context.Background()
		discard := func(by *lockmw.Locker, ticket, when string) {
			t.Helper()
			if err := by.Discard(ctx, ticket); err != nil {
				t.Errorf("%s: Discard = %v", when, err)
			}
		}
		first := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := first.Ticket(time.Minute)
		mustRelease(t, first)
		discard(other, ticket, "when it was handed on")
		noKeys(t, c, key, 0)
		isSpent(t, l, ticket, "when it was discarded")
		discard(other, ticket, "again")

		first = mustAcquire(t, l, key, lockmw.Policy{})
		ticket = first.Ticket(time.Minute)
		discard(l, ticket, "at the issuer's, before the release")
		mustRelease(t, first)
		noKeys(t, c, key, 0)
		isSpent(t, l, ticket, "when its issuer has discarded it")

		first = mustAcquire(t, l, key, lockmw.Policy{})
		ticket = first.Ticket(time.Minute)
		short, cancel := context.WithCancel(ctx)
		cancel()
		if err := other.Discard(short, ticket); !errors.Is(err, context.Canceled) {
			t.Errorf("Discard with a context that has ended = %v", err)
		}
		mustRelease(t, first)
		resumed := mustResume(t, l, ticket, lockmw.Policy{})
		discard(other, ticket, "when somebody goes on")
		if !resumed.Valid() || resumed.Release(ctx) != nil {
			t.Error("Discard has taken the lock from whoever has gone on")
		}
		if got := told.of(lockmw.EventAcquired); len(got) > 0 {
			t.Errorf("the observer hears of Discard: %+v", got)
		}
	})
}

// A worker that knows before the issuer is done that it will not go on waits for the release.
// A worker that waits learns soon, whatever the policy's interval, that the lock was handed on: or it would lie idle until the ticket's time is over.
func TestAWorkerThatWaitsWithALongInterval(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		first := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := first.Ticket(10 * time.Second)
		handsOn := time.AfterFunc(time.Second, func() {
			if err := first.Release(context.Background()); err != nil {
				t.Error(err)
			}
		})
		defer handsOn.Stop()
		began := time.Now()
		lease := mustResume(t, other, ticket, lockmw.Policy{Wait: 10 * time.Minute, RetryInterval: time.Minute})
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the worker goes on after %v", took)
		}
		mustRelease(t, lease)
	})
}

// So is an outage that begins while it waits.
func TestAWorkerThatWaitsIsToldOfAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		first := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := first.Ticket(time.Hour)
		var away time.Time
		breaks := time.AfterFunc(2410*time.Millisecond, func() { // it has just asked, and asks again in 0.8 s
			away = time.Now()
			s.SetError("LOADING Redis is loading the dataset in memory")
		})
		defer breaks.Stop()
		_, _, err := other.Resume(context.Background(), ticket, lockmw.Policy{Wait: 10 * time.Minute, RetryInterval: time.Minute})
		if took := time.Since(away); !errors.Is(err, lockmw.ErrUnavailable) || took > 2600*time.Millisecond {
			t.Errorf("Resume = %v, %v after Redis went away", err, took)
		}
		s.SetError("")
		mustRelease(t, first)
	})
}

func TestDiscardWaitsForTheIssuer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		first := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := first.Ticket(time.Hour)
		done := make(chan error, 1)
		go func() { done <- other.Discard(context.Background(), ticket) }()
		time.Sleep(2 * time.Minute) // the issuer's work: longer than a TTL
		select {
		case err := <-done:
			t.Fatalf("Discard = %v while the issuer is at work", err)
		default:
		}
		mustRelease(t, first)
		if err := <-done; err != nil {
			t.Errorf("Discard = %v", err)
		}
		noKeys(t, c, key, 2*time.Second) // no time has passed since the grant, so its fence is remembered
		isSpent(t, l, ticket, "when it was discarded early")
	})
}

// A process that dies in Discard keeps nobody out for long.
func TestADiscardThatBreaksOffKeepsTheLockForAMoment(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		goesOn(t, c)
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		mustRelease(t, mustAcquire(t, other, key+"before", lockmw.Policy{}))
		lease := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := lease.Ticket(time.Hour)
		mustRelease(t, lease)
		var scripts atomic.Int64
		s.Server().SetPreHook(func(peer *server.Peer, cmd string, _ ...string) bool {
			if cmd != "EVALSHA" || scripts.Add(1) == 1 { // that takes the lock from the ticket
				return false
			}
			peer.WriteError("BUSY Redis is busy running a script")
			return true
		})
		if err := other.Discard(context.Background(), ticket); !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("Discard = %v, want that the lock is not given back", err)
		}
		if left := c.PTTL(context.Background(), "lock:{"+key+"}").Val(); left <= 0 || left > 5*time.Second {
			t.Errorf("the lock is kept for %v", left)
		}
		s.Server().SetPreHook(nil)
	})
}

// Who rests in the issuer's Locker behind its lease is woken by the release: Redis is to know it at once, so that nobody who comes later is before it.
func TestWhoRestsIsWokenWhenTheLockIsHandedOn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		l := testenv.Open(t, c)
		first := mustAcquire(t, l, key, lockmw.Policy{Wait: time.Minute})
		ticket := first.Ticket(time.Hour)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, _ = l.Acquire(ctx, key, lockmw.Policy{Wait: time.Minute})
		}()
		synctest.Wait()
		if n := queued(t, c, key); n != 0 || lockmw.Waiting(l, key) != 1 {
			t.Fatalf("%d wait, %d of them with a place in Redis; want one that rests", lockmw.Waiting(l, key), n)
		}
		mustRelease(t, first)
		time.Sleep(20 * time.Millisecond)
		if n := queued(t, c, key); n != 1 {
			t.Errorf("%d have a place, 20 ms after the lock was handed on", n)
		}
		cancel()
		<-done
		if err := l.Discard(context.Background(), ticket); err != nil {
			t.Error(err)
		}
	})
}

// While Redis is silent nobody may be told that the ticket stays good: a command that was not answered may take the lock, and is undone then.
func TestAResumeThatWasNotAnsweredDoesNotSayThatTheTicketStaysGood(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		for _, wait := range []time.Duration{150 * time.Millisecond, 400 * time.Millisecond, 3 * time.Second} {
			client, proxy := proxied(t, s)
			goesOn(t, client)
			l, other := testenv.Open(t, s.Client(t)), testenv.Open(t, client)
			key := redistest.Prefix(t)
			mustRelease(t, mustAcquire(t, other, key, lockmw.Policy{}))
			lease := mustAcquire(t, l, key, lockmw.Policy{})
			ticket := lease.Ticket(time.Hour)
			mustRelease(t, lease)
			proxy.BlackHole(faultproxy.Both)
			for range 2 { // the second finds that Redis is suspected, and asks nothing
				if _, _, err := other.Resume(context.Background(), ticket, lockmw.Policy{Wait: wait}); !errors.Is(err, lockmw.ErrUnavailable) {
					t.Errorf("Wait %v: Resume = %v, want ErrUnavailable", wait, err)
				}
			}
			proxy.Heal()
		}
	})
}

// The answer to a hand-on counts, also where no replica confirms it: the lock was handed on.
func TestATicketIsHandedOnWithoutItsReplica(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	master, replica := replicated(t)
	l := testenv.Open(t, master.Client(t), lockmw.WithReplicaAcks(1, 500*time.Millisecond))
	lease := mustAcquire(t, l, "k", lockmw.Policy{Wait: 10 * time.Second})
	ticket := lease.Ticket(time.Minute)
	if err := replica.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Errorf("Release = %v", err)
	}
	if err := replica.Cont(); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, mustResume(t, l, ticket, lockmw.Policy{Wait: 10 * time.Second}))
}

// A ticket knows the whole name of its lock, and not which part of it is the prefix. Who discards it may be at work under that lock.
func TestDiscardOfALongName(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	l := testenv.Open(t, c)
	p := lockmw.Policy{Prefix: strings.Repeat("p", 200), Wait: 10 * time.Second}
	key := strings.Repeat("k", 400)
	lease := mustAcquire(t, l, key, p)
	ticket := lease.Ticket(time.Hour)
	mustRelease(t, lease)
	ctx, resumed, err := l.Resume(context.Background(), ticket, lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Discard(ctx, ticket); err != nil {
		t.Errorf("under the lock that is resumed: %v", err)
	}
	mustRelease(t, resumed)
	lease = mustAcquire(t, l, key, p)
	ticket = lease.Ticket(time.Hour)
	mustRelease(t, lease)
	if err := l.Discard(context.Background(), ticket); err != nil {
		t.Error(err)
	}
	mustRelease(t, mustAcquire(t, l, key, p))
}

// While a Cluster moves the slot, a lock is handed on or it is not, but it is never free: a node refuses to set a key that it has deleted.
func TestATicketInASlotThatMoves(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	client := c.Client(t)
	l, other := testenv.Open(t, client), testenv.Open(t, client)
	for i := range 2 { // the second time the script is known
		key := redistest.Prefix(t) + []string{"first", "second"}[i]
		lease := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := lease.Ticket(time.Minute)
		end := moves(t, c, "lock:{"+key+"}")
		mustRelease(t, lease)
		end()
		handedOn(t, other, key)
		mustRelease(t, mustResume(t, other, ticket, lockmw.Policy{Wait: 10 * time.Second}))
	}
}

// A ticket that is void says so while the next one works to whom the issuer's process would have passed the lock on by itself.
func TestAVoidTicketIsSpentWhileTheNextOneWorks(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		issuer, other := testenv.Open(t, c), testenv.Open(t, c)
		p := lockmw.Policy{Wait: time.Minute}
		mustRelease(t, mustAcquire(t, issuer, key+"warm", p))
		await.Until(t, "the Locker is subscribed", func() bool { return issuer.Stats().Subscribed })
		for what, voids := range map[string]func(lease *lockmw.Lease, ticket string) error{
			"its work failed":  func(lease *lockmw.Lease, _ string) error { lease.MarkFailed(); return nil },
			"it was discarded": func(_ *lockmw.Lease, ticket string) error { return issuer.Discard(context.Background(), ticket) },
		} {
			lease := mustAcquire(t, issuer, key, p)
			got := make(chan *lockmw.Lease)
			go func() { got <- mustAcquire(t, issuer, key, p) }()
			await.Until(t, "the next one waits", func() bool { return seam.Waiting(issuer, key) == 1 })
			ticket := lease.Ticket(time.Minute)
			if err := voids(lease, ticket); err != nil {
				t.Error(err)
			}
			mustRelease(t, lease)
			next := <-got
			isSpent(t, other, ticket, what)
			if err := other.Discard(context.Background(), ticket); err != nil {
				t.Errorf("%s: Discard = %v", what, err)
			}
			mustRelease(t, next)
		}
	})
}
