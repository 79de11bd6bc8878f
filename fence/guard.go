package fence

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// Tx is the transaction of the work. *sql.Tx is one. So are the transactions of sqlx, and those of gorm as tx.Statement.ConnPool.
//
// Guard takes for a transaction what has a method Commit, with any parameters and results. It refuses what has none, such as a
// *sql.DB.
//
// A Tx should also have QueryRowContext, as *sql.Tx has it. Where there is no *sql.Row, it should have
//
//	QueryFence(ctx context.Context, query string, args ...any) (fence int64, err error)
//
// which returns the one number that a query gives. MySQL needs one of the two. With the other databases, if both are missing, a
// StaleError does not say by how much the lease is behind. docs/fences.md shows the six lines for pgx.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Guard refuses the work of a transaction if a later holder of the lock has written: the error then Is ErrStale. Guard must be
// the first statement of the transaction, because what was read before may be out of date. After any error, roll back the
// transaction. Until it ends, all other holders of the lock wait in their Guard.
//
// A lease may be of several keys, and there may be several leases. All are guarded, in one order for all callers. Call Guard once
// for all of them, because two calls in different orders can deadlock. A lease that has joined another one (Policy.Reentrant)
// counts as that one. One holder may guard as many transactions as it likes.
//
// These are refused before the database is asked:
//
//   - a lease that is not Valid any more. The error then Is lockmw.ErrLost, ErrMaxHold or ErrReleased. A Valid lease is no
//     promise that the lock is still there: that is what the fence is for;
//   - a lease without a fence, with ErrUnfenced, see AllowUnfenced;
//   - leases of readers and of holders of permits: as they work at the same time, none of them is late;
//   - a nil lease, and a call without leases;
//   - a tx without a method Commit, such as a *sql.DB or a *sql.Conn: the check would be over before the work begins.
//
// A lease in shadow holds no lock, and passes. If it was taken under another lease, that lease is guarded in its place. If not,
// observers are told EventUnfenced. When a write is refused as stale, observers are told EventStale.
//
// What guards is the row that the transaction has locked. So the guard ends with the transaction, whoever ends the transaction.
// After an error of any statement, also of the work, roll back: SQLite and MySQL may have done so already, and each later
// statement would be committed by itself. MySQL commits before a statement that changes the schema. If a savepoint is rolled
// back, a Guard within it is undone too.
//
// Any other error is the database's, wrapped once. These are never ErrStale: a serialization failure (40001), a deadlock (40P01,
// or 1213 in MySQL), a row that has changed since the snapshot (1020 in MariaDB) and SQLITE_BUSY. Roll back, and begin again.
func (d Dialect) Guard(ctx context.Context, tx Tx, leases ...*lockmw.Lease) error {
	if err := d.check(tx); err != nil {
		return err
	}
	if !isTransaction(tx) {
		return fmt.Errorf("fence: Guard needs the transaction of the work, not a %T: the check would be over before the work begins", tx)
	}
	locks, unfenced, err := d.locksOf(leases)
	if err != nil {
		return err
	}
	for _, l := range locks {
		if err := d.raise(ctx, tx, l); err != nil {
			if errors.Is(err, ErrStale) {
				seam.Guarded(l.lease, l.key, err)
			}
			return err
		}
	}
	for _, l := range unfenced {
		seam.Guarded(l.lease, l.key, nil)
	}
	return nil
}

// A lock is one that is to be guarded with.
type lock struct {
	lease    *lockmw.Lease
	key      string
	redisKey []byte
	fence    int64
}

// locksOf returns the locks of leases, in the order in which they are guarded, and those that pass without.
func (d Dialect) locksOf(leases []*lockmw.Lease) (locks, unfenced []lock, err error) {
	if len(leases) == 0 {
		return nil, nil, errNoLease
	}
	for _, lease := range leases {
		if err := usable(lease); err != nil {
			return nil, nil, err
		}
		if outer, ok := seam.Outer(lease).(*lockmw.Lease); ok && lease.Shadow() {
			l, u, err := d.locksOf([]*lockmw.Lease{outer})
			if err != nil {
				return nil, nil, err
			}
			locks, unfenced = append(locks, l...), append(unfenced, u...)
			continue
		}
		for _, f := range seam.Fences(lease) {
			l := lock{lease, f.Key, []byte(f.RedisKey), f.Fence}
			switch {
			case f.Shared:
				return nil, nil, fmt.Errorf("%w: %s", errShared, lease)
			case f.Fence == 0 && !d.unfenced && !lease.Shadow():
				return nil, nil, fmt.Errorf("%w: %s", ErrUnfenced, lease)
			case f.Fence == 0:
				unfenced = append(unfenced, l)
			default:
				locks = append(locks, l)
			}
		}
	}
	slices.SortFunc(locks, func(a, b lock) int {
		return cmp.Or(bytes.Compare(a.redisKey, b.redisKey), cmp.Compare(b.fence, a.fence)) // of one key the latest first: an earlier one is stale beside it
	})
	return locks, unfenced, nil
}

// usable returns nil if work may be done under the lease, as far as this process knows.
func usable(lease *lockmw.Lease) error {
	if lease == nil {
		return errNoLease
	}
	if lease.Valid() {
		return nil
	}
	why := context.Cause(lease.Context())
	if !errors.Is(why, lockmw.ErrLost) && !errors.Is(why, lockmw.ErrMaxHold) && !errors.Is(why, lockmw.ErrReleased) {
		why = lockmw.ErrLost // its caller's context may have ended before
	}
	return fmt.Errorf("fence: the lease of %q is not valid any more: %w", lease.Key(), why)
}

// raise raises the fence of one lock, or returns a *StaleError.
func (d Dialect) raise(ctx context.Context, tx Tx, l lock) error {
	what := fmt.Sprintf("guard %q", l.key)
	args := []any{l.redisKey, l.fence}
	if d.language.readBack {
		args = append(args, l.fence)
	}
	result, err := tx.ExecContext(ctx, d.language.raise, args...)
	if err != nil {
		return fmt.Errorf("fence: %s: %w", what, err)
	}
	stale := &StaleError{Key: l.key, RedisKey: string(l.redisKey), Fence: l.fence}
	if !d.language.readBack {
		n, err := affected(what, result)
		if err != nil || n > 0 {
			return err
		}
		if highest, err := queryFence(ctx, tx, d.language.read, l.redisKey); err == nil {
			stale.Highest = highest // otherwise it is stale all the same
		}
		return stale
	}
	stale.Highest, err = queryFence(ctx, tx, d.language.read, l.redisKey)
	switch {
	case err != nil:
		return fmt.Errorf("fence: %s: %w", what, err)
	case stale.Highest > l.fence:
		return stale
	}
	return nil
}

// queryFence returns what a query says.
func queryFence(ctx context.Context, tx Tx, query string, arg any) (fence int64, err error) {
	switch tx := tx.(type) {
	case interface {
		QueryFence(ctx context.Context, query string, args ...any) (fence int64, err error)
	}:
		return tx.QueryFence(ctx, query, arg)
	case interface {
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}:
		err = tx.QueryRowContext(ctx, query, arg).Scan(&fence)
		return fence, err
	}
	return 0, errNoQuery
}

// isTransaction reports whether tx can be one: what can be committed is.
func isTransaction(tx Tx) bool { return reflect.ValueOf(tx).MethodByName("Commit").IsValid() }

func isNil(tx Tx) bool {
	v := reflect.ValueOf(tx)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
