package fence_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A bench is a database and the Locker of one process.
type bench struct {
	*testing.T
	redis *redistest.Mini
	locks *lockmw.Locker
	told  chan lockmw.Event
	log   chan string
	data  *fake
	db    *sql.DB
}

func newBench(t *testing.T, opts ...lockmw.Option) *bench {
	t.Helper()
	b := &bench{T: t, redis: redistest.Embedded(t), told: make(chan lockmw.Event, 100), log: make(chan string, 100), data: newFake()}
	b.locks = b.locker(append(opts, lockmw.WithLogger(slog.New(slog.NewTextHandler(b, nil))), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == lockmw.EventStale || e.Kind == lockmw.EventUnfenced {
			b.told <- e
		}
	}))...)
	b.db = sql.OpenDB(b.data)
	t.Cleanup(func() { b.db.Close() })
	return b
}

// Write takes a line of the log.
func (b *bench) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("a write was refused")) {
		b.log <- string(line)
	}
	return len(line), nil
}

func (b *bench) locker(opts ...lockmw.Option) *lockmw.Locker {
	b.Helper()
	return testenv.Open(b, b.redis.Client(b), opts...)
}

func (b *bench) acquire(key string, p lockmw.Policy) *lockmw.Lease {
	b.Helper()
	lease, err := testenv.AskedAgain(b.Context(), b.locks, key, p, ended)
	if err != nil {
		b.Fatal(err)
	}
	return lease
}

// ended says that a server has ended just when a connection was being set up: that is no outage yet, so nothing fails open.
func ended(err error, _ time.Time) bool { return errors.Is(err, lockmw.ErrUnavailable) }

func (b *bench) acquireAll(p lockmw.Policy, keys ...string) *lockmw.Lease {
	b.Helper()
	var lease *lockmw.Lease
	err := testenv.Answered(func() (err error) {
		_, lease, err = b.locks.AcquireAll(b.Context(), keys, p)
		return err
	}, func(err error) bool { return ended(err, time.Time{}) })
	if err != nil {
		b.Fatal(err)
	}
	return lease
}

// guard does so in a transaction of its own.
func (b *bench) guard(d fence.Dialect, leases ...*lockmw.Lease) error {
	b.Helper()
	tx, err := b.db.Begin()
	if err != nil {
		b.Fatal(err)
	}
	defer tx.Rollback()
	return d.Guard(b.Context(), tx, leases...)
}

func (b *bench) wants(want ...string) {
	b.Helper()
	if got := b.data.statements(); got != strings.Join(want, "\n") {
		b.Errorf("asked was\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func (b *bench) wantsTold(kind lockmw.EventKind) lockmw.Event {
	b.Helper()
	select {
	case e := <-b.told:
		if e.Kind != kind {
			b.Errorf("told is %v, want %v", e.Kind, kind)
		}
		return e
	case <-time.After(10 * time.Second):
		b.Fatalf("nothing is told of %v", kind)
		return lockmw.Event{}
	}
}

var dialects = map[string]fence.Dialect{"PostgreSQL": fence.Postgres, "MySQL": fence.MySQL, "SQLite": fence.SQLite}

func eachDialect(t *testing.T, test func(b *bench, d fence.Dialect)) {
	t.Helper()
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.data.mysql = name == "MySQL"
			test(b, d)
		})
	}
}

func TestGuardIsOneStatementForEachKey(t *testing.T) {
	b := newBench(t, lockmw.WithNamespace("shop"))
	lease := b.acquire("42", lockmw.Policy{Prefix: "order:"})
	for _, d := range []fence.Dialect{fence.Postgres, fence.SQLite} {
		for range 2 { // the second is of the same holder
			if err := b.guard(d, lease); err != nil {
				t.Error(err)
			}
			b.wants(fmt.Sprintf(`INSERT INTO "shop:{order:42}" %d`, lease.Fence()))
		}
	}
}

func TestGuardOfMySQLReadsTheFenceBack(t *testing.T) {
	b := newBench(t)
	b.data.mysql = true
	lease := b.acquire("42", lockmw.Policy{Prefix: "order:"})
	for range 2 {
		if err := b.guard(fence.MySQL, lease); err != nil {
			t.Error(err)
		}
		b.wants(fmt.Sprintf(`INSERT INTO "lock:{order:42}" %d %[1]d`, lease.Fence()), `SELECT fence "lock:{order:42}"`)
	}
}

func TestAnEarlierHolderIsStale(t *testing.T) {
	eachDialect(t, func(b *bench, d fence.Dialect) {
		early := b.acquire("42", lockmw.Policy{Prefix: "order:", Name: "pay"})
		const highest = "lock:{order:42}"
		b.data.fences[highest] = early.Fence() + 1_500_000
		err := b.guard(d, early)
		var stale *fence.StaleError
		if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) {
			b.Fatalf("err = %v, want ErrStale", err)
		}
		if want := (fence.StaleError{Key: "order:42", RedisKey: highest, Fence: early.Fence(), Highest: early.Fence() + 1_500_000}); *stale != want {
			b.Errorf("it says %+v, want %+v", *stale, want)
		}
		if got, want := err.Error(), `fence: stale: a later holder of "order:42" has written, 1.5s after this one: roll back`; got != want {
			b.Errorf("err = %q, want %q", got, want)
		}
		if b.data.fences[highest] != stale.Highest {
			b.Errorf("the fence is %d, want it to stay %d", b.data.fences[highest], stale.Highest)
		}
		if e := b.wantsTold(lockmw.EventStale); e.Key != "order:42" || e.Name != "pay" || !errors.Is(e.Err, fence.ErrStale) {
			b.Errorf("told is %+v", e)
		}
		select {
		case line := <-b.log:
			if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "name=pay key=order:42") || !strings.Contains(line, "1.5s after this one") {
				b.Errorf("the log says %s", line)
			}
		case <-time.After(10 * time.Second):
			b.Error("the log says nothing of it")
		}
	})
}

// The holder after a Redis that has lost everything has a higher fence, and the one before is refused.
func TestAHolderWhoseLockRedisHasForgottenIsStale(t *testing.T) {
	eachDialect(t, func(b *bench, d fence.Dialect) {
		early := b.acquire("42", lockmw.Policy{})
		b.redis.FlushAll()
		late := b.acquire("42", lockmw.Policy{})
		if err := b.guard(d, early); err != nil {
			b.Errorf("before the later holder: %v", err)
		}
		if err := b.guard(d, late); err != nil {
			b.Errorf("the later holder: %v", err)
		}
		if err := b.guard(d, early); !errors.Is(err, fence.ErrStale) || !early.Valid() {
			b.Errorf("err = %v, want ErrStale of a lease that thinks it is valid", err)
		}
	})
}

func TestSeveralKeysAreGuardedInOneOrder(t *testing.T) {
	b := newBench(t)
	ba := b.acquireAll(lockmw.Policy{}, "b", "d")
	c := b.acquire("c", lockmw.Policy{})
	a := b.acquire("a", lockmw.Policy{})
	want := []string{
		fmt.Sprintf(`INSERT INTO "lock:{a}" %d`, a.Fence()), fmt.Sprintf(`INSERT INTO "lock:{b}" %d`, ba.FenceOf("b")),
		fmt.Sprintf(`INSERT INTO "lock:{c}" %d`, c.Fence()), fmt.Sprintf(`INSERT INTO "lock:{d}" %d`, ba.FenceOf("d")),
	}
	for _, order := range [][]*lockmw.Lease{{ba, c, a}, {a, c, ba}, {c, a, ba}} {
		if err := b.guard(fence.Postgres, order...); err != nil {
			t.Error(err)
		}
		b.wants(want...)
	}
}

func TestOneStaleKeyOfSeveralIsEnough(t *testing.T) {
	eachDialect(t, func(b *bench, d fence.Dialect) {
		lease := b.acquireAll(lockmw.Policy{}, "a", "b", "c")
		b.data.fences["lock:{b}"] = lease.FenceOf("b") + 1
		err := b.guard(d, lease)
		if stale, ok := errors.AsType[*fence.StaleError](err); !ok || stale.Key != "b" {
			b.Errorf("err = %v, want a StaleError of b", err)
		}
	})
}

// Of two leases of one key the earlier one is stale beside the later one, whichever is named first.
func TestTwoLeasesOfOneKeyAreNotBothRight(t *testing.T) {
	eachDialect(t, func(b *bench, d fence.Dialect) {
		early := b.acquire("42", lockmw.Policy{})
		b.redis.FlushAll()
		late := b.acquire("42", lockmw.Policy{})
		for _, both := range [][]*lockmw.Lease{{early, late}, {late, early}} {
			clear(b.data.fences)
			if err := b.guard(d, both...); !errors.Is(err, fence.ErrStale) {
				b.Errorf("err = %v, want ErrStale", err)
			}
		}
	})
}

func TestAJoinedLeaseHasTheFenceOfTheOther(t *testing.T) {
	b := newBench(t)
	p := lockmw.Policy{Reentrant: true}
	ctx, outer, err := b.locks.Acquire(t.Context(), "42", p)
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]string{{"42"}, {"42", "a"}} {
		_, inner, err := b.locks.AcquireAll(ctx, keys, p)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.guard(fence.Postgres, outer, inner); err != nil {
			t.Error(err)
		}
		if got := b.data.statements(); strings.Count(got, fmt.Sprintf(`"lock:{42}" %d`, outer.Fence())) != 2 {
			t.Errorf("%q: asked was\n%s", keys, got)
		}
	}
}

func TestALeaseThatIsOverIsRefusedBeforeAnythingIsAsked(t *testing.T) {
	b := newBench(t)
	released := b.acquire("a", lockmw.Policy{})
	_ = released.Release(t.Context())
	tooLong := b.acquire("b", lockmw.Policy{MaxHold: time.Millisecond})
	<-tooLong.Context().Done()
	lost := b.acquire("c", lockmw.Policy{})
	if err := b.locks.ForceRelease(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	<-lost.Context().Done()
	ctx, cancel := context.WithCancel(t.Context())
	_, left, err := b.locks.Acquire(ctx, "d", lockmw.Policy{TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	cancel() // of its caller, before it is lost
	b.redis.FlushAll()
	for left.Valid() {
		time.Sleep(time.Millisecond) // the next renewal tells it
	}
	for _, tc := range []struct {
		lease *lockmw.Lease
		why   error
	}{{released, lockmw.ErrReleased}, {tooLong, lockmw.ErrMaxHold}, {lost, lockmw.ErrLost}, {left, lockmw.ErrLost}} {
		err := b.guard(fence.Postgres, b.acquire("other"+tc.lease.Key(), lockmw.Policy{}), tc.lease)
		if !errors.Is(err, tc.why) || errors.Is(err, fence.ErrStale) {
			t.Errorf("%v: err = %v, want %v", tc.lease, err, tc.why)
		}
	}
	b.wants()
}

// That its caller has left does not end a lock. Whether a statement is sent then is up to the context of that.
func TestALeaseWhoseCallerHasLeftIsGuarded(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, lease, err := b.locks.Acquire(ctx, "42", lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := b.guard(fence.Postgres, lease); err != nil {
		t.Error(err)
	}
}

func TestWithoutALeaseNothingIsGuarded(t *testing.T) {
	b := newBench(t)
	for _, leases := range [][]*lockmw.Lease{nil, {nil}, {b.acquire("42", lockmw.Policy{}), nil}} {
		if err := b.guard(fence.Postgres.AllowUnfenced(), leases...); err == nil || !strings.Contains(err.Error(), "no lease") {
			t.Errorf("err = %v, want one about no lease", err)
		}
	}
	b.wants()
}

func TestReadersAndPermitsAreRefused(t *testing.T) {
	b := newBench(t)
	for key, p := range map[string]lockmw.Policy{"reader": {Mode: lockmw.Shared}, "permit": {Permits: 3}} {
		for _, d := range []fence.Dialect{fence.Postgres, fence.Postgres.AllowUnfenced()} {
			if err := b.guard(d, b.acquire(key, p)); err == nil || !strings.Contains(err.Error(), "at the same time") {
				t.Errorf("%s: err = %v, want one about others who hold it", key, err)
			}
			b.redis.FlushAll()
		}
	}
	b.wants()
}

func TestALeaseWithoutAFenceIsRefusedUnlessAllowed(t *testing.T) {
	b := newBench(t)
	clients := []redis.UniversalClient{redistest.Embedded(t).Client(t), redistest.Embedded(t).Client(t), redistest.Embedded(t).Client(t)}
	quorum, err := lockmw.NewQuorum(clients, lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		if e.Kind == lockmw.EventUnfenced {
			b.told <- e
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = quorum.Close(ctx)
	})
	_, ofQuorum, err := quorum.Acquire(t.Context(), "42", lockmw.Policy{Wait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	kept := b.acquire("kept", lockmw.Policy{})
	b.redis.Close()
	failedOpen := b.acquire("42", lockmw.Policy{FailOpen: true})
	several := b.acquireAll(lockmw.Policy{FailOpen: true}, "43", "44")
	for name, tc := range map[string]struct {
		lease *lockmw.Lease
		told  int
	}{"quorum": {ofQuorum, 1}, "failed open": {failedOpen, 1}, "several": {several, 2}} {
		if err := b.guard(fence.Postgres, kept, tc.lease); !errors.Is(err, fence.ErrUnfenced) {
			t.Errorf("%s: err = %v, want ErrUnfenced", name, err)
		}
		b.wants()
		if err := b.guard(fence.Postgres.AllowUnfenced(), tc.lease, kept); err != nil {
			t.Errorf("%s: with AllowUnfenced: %v", name, err)
		}
		b.wants(fmt.Sprintf(`INSERT INTO "lock:{kept}" %d`, kept.Fence()))
		for range tc.told {
			if e := b.wantsTold(lockmw.EventUnfenced); !strings.HasPrefix(e.Key, "4") || e.Err != nil {
				t.Errorf("%s: told is %+v", name, e)
			}
		}
	}
	if len(b.told) != 0 {
		t.Errorf("told is %+v too", <-b.told)
	}
}

func TestALeaseInShadowPassesAndIsTold(t *testing.T) {
	b := newBench(t)
	lease := b.acquire("42", lockmw.Policy{Prefix: "order:", Shadow: true})
	if err := b.guard(fence.Postgres, lease); err != nil {
		t.Error(err)
	}
	b.wants()
	if e := b.wantsTold(lockmw.EventUnfenced); e.Key != "order:42" || e.Err != nil {
		t.Errorf("told is %+v", e)
	}
}

// Work that runs without its lock because a live setting says off is no trial: others may be at work, so its writes are refused unless the code allows them.
func TestALeaseThatIsSwitchedOffIsRefusedUnlessAllowed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(`{"*/off": {"off": true}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, lockmw.WithSettings(lockmw.SettingsFile(file)), lockmw.AllowOff())
	off := lockmw.Policy{Name: "off"}
	kept, one, several := b.acquire("kept", lockmw.Policy{Name: "kept"}), b.acquire("42", off), b.acquireAll(off, "43", "44")
	for _, tc := range []struct {
		lease *lockmw.Lease
		told  int
	}{{one, 1}, {several, 2}} {
		if err := b.guard(fence.Postgres, kept, tc.lease); !errors.Is(err, fence.ErrUnfenced) {
			t.Errorf("%v: err = %v, want ErrUnfenced", tc.lease, err)
		}
		b.wants()
		if err := b.guard(fence.Postgres.AllowUnfenced(), kept, tc.lease); err != nil {
			t.Errorf("%v: with AllowUnfenced: %v", tc.lease, err)
		}
		b.wants(fmt.Sprintf(`INSERT INTO "lock:{kept}" %d`, kept.Fence()))
		for range tc.told {
			if e := b.wantsTold(lockmw.EventUnfenced); !strings.HasPrefix(e.Key, "4") || e.Name != "off" {
				t.Errorf("%v: told is %+v", tc.lease, e)
			}
		}
	}
	reader := b.acquire("45", lockmw.Policy{Name: "off", Mode: lockmw.Shared})
	if err := b.guard(fence.Postgres.AllowUnfenced(), reader); err == nil || !strings.Contains(err.Error(), "others may hold the lock") {
		t.Errorf("a reader: err = %v", err)
	}
	b.wants()
	if len(b.told) != 0 {
		t.Errorf("told is %+v too", <-b.told)
	}
}

// A lock that is tried in shadow is as if it were not there: who works under another one is guarded by that.
func TestALeaseInShadowLeavesTheOneAroundItToGuard(t *testing.T) {
	b := newBench(t)
	outer := b.acquire("42", lockmw.Policy{Prefix: "account:"})
	middle, _, err := b.locks.Acquire(outer.Context(), "43", lockmw.Policy{Shadow: true})
	if err != nil {
		t.Fatal(err)
	}
	_, inner, err := b.locks.Acquire(middle, "44", lockmw.Policy{Shadow: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.guard(fence.Postgres, inner); err != nil {
		t.Error(err)
	}
	b.wants(fmt.Sprintf(`INSERT INTO "lock:{account:42}" %d`, outer.Fence()))
	b.data.fences["lock:{account:42}"]++
	if err := b.guard(fence.Postgres, inner); !errors.Is(err, fence.ErrStale) {
		t.Errorf("err = %v, want ErrStale of the lease around it", err)
	}
	if e := b.wantsTold(lockmw.EventStale); e.Key != "account:42" {
		t.Errorf("told is %+v", e)
	}
	if err := outer.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.guard(fence.Postgres, inner); err == nil {
		t.Error("the lease around it is over, and work passes")
	}
	if len(b.told) != 0 {
		t.Errorf("told is %+v too", <-b.told)
	}
}

// Readers are refused whether or not they have their lock, so that a Redis that is back, or the end of a trial, refuses nothing anew.
func TestReadersNeverGuard(t *testing.T) {
	b := newBench(t)
	inShadow := b.acquire("41", lockmw.Policy{Mode: lockmw.Shared, Shadow: true})
	b.redis.Close()
	failedOpen := b.acquire("42", lockmw.Policy{Mode: lockmw.Shared, FailOpen: true})
	permit := b.acquire("43", lockmw.Policy{Permits: 2, FailOpen: true})
	for name, lease := range map[string]*lockmw.Lease{"in shadow": inShadow, "failed open": failedOpen, "permit": permit} {
		if err := b.guard(fence.Postgres.AllowUnfenced(), lease); err == nil || !strings.Contains(err.Error(), "others may hold the lock") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	b.wants()
}

// What sqlx, gorm and others make of a database or of a transaction.
type (
	wrappedDB struct{ *sql.DB }
	wrappedTx struct{ *sql.Tx }
	own       struct{ fence.Tx }              // an adapter
	beginner  struct{ *sql.Tx }               // a transaction that can begin another one within
	pool      struct{ fence.Tx }              // a database that begins its own transactions
	runner    struct{ fence.Tx }              // what runs statements somewhere
	number    func() (fence int64, err error) // what that query answers
	answering struct {
		own
		number
	}
)

func (beginner) BeginTx(context.Context, *sql.TxOptions) (beginner, error) { return beginner{}, nil }
func (pool) BeginTx(context.Context, *sql.TxOptions) (own, error)          { return own{}, nil }
func (own) Commit(context.Context) error                                   { return nil }

func (a answering) QueryFence(context.Context, string, ...any) (int64, error) { return a.number() }

func TestOnlyATransactionGuards(t *testing.T) {
	b := newBench(t)
	lease := b.acquire("42", lockmw.Policy{})
	c, err := b.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tx, err := b.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	var none *sql.Tx
	for want, all := range map[string][]fence.Tx{
		"needs the transaction of the work": {b.db, c, wrappedDB{b.db}, &wrappedDB{b.db}, pool{tx}, runner{b.db}, runner{tx}},
		"no transaction":                    {nil, none},
		"":                                  {tx, wrappedTx{tx}, &wrappedTx{tx}, beginner{tx}, own{tx}},
	} {
		for _, tx := range all {
			err := fence.Postgres.Guard(t.Context(), tx, lease)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%T: err = %v, want %q", tx, err, want)
			}
			if asked := b.data.statements(); (asked != "") != (want == "") {
				t.Errorf("%T: asked was %q", tx, asked)
			}
		}
	}
}

func TestAnAdapterNeedNotHaveRowsOfDatabaseSQL(t *testing.T) {
	b := newBench(t)
	lease := b.acquire("42", lockmw.Policy{})
	tx, err := b.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	later := func() (int64, error) { return lease.Fence() + 2_000_000, nil }
	broken := func() (int64, error) { return 0, errors.New("broken") }
	b.data.fences["lock:{42}"] = lease.Fence() + 1
	for _, tc := range []struct {
		d      fence.Dialect
		tx     fence.Tx
		behind time.Duration
		says   string
	}{
		{fence.Postgres, answering{own{tx}, later}, 2 * time.Second, "2s after this one"},
		{fence.MySQL, answering{own{tx}, later}, 2 * time.Second, "2s after this one"},
		{fence.Postgres, own{tx}, 0, "has written:"},
		{fence.SQLite, answering{own{tx}, broken}, 0, "has written:"},
	} {
		err := tc.d.Guard(t.Context(), tc.tx, lease)
		stale, ok := errors.AsType[*fence.StaleError](err)
		if !ok || stale.Behind() != tc.behind || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%T: err = %v, want a StaleError that says %q", tc.tx, err, tc.says)
		}
	}
	for tx, want := range map[fence.Tx]string{own{tx}: "MySQL needs"} {
		if err := fence.MySQL.Guard(t.Context(), tx, lease); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: err = %v, want %q", tx, err, want)
		}
	}
	if err := fence.MySQL.Guard(t.Context(), answering{own{tx}, broken}, lease); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("err = %v, want that of the query", err)
	}
}

func TestErrorsOfTheDatabaseArePassedOn(t *testing.T) {
	eachDialect(t, func(b *bench, d fence.Dialect) {
		lease := b.acquire("42", lockmw.Policy{})
		fault := errors.New("40001")
		for _, word := range []string{"INSERT", "SELECT"} {
			clear(b.data.faults)
			b.data.faults[word] = fault
			if word == "SELECT" && !b.data.mysql {
				continue // it is not asked
			}
			err := b.guard(d, lease)
			if !errors.Is(err, fault) || errors.Is(err, fence.ErrStale) || err.Error() != `fence: guard "42": 40001` {
				b.Errorf("%s: err = %v, want 40001 alone", word, err)
			}
		}
	})
}

// Otherwise a driver that does not tell would have every write pass, or none.
func TestADriverThatDoesNotTellWhatItChangedIsAnError(t *testing.T) {
	b := newBench(t)
	b.data.mute = true
	if err := b.guard(fence.Postgres, b.acquire("42", lockmw.Policy{})); err == nil || errors.Is(err, fence.ErrStale) {
		t.Errorf("err = %v, want one about the driver", err)
	}
}

func TestTheZeroDialectIsAnError(t *testing.T) {
	b := newBench(t)
	var d fence.Dialect
	_, purged := d.Purge(t.Context(), b.db, time.Hour)
	_, forgotten := d.Forget(t.Context(), b.db, "lock:{42}")
	for _, err := range []error{b.guard(d, b.acquire("42", lockmw.Policy{})), purged, forgotten} {
		if err == nil || !strings.Contains(err.Error(), "zero Dialect") {
			t.Errorf("err = %v, want one about the zero Dialect", err)
		}
	}
	if d.Schema() != "" {
		t.Errorf("it has the schema %q", d.Schema())
	}
}

func TestPurgeDeletesWhatIsOld(t *testing.T) {
	eachDialect(t, func(b *bench, d fence.Dialect) {
		now := time.Now()
		b.data.fences = map[string]int64{"old": now.Add(-2 * time.Hour).UnixMicro(), "older": 1, "new": now.Add(-time.Hour).UnixMicro(), "ahead": now.Add(time.Hour).UnixMicro()}
		n, err := d.Purge(b.Context(), b.db, 90*time.Minute)
		if err != nil || n != 2 || len(b.data.fences) != 2 || b.data.fences["new"] == 0 {
			b.Errorf("purged are %d, %v; left is %v", n, err, b.data.fences)
		}
		for _, short := range []time.Duration{0, -time.Hour, 24, time.Hour - 1} {
			if _, err := d.Purge(b.Context(), b.db, short); err == nil {
				b.Errorf("what is older than %v is purged", short)
			}
		}
		if len(b.data.fences) != 2 {
			b.Errorf("left is %v", b.data.fences)
		}
		fault := errors.New("read only")
		b.data.faults["DELETE"] = fault
		if _, err := d.Purge(b.Context(), b.db, time.Hour); !errors.Is(err, fault) || err.Error() != "fence: purge: read only" {
			b.Errorf("err = %v, want %v", err, fault)
		}
	})
}

func TestForgetDeletesOneFence(t *testing.T) {
	eachDialect(t, func(b *bench, d fence.Dialect) {
		b.data.fences = map[string]int64{"lock:{order:42}": 7, "lock:{order:43}": 7}
		for _, want := range []bool{true, false} {
			if forgotten, err := d.Forget(b.Context(), b.db, "lock:{order:42}"); err != nil || forgotten != want {
				b.Errorf("forgotten = %v, %v; want %v", forgotten, err, want)
			}
		}
		if len(b.data.fences) != 1 {
			b.Errorf("left is %v", b.data.fences)
		}
		if _, err := d.Forget(b.Context(), nil, "lock:{order:43}"); err == nil {
			b.Error("nil is a database")
		}
		for _, key := range []string{"order:43", "{order:43}", "lock:{order:43", ""} {
			if _, err := d.Forget(b.Context(), b.db, key); err == nil || !strings.Contains(err.Error(), "lock:{order:42}") {
				b.Errorf("forgetting %q, which is no lock's key in Redis: %v", key, err)
			}
		}
	})
}

func TestSchemasCreateTheTableThatIsAsked(t *testing.T) {
	for name, d := range dialects {
		if s := d.Schema(); !strings.HasPrefix(s, "CREATE TABLE IF NOT EXISTS lockmw_fences (\n") || !strings.HasSuffix(s, ";\n") || strings.Contains(s, "TEXT") {
			t.Errorf("%s: the schema is %s", name, s)
		}
	}
}
