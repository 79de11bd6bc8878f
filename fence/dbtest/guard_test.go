package dbtest

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// embedded returns a Locker on a Redis of its own.
func embedded(t testing.TB, opts ...lockmw.Option) (*lockmw.Locker, *redistest.Mini) {
	t.Helper()
	mini := redistest.Embedded(t)
	return testenv.Open(t, mini.Client(t), opts...), mini
}

func acquire(t testing.TB, locks *lockmw.Locker, keys ...string) *lockmw.Lease {
	t.Helper()
	_, lease, err := locks.AcquireAll(t.Context(), keys, lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// guarded guards in a transaction of its own, and commits it.
func guarded(t testing.TB, d database, db *sql.DB, leases ...*lockmw.Lease) error {
	t.Helper()
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := d.dialect.Guard(t.Context(), tx, leases...); err != nil {
		return err
	}
	return tx.Commit()
}

// two returns the leases of two holders of one lock, of which Redis has forgotten the first.
func two(t *testing.T) (early, late *lockmw.Lease) {
	t.Helper()
	locks, mini := embedded(t)
	early = acquire(t, locks, "42")
	mini.FlushAll()
	return early, acquire(t, locks, "42")
}

func TestALateWriterIsRefused(t *testing.T) {
	each(t, func(t *testing.T, d database, db *sql.DB) {
		early, late := two(t)
		do(t, db, d.dialect.Schema()) // which may be run at each start
		for _, lease := range []*lockmw.Lease{early, early, late, late} {
			if err := guarded(t, d, db, lease); err != nil {
				t.Error(err)
			}
		}
		err := guarded(t, d, db, early)
		stale, ok := errors.AsType[*fence.StaleError](err)
		if !ok || stale.Fence != early.Fence() || stale.Highest != late.Fence() {
			t.Errorf("err = %v, want a StaleError that tells of both", err)
		}
	})
}

// As long as nothing is committed, nothing has been written.
func TestAFenceIsOfTheTransaction(t *testing.T) {
	each(t, func(t *testing.T, d database, db *sql.DB) {
		early, late := two(t)
		tx := begin(t, db, sql.LevelDefault)
		if err := d.dialect.Guard(t.Context(), tx, late); err != nil {
			t.Error(err)
		}
		_ = tx.Rollback()
		if err := guarded(t, d, db, early); err != nil {
			t.Errorf("behind a later holder that has written nothing: %v", err)
		}
	})
}

func TestGuardWaitsForTheTransactionOfAnEarlierHolder(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			db := d.open(t, true)
			do(t, db, "DROP TABLE IF EXISTS lockmw_fences", d.dialect.Schema())
			early, late := two(t)
			if err := guarded(t, d, db, early); err != nil {
				t.Fatal(err)
			}
			tx := begin(t, db, sql.LevelDefault)
			if err := d.dialect.Guard(t.Context(), tx, early); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err := guarded(t, d, db, late)
			if want := []string{"55P03", "1205", sqliteBusy}; !slices.Contains(want, code(err)) || errors.Is(err, fence.ErrStale) {
				t.Errorf("err = %v, want one of %q", err, want)
			}
			t.Logf("after %v: %v", time.Since(began), err)
			if err := tx.Commit(); err != nil {
				t.Error(err)
			}
			if err := guarded(t, d, db, late); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whoever has read before has a snapshot that is older than the last holder's work.
func TestASnapshotFromBeforeGuardIsNoWayAround(t *testing.T) {
	eachServer(t, func(t *testing.T, d database, db *sql.DB) {
		for _, level := range d.levels {
			if level < sql.LevelRepeatableRead || level == sql.LevelSerializable && d.dialect == fence.MySQL { // there the first read would hold the later one up
				continue
			}
			early, late := two(t)
			do(t, db, "DELETE FROM lockmw_fences")
			if err := guarded(t, d, db, early); err != nil {
				t.Fatal(err)
			}
			tx := begin(t, db, level)
			var n int
			if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM lockmw_fences").Scan(&n); err != nil {
				t.Fatal(err)
			}
			if err := guarded(t, d, db, late); err != nil {
				t.Fatal(err)
			}
			err := d.dialect.Guard(t.Context(), tx, early)
			// MariaDB may refuse what has changed since the snapshot (innodb_snapshot_isolation, on by default from 11.6 on).
			if d.dialect == fence.MySQL && !errors.Is(err, fence.ErrStale) && code(err) != "1020" {
				t.Errorf("%v: err = %v, want ErrStale, or 1020", level, err)
			}
			if d.dialect == fence.Postgres && (code(err) != "40001" || errors.Is(err, fence.ErrStale)) {
				t.Errorf("%v: err = %v, want 40001", level, err)
			}
		}
	})
}

// Two transactions that guard two locks one by one, in different orders.
func TestADeadlockIsNotStale(t *testing.T) {
	each(t, func(t *testing.T, d database, db *sql.DB) {
		locks, _ := embedded(t)
		a, b := acquire(t, locks, "a"), acquire(t, locks, "b")
		if err := guarded(t, d, db, a, b); err != nil {
			t.Fatal(err)
		}
		if d.dialect == fence.SQLite {
			return // one writes at a time there: no deadlock
		}
		one, other := begin(t, db, sql.LevelReadCommitted), begin(t, db, sql.LevelReadCommitted)
		for tx, lease := range map[*sql.Tx]*lockmw.Lease{one: a, other: b} {
			if err := d.dialect.Guard(t.Context(), tx, lease); err != nil {
				t.Fatal(err)
			}
		}
		second := make(chan error)
		go func() {
			err := d.dialect.Guard(t.Context(), one, b)
			_ = one.Rollback()
			second <- err
		}()
		err := d.dialect.Guard(t.Context(), other, a)
		_ = other.Rollback()
		errs := []error{err, <-second}
		var codes []string
		for _, err := range errs {
			if errors.Is(err, fence.ErrStale) {
				t.Errorf("err = %v", err)
			}
			if err != nil {
				codes = append(codes, code(err))
			}
		}
		if len(codes) != 1 || !slices.Contains([]string{"40P01", "1213"}, codes[0]) {
			t.Errorf("errors are %v, want a deadlock of one of them", errs)
		}
	})
}

// Guarded in one call, they are locked in one order.
func TestOneCallForSeveralLeasesMeetsNoDeadlock(t *testing.T) {
	each(t, func(t *testing.T, d database, db *sql.DB) {
		locks, _ := embedded(t)
		a, b, both := acquire(t, locks, "a"), acquire(t, locks, "b"), acquire(t, locks, "c", "d")
		if err := guarded(t, d, db, a, b, both); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		for _, order := range [][]*lockmw.Lease{{a, both, b}, {b, a, both}} {
			go func() {
				for range 30 {
					if err := guarded(t, d, db, order...); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// A text column would take some of these for the same, and refuse others.
func TestKeysAreBytes(t *testing.T) {
	keys := []string{"a", "A", "a ", " a", "ä", "a\u0308", "Ä", "ss", "ß", "\xff\xfe", "\xff", "%", "_", `\`, `'`, `"`, strings.Repeat("x", 512), "é", "e\u0301", "i", "İ", "ı"}
	each(t, func(t *testing.T, d database, db *sql.DB) {
		locks, _ := embedded(t, lockmw.WithNamespace("shop"))
		others, _ := embedded(t)
		count := func() (n int) {
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM lockmw_fences").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		for i, key := range keys {
			_, lease, err := locks.Acquire(t.Context(), key, lockmw.Policy{Prefix: strings.Repeat("p", 256)})
			if err != nil {
				t.Fatal(err)
			}
			if err := guarded(t, d, db, lease); err != nil {
				t.Errorf("%q: %v", key, err)
			}
			if n := count(); n != i+1 {
				t.Errorf("with %q there are %d rows, want %d", key, n, i+1)
			}
		}
		if err := guarded(t, d, db, acquire(t, others, keys...)); err != nil || count() != 2*len(keys) {
			t.Errorf("in another namespace: %v, and there are %d rows", err, count())
		}
		// No lease has such a key, but the table may.
		insert := "INSERT INTO lockmw_fences (redis_key, fence) VALUES (?, 1)"
		if d.dialect == fence.Postgres {
			insert = strings.Replace(insert, "?", "$1", 1)
		}
		if _, err := db.ExecContext(t.Context(), insert, []byte("lock:{a\x00b}")); err != nil {
			t.Error(err)
		}
		for _, tc := range []struct {
			key  string
			want bool
		}{{"lock:{a\x00c}", false}, {"lock:{a\x00b}", true}, {"lock:{a\x00b}", false}, {"lock:{a}", true}, {"lock:{A}", true}, {"lock:{\xff\xfe}", true}, {"lock:{a%}", false}} {
			if forgotten, err := d.dialect.Forget(t.Context(), db, tc.key); err != nil || forgotten != tc.want {
				t.Errorf("forgetting %q: %v, %v; want %v", tc.key, forgotten, err, tc.want)
			}
		}
		if got, want := count(), 2*len(keys)-3; got != want {
			t.Errorf("left are %d rows, want %d", got, want)
		}
	})
}

// Nodes of a Galera cluster see each other's rows only if both were written, so a Guard writes its row also where the fence is equal.
func TestEachGuardWritesItsRow(t *testing.T) {
	each(t, func(t *testing.T, d database, db *sql.DB) {
		if d.dialect != fence.MySQL {
			return // an UPDATE writes a row whatever is in it
		}
		locks, _ := embedded(t)
		lease := acquire(t, locks, "42")
		for want := range 3 {
			if err := guarded(t, d, db, lease); err != nil {
				t.Fatal(err)
			}
			var guards int
			if err := db.QueryRowContext(t.Context(), "SELECT guards FROM lockmw_fences").Scan(&guards); err != nil || guards != want {
				t.Errorf("guards = %d, %v; want %d", guards, err, want)
			}
		}
	})
}

func TestPurgeLeavesWhatIsNew(t *testing.T) {
	each(t, func(t *testing.T, d database, db *sql.DB) {
		const week = 7 * 24 * time.Hour
		ago := func(age time.Duration) int64 { return time.Now().Add(-age).UnixMicro() }
		for i := range 100 {
			do(t, db, fmt.Sprintf("INSERT INTO lockmw_fences (redis_key, fence) VALUES ('k%d', %d)", i, ago(week+time.Hour)-int64(i)))
		}
		do(t, db, fmt.Sprintf("INSERT INTO lockmw_fences (redis_key, fence) VALUES ('l', %d)", ago(week-time.Hour)))
		locks, _ := embedded(t)
		lease := acquire(t, locks, "a", "b")
		if err := guarded(t, d, db, lease); err != nil {
			t.Fatal(err)
		}
		if n, err := d.dialect.Purge(t.Context(), db, week); err != nil || n != 100 {
			t.Errorf("purged are %d, %v; want 100", n, err)
		}
		if n, err := d.dialect.Purge(t.Context(), db, week); err != nil || n != 0 {
			t.Errorf("purged are %d more, %v", n, err)
		}
		if err := guarded(t, d, db, lease); err != nil {
			t.Error(err)
		}
	})
}

// It neither waits for those who are at work, nor holds them up.
func TestPurgeGoesOnBesideWork(t *testing.T) {
	for _, d := range databases {
		if d.dialect == fence.SQLite { // one writes at a time
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			db := d.open(t, true)
			do(t, db, "DROP TABLE IF EXISTS lockmw_fences", d.dialect.Schema())
			for i := range 100 { // most of the table, so that a database would rather read all of it
				do(t, db, fmt.Sprintf("INSERT INTO lockmw_fences (redis_key, fence) VALUES ('k%d', 1)", i))
			}
			locks, _ := embedded(t)
			idle, lease := acquire(t, locks, "a"), acquire(t, locks, "b")
			if err := guarded(t, d, db, idle, lease); err != nil {
				t.Fatal(err)
			}
			working, purging := begin(t, db, sql.LevelDefault), begin(t, db, sql.LevelDefault)
			if err := d.dialect.Guard(t.Context(), working, lease); err != nil {
				t.Error(err)
			}
			if n, err := d.dialect.Purge(t.Context(), purging, time.Hour); err != nil || n != 100 {
				t.Errorf("purged are %d, %v; want 100", n, err)
			}
			if err := working.Commit(); err != nil {
				t.Error(err)
			}
			if err := guarded(t, d, db, lease); err != nil {
				t.Error(err)
			}
		})
	}
}

// The way out where Redis's clock is behind.
func TestForgetLetsAnEarlierFencePass(t *testing.T) {
	each(t, func(t *testing.T, d database, db *sql.DB) {
		early, late := two(t)
		if err := guarded(t, d, db, late); err != nil {
			t.Fatal(err)
		}
		stale, ok := errors.AsType[*fence.StaleError](guarded(t, d, db, early))
		if !ok {
			t.Fatal("the earlier one is not stale")
		}
		if forgotten, err := d.dialect.Forget(t.Context(), db, stale.RedisKey); err != nil || !forgotten {
			t.Errorf("forgotten = %v, %v", forgotten, err)
		}
		if err := guarded(t, d, db, early); err != nil {
			t.Error(err)
		}
	})
}

// Who writes without a fence is not hindered, and what he writes stays.
func TestWritersWithoutAFenceAreLeftAlone(t *testing.T) {
	eachServer(t, func(t *testing.T, d database, db *sql.DB) {
		do(t, db, "DROP TABLE IF EXISTS accounts", "CREATE TABLE accounts (id INT PRIMARY KEY, n INT)", "INSERT INTO accounts VALUES (1, 0), (2, 0)")
		early, late := two(t)
		if err := guarded(t, d, db, late); err != nil {
			t.Fatal(err)
		}
		tx := begin(t, db, sql.LevelDefault)
		if err := d.dialect.Guard(t.Context(), tx, late); err != nil {
			t.Fatal(err)
		}
		do(t, db, "UPDATE accounts SET n = 7 WHERE id = 1") // meanwhile, by somebody else
		_ = tx.Rollback()
		if err := guarded(t, d, db, early); !errors.Is(err, fence.ErrStale) {
			t.Errorf("err = %v, want ErrStale", err)
		}
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT n FROM accounts WHERE id = 1").Scan(&n); err != nil || n != 7 {
			t.Errorf("n = %d, %v; want 7", n, err)
		}
	})
}

func TestOnlyTheTransactionOfTheWorkGuards(t *testing.T) {
	each(t, func(t *testing.T, d database, db *sql.DB) {
		locks, _ := embedded(t)
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, tx := range []fence.Tx{db, c} {
			if err := d.dialect.Guard(t.Context(), tx, acquire(t, locks, fmt.Sprintf("%T", tx))); err == nil || !strings.Contains(err.Error(), "needs the transaction") {
				t.Errorf("%T: err = %v", tx, err)
			}
		}
	})
}
