package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/skew"
)

const (
	writers   = 8               // processes, each with a Locker; all write to all lanes
	leastLate = 3               // writers whose lock is another's already are waited for while Redis forgets, in one way; where it is flushed, so many for each lane
	setBack   = time.Hour       // by which Redis's clock is set back
	patient   = 9 * time.Minute // what may take so long that takes moments, on a busy machine: most of it are outages, of seconds each
)

// A lane is a row of a database, which writers of eight processes change under one lock, in one isolation level.
type lane struct {
	database
	db      *sql.DB
	level   sql.IsolationLevel
	guarded bool
	table   string

	granted                                  atomic.Int64 // locks
	stale, refused, ahead, repeated, written atomic.Int64 // stale: taken all the same; ahead: refused by an hour
	deadlocks                                atomic.Int64 // of those repeated

	began  time.Time
	behind atomic.Bool // Redis's clock is

	outages atomic.Bool // Redis goes away for moments

	mu      sync.Mutex
	highest int64 // that has written
}

// A hold is one of a lock, in µs since the test began.
type hold struct {
	lease          *lockmw.Lease
	asked, granted int64
}

func (l *lane) String() string {
	text := l.name
	if l.level != sql.LevelDefault {
		text += ", " + l.level.String()
	}
	return text
}

// Redis forgets while eight hold locks, or are at work without them: by FLUSHALL, by restarts, by fail-overs to a replica that lacks the last grants,
// and at last with a clock that is an hour behind. What each has written carries its fence, when its holder asked for the lock and had it, and the order
// in which the database has taken it. A write is stale if one of a later holder came before it: of one with a higher fence, or of one who asked for the
// lock when the earlier one had it.
func TestNoStaleWriteIsTaken(t *testing.T) {
	clock, option := skew.New(t)
	server := newPair(t, option)
	lanes := newLanes(t)
	ctx, end := context.WithCancel(t.Context())
	var working sync.WaitGroup
	for i := range writers {
		locks := testenv.Open(t, redistest.NewClient(t, server.Addr()), lockmw.WithInstance(fmt.Sprintf("writer-%d", i)))
		for _, l := range lanes {
			working.Go(func() { l.write(ctx, t, locks) })
		}
	}
	defer working.Wait()
	defer end()

	more := func(locks int) { // are given
		t.Helper()
		given := granted(lanes)
		await.Within(t, patient, "more locks", func() bool { return granted(lanes) >= given+int64(locks) })
	}
	flush := func() {
		more(len(lanes)) // where a machine is so busy that they are few, nobody would ever be late
		server.flush(t)
	}
	restart := func() {
		more(2 * len(lanes))
		server.restart(t)
	}
	failOver := func() {
		more(2 * len(lanes))
		server.failOver(t)
	}
	all := func(what string, so func(l *lane) bool, disturb func()) {
		t.Helper()
		began := time.Now()
		awaitAll(t, lanes, what, so, disturb)
		t.Logf("%v: %s", time.Since(began).Round(time.Millisecond), what)
	}
	all("late writers while Redis is flushed", func(l *lane) bool { return l.late() > 0 && late(lanes) >= leastLate*int64(len(lanes)) }, flush)
	for _, fault := range []struct {
		name    string
		disturb func()
	}{{"is restarted", restart}, {"fails over", failOver}} {
		for _, l := range lanes {
			l.outages.Store(true)
		}
		before := late(lanes)
		all("late writers while Redis "+fault.name, func(*lane) bool { return late(lanes) >= before+leastLate }, fault.disturb)
	}
	for _, l := range lanes {
		l.outages.Store(false)
		l.behind.Store(true)
	}
	if err := clock.Set(-setBack); err != nil {
		t.Fatal(err)
	}
	all("writers with a clock that is behind", func(l *lane) bool {
		return l.guarded && l.ahead.Load() >= writers || l.stale.Load() >= writers
	}, flush)
	if err := clock.Set(0); err != nil {
		t.Fatal(err)
	}
	flush()
	for _, l := range lanes {
		l.behind.Store(false)
		l.written.Store(0)
	}
	all("writers once the clock is right again", func(l *lane) bool { return l.written.Load() >= writers }, flush)
	end()
	working.Wait()
	var table strings.Builder
	late := 0
	for _, l := range lanes {
		late += l.judge(t, &table)
	}
	if late == 0 {
		t.Error("without Guard no write is late by when its holder asked: nothing was tried")
	}
	t.Logf("%d writers, without Guard and with it:\n%s", writers, &table)
}

// newLanes returns two of each database and isolation level: with Guard and without.
func newLanes(t *testing.T) (lanes []*lane) {
	t.Helper()
	for _, d := range databases {
		db := d.open(t, false)
		do(t, db, "DROP TABLE IF EXISTS lockmw_fences", d.dialect.Schema())
		for _, level := range d.levels {
			for _, guarded := range []bool{false, true} {
				l := &lane{database: d, db: db, level: level, guarded: guarded, table: fmt.Sprintf("lane%d", len(lanes)), began: time.Now()}
				key := "PRIMARY KEY"
				do(t, db, fmt.Sprintf("DROP TABLE IF EXISTS %s", l.table), fmt.Sprintf("DROP TABLE IF EXISTS %s_log", l.table),
					fmt.Sprintf("CREATE TABLE %s (id INT %s, n BIGINT)", l.table, key), fmt.Sprintf("INSERT INTO %s VALUES (1, 0)", l.table),
					fmt.Sprintf("CREATE TABLE %s_log (n BIGINT %s, fence BIGINT, asked BIGINT, granted BIGINT, behind INT)", l.table, key))
				lanes = append(lanes, l)
			}
		}
	}
	return lanes
}

// awaitAll waits until all lanes are so, and disturbs them meanwhile.
func awaitAll(t *testing.T, lanes []*lane, what string, so func(l *lane) bool, disturb func()) {
	t.Helper()
	next := time.Now()
	await.Within(t, patient, what, func() bool {
		if time.Now().After(next) {
			disturb()
			next = time.Now().Add(60 * time.Millisecond)
		}
		for _, l := range lanes {
			if !so(l) {
				return false
			}
		}
		return true
	})
}

// write writes under the lock until ctx ends.
func (l *lane) write(ctx context.Context, t *testing.T, locks *lockmw.Locker) {
	policy := lockmw.Policy{Prefix: "lane:", TTL: 2 * time.Second, Wait: time.Second, RetryInterval: 50 * time.Millisecond}
	for ctx.Err() == nil {
		asked := time.Since(l.began).Microseconds()
		_, lease, err := locks.Acquire(ctx, l.table, policy)
		if err != nil { // Redis is restarted, or others take long
			// While Redis is known to be away, the error comes at once. Without a pause, 200 goroutines that ask again
			// would take the processor from what connects to it again.
			time.Sleep(policy.RetryInterval)
			continue
		}
		l.granted.Add(1)
		by := hold{lease, asked, time.Since(l.began).Microseconds()}
		work := time.Duration(rand.IntN(5)) * time.Millisecond
		if rand.IntN(4) == 0 {
			work *= 100 // the next one, which asks every 50 to 100 ms, has the lock by then
			if l.outages.Load() {
				work = work / 2 * 3 // longer than Redis is away
			}
		}
		time.Sleep(work) // what takes time is not the database: meanwhile another one gets the lock of which Redis knows nothing
		err = l.transact(by)
		for again(err) {
			l.repeated.Add(1)
			if c := code(err); c == "40P01" || c == "1213" {
				l.deadlocks.Add(1)
			}
			err = l.transact(by)
		}
		stale, isStale := errors.AsType[*fence.StaleError](err)
		switch {
		case isStale && stale.Behind() > setBack/2:
			l.ahead.Add(1)
		case isStale:
			l.refused.Add(1)
		case err != nil && !errors.Is(err, lockmw.ErrLost): // the last renewal may have told it
			t.Errorf("%s: %v", l, err)
		}
		_ = lease.Release(ctx)
	}
}

// transact is the work, in a transaction.
func (l *lane) transact(by hold) error {
	ctx, lease := context.Background(), by.lease
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: l.level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if l.guarded {
		if err := l.dialect.Guard(ctx, tx, lease); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id = 1", l.table)); err != nil {
		return err
	}
	var n int64
	if err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT n FROM %s WHERE id = 1", l.table)).Scan(&n); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s_log VALUES (%d, %d, %d, %d, %d)", l.table, n, lease.Fence(), by.asked, by.granted, l.clockBehind())); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	l.note(lease.Fence())
	return nil
}

// clockBehind is 1 while Redis's clock is behind.
func (l *lane) clockBehind() int {
	if l.behind.Load() {
		return 1
	}
	return 0
}

// note counts for those who wait; the log is what is judged.
func (l *lane) note(fence int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written.Add(1)
	if fence < l.highest && !l.guarded {
		l.stale.Add(1)
	}
	l.highest = max(l.highest, fence)
}

// granted is how many locks the writers were given.
func granted(lanes []*lane) (n int64) {
	for _, l := range lanes {
		n += l.granted.Load()
	}
	return n
}

// late is how many late writers there were in all.
func late(lanes []*lane) (n int64) {
	for _, l := range lanes {
		n += l.late()
	}
	return n
}

// late is how many late writers there were.
func (l *lane) late() int64 { return l.stale.Load() + l.refused.Load() }

// judge counts what was written behind a later holder. While Redis's clock is behind, a former holder with a higher fence may write in the place of a
// later one, as the page says: then the fences alone are judged. late is how many were late by when their holders asked, which is known of few.
func (l *lane) judge(t *testing.T, table *strings.Builder) (late int) {
	t.Helper()
	rows, err := l.db.QueryContext(t.Context(), fmt.Sprintf("SELECT fence, asked, granted, behind FROM %s_log ORDER BY n", l.table))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var highest, lastAsked int64
	n, stale := 0, 0
	for rows.Next() {
		var fence, asked, granted, behind int64
		if err := rows.Scan(&fence, &asked, &granted, &behind); err != nil {
			t.Fatal(err)
		}
		if n++; fence < highest {
			stale++
		}
		if granted < lastAsked && behind == 0 {
			late++
		}
		highest, lastAsked = max(highest, fence), max(lastAsked, asked)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	switch {
	case l.guarded && stale+late > 0:
		t.Errorf("%s: with Guard, of %d writes %d are stale by their fences, and %d by when their holders asked", l, n, stale, late)
	case !l.guarded && stale == 0:
		t.Errorf("%s: without Guard none of %d writes is stale: nothing was tried", l, n)
	case l.deadlocks.Load() > 0:
		t.Errorf("%s: %d deadlocks, where each holder guards with one lock", l, l.deadlocks.Load())
	}
	fmt.Fprintf(table, "  %-50s guarded %-5v  %5d writes, %4d stale, %4d of them by the time, %4d refused as stale, %4d an hour behind, %4d done again\n",
		l, l.guarded, n, stale, late, l.refused.Load(), l.ahead.Load(), l.repeated.Load())
	return late
}
