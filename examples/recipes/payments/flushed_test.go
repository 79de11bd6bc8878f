package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/dbserver"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// The order service while its Redis forgets all locks, again and again. The servers are this repository's own, so a reader of docs/recipes.md does not
// get this file.

const (
	services = 6 // each with a Locker and a connection pool of its own, as if it were a process
	orders   = 4
	account  = 100
	fortune  = 1_000_000
	amount   = 50
	pause    = 100 * time.Millisecond // from one look at the bookings, and one FLUSHALL, to the next
	patient  = time.Minute            // what may take so long that takes seconds, on a machine that is busy
)

// booking is a function such as till.book.
type booking func(ctx context.Context, order int, paid bool) error

// A name is that of a hold: no two holds of one order have the same fence.
type name struct {
	order int
	fence int64
}

// A hold is a request that had the lock. When it was asked for, and when it was there, is told by the clock of this process, and not by its fence.
type hold struct{ asked, began time.Time }

// A load is what the requests of one test came to.
type load struct {
	db *sql.DB

	mu      sync.Mutex
	holds   map[name]hold
	same    int         // holds that had the name of another one
	answers map[int]int // by their status
	stale   int         // refused by Guard
}

// A verdict is what the bookings say.
type verdict struct {
	bookings int
	twice    int // bookings of what was booked last: an order was paid twice, or refunded twice
	late     int // bookings by a holder who had the lock before a holder asked for it whose booking came first
	lower    int // bookings with a lower fence than one before them
	unknown  int // bookings by nobody
}

func TestOrdersStayRightWhileRedisForgets(t *testing.T) {
	server := dbserver.Postgres()
	t.Cleanup(func() { server.Stop(t.Failed()) })
	guarded := func(s till) booking { return s.book }

	// The lock alone does, as long as Redis keeps its word. So what goes wrong below is for Redis alone.
	t.Run("without Guard, and Redis forgets nothing", func(t *testing.T) {
		l := newLoad(t, server)
		v := l.run(t, server, trusting, false, "100 bookings", func(v verdict) bool { return v.bookings >= 100 })
		l.right(t, v)
	})
	t.Run("without Guard", func(t *testing.T) {
		l := newLoad(t, server)
		l.run(t, server, trusting, true, "orders that are paid twice, and late bookings", func(v verdict) bool { return v.twice >= 3 && v.late >= 3 })
	})
	t.Run("with Guard", func(t *testing.T) {
		l := newLoad(t, server)
		v := l.run(t, server, guarded, true, "10 late bookings that are refused", func(v verdict) bool { return l.refused() >= 10 || v.late > 0 })
		l.right(t, v)
	})
}

// newLoad makes the tables anew.
func newLoad(t *testing.T, server *dbserver.Server) *load {
	t.Helper()
	db := server.Open(t, "")
	const empty = "DROP TABLE IF EXISTS lockmw_fences, accounts, orders, bookings;\n"
	data := fmt.Sprintf("\nINSERT INTO accounts VALUES (%d, %d);\nINSERT INTO orders SELECT n, %d, %d FROM generate_series(1, %d) AS n;",
		account, fortune, account, amount, orders)
	if _, err := db.ExecContext(t.Context(), empty+fence.Postgres.Schema()+schema+"DELETE FROM orders;"+data); err != nil {
		t.Fatal(err)
	}
	return &load{db: db, holds: make(map[name]hold), answers: make(map[int]int)}
}

// run has all services pay and refund the orders at random, until it is enough, and has Redis forget all locks meanwhile.
func (l *load) run(t *testing.T, server *dbserver.Server, book func(till) booking, flush bool, what string, enough func(verdict) bool) verdict {
	t.Helper()
	redis := redistest.Real(t)
	client := redis.Client(t)
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	for i := range services {
		locks := testenv.Open(t, redis.Client(t), lockmw.WithInstance(fmt.Sprintf("service-%d", i)))
		service := routes(locks, l.noted(book(till{server.Open(t, ""), slow})))
		for order := range orders {
			all.Go(func() { l.ask(ctx, service, order+1) })
		}
	}
	began, flushes, next := time.Now(), 0, time.Now()
	await.Within(t, patient, what, func() bool {
		if time.Now().Before(next) {
			return false
		}
		next = time.Now().Add(pause)
		if flush {
			if err := client.FlushAll(ctx).Err(); err != nil {
				t.Error(err)
			}
			flushes++
		}
		return enough(l.judge(t))
	})
	end()
	all.Wait()
	v := l.judge(t)
	t.Logf("in %v, with %d flushes: %+v, %d refused as stale, answers %v", time.Since(began).Round(time.Millisecond), flushes, v, l.refused(), l.answers)
	if v.unknown > 0 || l.same > 0 {
		t.Errorf("%d bookings are of no holder, and %d holders have the fence of another one", v.unknown, l.same)
	}
	return v
}

// slow is the question to another service. Meanwhile another request gets the lock, of which Redis knows nothing.
func slow(context.Context, int) error {
	work := time.Duration(rand.IntN(5)) * time.Millisecond
	if rand.IntN(4) == 0 {
		work *= 30
	}
	time.Sleep(work)
	return nil
}

// trusting is till.book as one writes it who trusts the lock: it looks what there is to do, asks the other service, and writes.
func trusting(s till) booking {
	return func(ctx context.Context, order int, paid bool) error {
		var was bool
		if err := s.db.QueryRowContext(ctx, "SELECT paid FROM orders WHERE id = $1", order).Scan(&was); err != nil {
			return err
		}
		if was == paid {
			return errUnchanged
		}
		if err := s.approve(ctx, order); err != nil {
			return err
		}
		lease, _ := lockmw.FromContext(ctx)
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		change := amount
		if !paid {
			change = -amount
		}
		for _, statement := range []struct {
			text string
			args []any
		}{
			{"UPDATE orders SET paid = $2 WHERE id = $1", []any{order, paid}},
			{"UPDATE accounts SET balance = balance - $2 WHERE id = $1", []any{account, change}},
			{"INSERT INTO bookings (order_id, amount, fence) VALUES ($1, $2, $3)", []any{order, change, lease.Fence()}},
		} {
			if _, err := tx.ExecContext(ctx, statement.text, statement.args...); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
}

// askedKey is that of the moment at which a request was made, in its context.
type askedKey struct{}

// ask pays an order and refunds it, at random, until ctx ends.
func (l *load) ask(ctx context.Context, service http.Handler, order int) {
	for ctx.Err() == nil {
		what := "pay"
		if rand.IntN(2) == 0 {
			what = "refund"
		}
		r := httptest.NewRequest(http.MethodPost, fmt.Sprintf("/orders/%d/%s", order, what), nil)
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r.WithContext(context.WithValue(context.Background(), askedKey{}, time.Now())))
		l.mu.Lock()
		l.answers[w.Code]++
		l.mu.Unlock()
	}
}

// noted is book, which notes who has had the lock, and what Guard has refused.
func (l *load) noted(book booking) booking {
	return func(ctx context.Context, order int, paid bool) error {
		lease, _ := lockmw.FromContext(ctx)
		asked, _ := ctx.Value(askedKey{}).(time.Time)
		l.mu.Lock()
		n := name{order, lease.Fence()}
		if _, there := l.holds[n]; there {
			l.same++
		}
		l.holds[n] = hold{asked, time.Now()}
		l.mu.Unlock()
		err := book(ctx, order, paid)
		if errors.Is(err, fence.ErrStale) {
			l.mu.Lock()
			l.stale++
			l.mu.Unlock()
		}
		return err
	}
}

func (l *load) refused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stale
}

// judge reads the bookings. Those of one order have their numbers in the order in which they were committed: each was given its number while its
// transaction had the row of the order.
func (l *load) judge(t *testing.T) (v verdict) {
	t.Helper()
	rows, err := l.db.QueryContext(t.Context(), "SELECT order_id, amount, fence FROM bookings ORDER BY number")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	type last struct {
		paid   bool
		fence  int64 // the highest
		latest hold  // the one that was asked for last
	}
	of := make(map[int]last)
	for rows.Next() {
		var n name
		var change int
		if err := rows.Scan(&n.order, &change, &n.fence); err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		h, known := l.holds[n]
		l.mu.Unlock()
		before := of[n.order]
		v.bookings++
		v.twice += one(before.paid == (change > 0))
		v.late += one(h.began.Before(before.latest.asked))
		v.lower += one(n.fence < before.fence)
		v.unknown += one(!known)
		if h.asked.Before(before.latest.asked) {
			h = before.latest
		}
		of[n.order] = last{change > 0, max(before.fence, n.fence), h}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return v
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// right fails the test unless all is as if the requests had come one after the other, and each client was told what has become of its request.
func (l *load) right(t *testing.T, v verdict) {
	t.Helper()
	if v.twice+v.late+v.lower > 0 {
		t.Errorf("%+v", v)
	}
	var balance, paid, booked int
	err := l.db.QueryRowContext(t.Context(), `SELECT (SELECT balance FROM accounts WHERE id = $1), (SELECT count(*) FROM orders WHERE paid),
		(SELECT coalesce(sum(amount), 0) FROM bookings)`, account).Scan(&balance, &paid, &booked)
	if want := fortune - paid*amount; err != nil || balance != want || booked != paid*amount {
		t.Errorf("the balance is %d, and the bookings are %d in all, %v; with %d paid orders want %d and %d", balance, booked, err, paid, want, paid*amount)
	}
	told, perhaps := l.answers[http.StatusCreated], l.answers[http.StatusServiceUnavailable]
	if v.bookings < told || v.bookings > told+perhaps {
		t.Errorf("%d bookings, and %d clients were told of one, and %d that there may be one", v.bookings, told, perhaps)
	}
}
