package lockmw_test

import (
	"context"
	"encoding/base64"
	"errors"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// noTicketFor wants what a lease has returned to say why it is no ticket.
func noTicketFor(tb testing.TB, l *lockmw.Locker, ticket, why string, without bool) {
	tb.Helper()
	err := lockmw.CheckTicket(ticket)
	if !errors.Is(err, lockmw.ErrInvalidTicket) || errors.Is(err, lockmw.ErrTicketSpent) != without || !strings.Contains(err.Error(), why) {
		tb.Errorf("%s: CheckTicket = %v", why, err)
	}
	var refusal *lockmw.AcquireError
	if _, _, err := l.Resume(context.Background(), ticket, lockmw.Policy{}); !errors.As(err, &refusal) || !errors.Is(err, lockmw.ErrInvalidTicket) || refusal.Attempts > 0 {
		tb.Errorf("%s: Resume = %v", why, err)
	}
	if err := l.Discard(context.Background(), ticket); (err == nil) != without {
		tb.Errorf("%s: Discard = %v", why, err)
	}
}

func TestLeasesThatCannotBeHandedOn(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		ctx := context.Background()
		var log logBuffer
		l := testenv.Open(t, c, log.option())
		for why, p := range map[string]lockmw.Policy{
			"MinHold":      {MinHold: 2 * time.Millisecond},
			"Permits":      {Permits: 2},
			"Shared":       {Mode: lockmw.Shared},
			"AsyncRelease": {AsyncRelease: true, Wait: time.Second},
		} {
			p.Name = why
			lease := mustAcquire(t, l, key, p)
			ticket := lease.Ticket(time.Minute)
			mustRelease(t, lease)
			noTicketFor(t, l, ticket, why, false)
			await.Until(t, "the log says so of "+why, func() bool {
				return slices.ContainsFunc(log.lines(), func(line string) bool {
					return strings.Contains(line, "level=ERROR") && strings.Contains(line, "cannot be handed on") && strings.Contains(line, "name="+why)
				})
			})
			noKeys(t, c, key, time.Second)
		}
		outer := mustAcquire(t, l, key, lockmw.Policy{})
		for why, lasts := range map[string]time.Duration{"unit": 600, "-1s": -time.Second, "ten years": 20 * 365 * 24 * time.Hour} {
			noTicketFor(t, l, outer.Ticket(lasts), why, false)
		}
		_, joined, err := l.Acquire(outer.Context(), key, lockmw.Policy{Reentrant: true})
		if err != nil {
			t.Fatal(err)
		}
		noTicketFor(t, l, joined.Ticket(time.Minute), "joined", false)
		mustRelease(t, joined)
		mustRelease(t, outer)
		noTicketFor(t, l, outer.Ticket(time.Minute), "ended", true)
		_, several, err := l.AcquireAll(ctx, []string{key + "a", key + "b"}, lockmw.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		noTicketFor(t, l, several.Ticket(time.Minute), "several keys", false)
		mustRelease(t, several)
		var none *lockmw.Lease
		noTicketFor(t, l, none.Ticket(time.Minute), "no lease", true)
		_, shadowed, err := l.Acquire(ctx, key, lockmw.Policy{Shadow: true})
		if err != nil {
			t.Fatal(err)
		}
		noTicketFor(t, l, shadowed.Ticket(time.Minute), "in shadow", true)
		mustRelease(t, shadowed)
		_, _, err = lockmw.Do(ctx, l, key, lockmw.Flight{}, func(ctx context.Context) (int, error) {
			lease, _ := lockmw.FromContext(ctx)
			noTicketFor(t, l, lease.Ticket(time.Minute), "Do", false)
			return 0, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A nested call with MinHold joins a lease that has a ticket: the key has to stay taken for that long, and no longer.
func TestMinHoldOfANestedCallVoidsTheTicket(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		l := testenv.Open(t, c)
		outer := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := outer.Ticket(time.Hour)
		_, joined, err := l.Acquire(outer.Context(), key, lockmw.Policy{Reentrant: true, MinHold: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, joined)
		mustRelease(t, outer)
		isSpent(t, l, ticket, "beside a MinHold")
		time.Sleep(time.Minute + time.Second)
		noKeys(t, c, key, 0)
	})
}

// ticketOf is a ticket that says this.
func ticketOf(said string) string {
	return "lockmw1." + base64.RawURLEncoding.EncodeToString([]byte(said)) + "." + strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(said))), 36)
}

func TestResumeThatCannotBe(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		ctx := context.Background()
		l, elsewhere := testenv.Open(t, c), testenv.Open(t, c, lockmw.WithNamespace("elsewhere"))
		p := lockmw.Policy{Prefix: "a:"}
		lease := mustAcquire(t, l, key, p)
		ticket := lease.Ticket(time.Minute)
		for why, tc := range map[string]struct {
			by     *lockmw.Locker
			ticket string
			policy lockmw.Policy
			ctx    context.Context
			is     error
		}{
			"it does not begin":        {ticket: key, is: lockmw.ErrInvalidTicket},
			"it has 6015 bytes":        {ticket: "lockmw0.no ticket: " + strings.Repeat("word ", 1199) + "!", is: lockmw.ErrInvalidTicket},
			"it has 8 bytes":           {ticket: "lockmw1.", is: lockmw.ErrInvalidTicket},
			"not all of it":            {ticket: ticket[:len(ticket)-1], is: lockmw.ErrInvalidTicket},
			"or it was changed":        {ticket: ticket[:20] + "A" + ticket[21:], is: lockmw.ErrInvalidTicket},
			"it has no token":          {ticket: ticketOf("lock\na:" + key + "\n\n1"), is: lockmw.ErrInvalidTicket},
			`namespace "lock"`:         {by: elsewhere, ticket: ticket, is: lockmw.ErrInvalidTicket},
			"which does not begin":     {ticket: ticket, policy: lockmw.Policy{Prefix: "b:"}, is: lockmw.ErrInvalidPolicy},
			"Mode":                     {ticket: ticket, policy: lockmw.Policy{Mode: lockmw.Shared}, is: lockmw.ErrInvalidPolicy},
			"or Permits":               {ticket: ticket, policy: lockmw.Policy{Permits: 1}, is: lockmw.ErrInvalidPolicy},
			"MinHold":                  {ticket: ticket, policy: lockmw.Policy{MinHold: time.Second}, is: lockmw.ErrInvalidPolicy},
			"Reentrant":                {ticket: ticket, policy: lockmw.Policy{Reentrant: true}, is: lockmw.ErrInvalidPolicy},
			"FailOpen":                 {ticket: ticket, policy: lockmw.Policy{FailOpen: true}, is: lockmw.ErrInvalidPolicy},
			"Shadow":                   {ticket: ticket, policy: lockmw.Policy{Shadow: true}, is: lockmw.ErrInvalidPolicy},
			"TTL":                      {ticket: ticket, policy: lockmw.Policy{TTL: time.Millisecond}, is: lockmw.ErrInvalidPolicy},
			"already held":             {ticket: ticket, ctx: lease.Context(), is: lockmw.ErrReentrant},
			"context canceled":         {ticket: ticket, ctx: over(), is: lockmw.ErrNotAcquired},
			"has not handed it on yet": {ticket: ticket, policy: p, is: lockmw.ErrNotAcquired},
		} {
			if tc.by == nil {
				tc.by = l
			}
			if tc.ctx == nil {
				tc.ctx = ctx
			}
			var refusal *lockmw.AcquireError
			if got, lease, err := tc.by.Resume(tc.ctx, tc.ticket, tc.policy); !errors.Is(err, tc.is) || !strings.Contains(err.Error(), why) ||
				!errors.As(err, &refusal) || lease != nil || got != tc.ctx {
				t.Errorf("Resume = %v, want that %q", err, why)
			}
		}
		if err := l.Discard(ctx, ticketOf("lock\na:"+key+"\n\n1")); !errors.Is(err, lockmw.ErrInvalidTicket) {
			t.Errorf("Discard of a ticket without a token = %v", err)
		}
		if err := elsewhere.Discard(ctx, ticket); !errors.Is(err, lockmw.ErrInvalidTicket) {
			t.Errorf("Discard in another namespace = %v", err)
		}
		mustRelease(t, lease)
		resumed := mustResume(t, l, ticket, p)
		if resumed.Key() != "a:"+key {
			t.Errorf("it goes on with %q", resumed.Key())
		}
		mustRelease(t, resumed)
		closed := testenv.Open(t, c)
		if err := closed.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if _, _, err := closed.Resume(ctx, ticket, p); !errors.Is(err, lockmw.ErrClosed) {
			t.Errorf("Resume by a Locker that is closed = %v", err)
		}
	})
}

// A key may be any bytes, and so may a ticket's be.
func TestATicketCarriesAnyKey(t *testing.T) {
	each(t, func(t *testing.T, c *redis.Client, key string) {
		l := testenv.Open(t, c)
		key += "ä \xff/+=:." + strings.Repeat("k", 300)
		lease := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := lease.Ticket(time.Minute)
		if strings.Trim(ticket, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
			t.Errorf("the ticket has other characters: %q", ticket)
		}
		mustRelease(t, lease)
		lease = mustResume(t, l, ticket, lockmw.Policy{})
		if lease.Key() != key {
			t.Errorf("it goes on with %q, want %q", lease.Key(), key)
		}
		mustRelease(t, lease)
	})
}

// A lock that was handed on is not renewed. Whoever is refused is not told to come back at its end, as where its holder has crashed.
func TestRetryAfterBehindATicket(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		l, other := testenv.Open(t, c), testenv.Open(t, c)
		lease := mustAcquire(t, l, key, lockmw.Policy{})
		_ = lease.Ticket(10 * time.Second)
		mustRelease(t, lease)
		var refusal *lockmw.AcquireError
		if _, _, err := other.Acquire(context.Background(), key, lockmw.Policy{}); !errors.As(err, &refusal) || refusal.RetryAfter != time.Second {
			t.Errorf("Acquire = %v, to be asked again in %v", err, refusal.RetryAfter)
		}
		if h := refusal.Holder; h == nil || !h.HandedOn || h.Instance != l.Instance() {
			t.Errorf("the holder is %+v", h)
		}
	})
}

// Discard has taken the lock from the ticket, and somebody deletes it before it is given back: the ticket gives nobody the lock any more, which is
// what was asked for.
func TestDiscardOfALockThatIsDeletedMeanwhile(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		c, key := s.Client(t), redistest.Prefix(t)
		client, proxy := proxied(t, s)
		l, other := testenv.Open(t, c), testenv.Open(t, client)
		goesOn(t, client)
		lease := mustAcquire(t, l, key, lockmw.Policy{})
		ticket := lease.Ticket(time.Minute)
		mustRelease(t, lease)
		proxy.Delay(faultproxy.ToClient, 200*time.Millisecond)
		name := keysOf(t, c, key)[0]
		handedOn := c.Get(context.Background(), name).Val()
		var deletes sync.WaitGroup
		deletes.Go(func() {
			for c.Get(context.Background(), name).Val() == handedOn {
				time.Sleep(10 * time.Millisecond)
			}
			c.Del(context.Background(), name)
		})
		if err := other.Discard(context.Background(), ticket); err != nil {
			t.Errorf("Discard = %v", err)
		}
		deletes.Wait()
		isSpent(t, l, ticket, "when it was discarded")
	})
}

// Work that runs without its lock has none to hand on. Its job takes the lock by itself, so the log has nothing to say.
func TestWorkWithoutItsLockHasNoTicket(t *testing.T) {
	inFile(t, `{"shop/pay": {"off": true}}`, func(t *testing.T, _ *settingsDir, l *lockmw.Locker, log *testenv.Journal, _ *events) {
		off := mustAcquire(t, l, "k", lockmw.Policy{Name: "pay"})
		noTicketFor(t, l, off.Ticket(time.Minute), "a setting says off", true)
		mustRelease(t, off)
		if n := log.Count("cannot be handed on"); n > 0 {
			t.Errorf("%d lines say that it cannot be handed on, want none", n)
		}
	}, lockmw.AllowOff())
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		var log logBuffer
		l := testenv.Open(t, s.Client(t), log.option())
		s.SetError(loading)
		open := mustAcquire(t, l, "k", lockmw.Policy{FailOpen: true})
		ticket := open.Ticket(time.Minute)
		mustRelease(t, open)
		noTicketFor(t, l, ticket, "FailOpen", true)
		s.SetError("")
		time.Sleep(2 * time.Second) // it is known to be back
		mustRelease(t, mustAcquire(t, l, "k", lockmw.Policy{}))
		noTicketFor(t, l, ticket, "FailOpen", true)
		if said := strings.Join(log.lines(), "\n"); strings.Contains(said, "cannot be handed on") {
			t.Errorf("the log says that it cannot be handed on:\n%s", said)
		}
	})
}

// A quorum issues no tickets, and takes none that a Locker over one of its nodes has issued: that one stays good.
func TestAQuorumHandsNoLockOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	one, two, three := redistest.Embedded(t), redistest.Embedded(t), redistest.Embedded(t)
	quorum, err := lockmw.NewQuorum([]redis.UniversalClient{one.Client(t), two.Client(t), three.Client(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = quorum.Close(over()) })
	lease := mustAcquire(t, quorum, "k", lockmw.Policy{Wait: 20 * time.Second}) // through a busy machine's silence
	ticket := lease.Ticket(time.Minute)
	mustRelease(t, lease)
	noTicketFor(t, quorum, ticket, "a quorum hands no lock on", false)

	single := testenv.Open(t, one.Client(t))
	lease = mustAcquire(t, single, "single", lockmw.Policy{})
	ticket = lease.Ticket(time.Minute)
	mustRelease(t, lease)
	var refusal *lockmw.AcquireError
	if _, lease, err := quorum.Resume(ctx, ticket, lockmw.Policy{}); lease != nil || !errors.Is(err, lockmw.ErrInvalidPolicy) ||
		!strings.Contains(err.Error(), "a quorum hands no lock on") || !errors.As(err, &refusal) || refusal.Attempts > 0 {
		t.Errorf("Resume = %v, want an error that says why", err)
	}
	if err := quorum.Discard(ctx, ticket); !errors.Is(err, lockmw.ErrInvalidPolicy) || !strings.Contains(err.Error(), "a quorum hands no lock on") {
		t.Errorf("Discard = %v, want an error that says why", err)
	}
	mustRelease(t, mustResume(t, single, ticket, lockmw.Policy{}))
}
