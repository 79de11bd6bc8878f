package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/lockmw"
)

// Eight holders guard with several locks each, new ones and those that are in the table, which lie between each other's there, and meanwhile old
// rows are removed. Nobody waits in a circle, in any isolation level: whoever guards once, with all that it has, meets no deadlock.
func TestGuardsOfNewKeysMeetNoDeadlock(t *testing.T) {
	const rounds = 8
	each(t, func(t *testing.T, d database, db *sql.DB) {
		for _, level := range d.levels {
			do(t, db, "DELETE FROM lockmw_fences")
			locks, _ := embedded(t)
			ctx, end := context.WithCancel(t.Context())
			var purging, working sync.WaitGroup
			purging.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO lockmw_fences (redis_key, fence) VALUES ('lock:{%v 2 of %d old}', 1)", level, i)); err != nil && ctx.Err() == nil && !again(err) {
						t.Error(err)
					}
					if _, err := d.dialect.Purge(ctx, db, time.Hour); err != nil && ctx.Err() == nil && !again(err) {
						t.Error(err)
					}
				}
			})
			var repeated atomic.Int64
			for w := range writers {
				leases := make([]*lockmw.Lease, 4)
				for i := range leases {
					leases[i] = acquire(t, locks, fmt.Sprintf("%v %d of %d", level, i, w))
				}
				working.Go(func() {
					for round := range rounds {
						with := leases[:1+round*len(leases)/rounds] // the later ones are new
						err := guardedAt(d, db, level, with)
						for again(err) {
							if c := code(err); c == "40P01" || c == "1213" {
								t.Errorf("%v: a deadlock: %v", level, err)
							}
							repeated.Add(1)
							err = guardedAt(d, db, level, with)
						}
						if err != nil {
							t.Errorf("%v: %v", level, err)
						}
					}
				})
			}
			working.Wait()
			end()
			purging.Wait()
			t.Logf("%v: %d of %d transactions were done again", level, repeated.Load(), writers*rounds)
		}
	})
}

// guardedAt is a transaction that guards, at a level.
func guardedAt(d database, db *sql.DB, level sql.IsolationLevel, leases []*lockmw.Lease) error {
	ctx := context.Background()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	if err := d.dialect.Guard(ctx, tx, leases...); err != nil {
		if errors.Is(err, fence.ErrStale) {
			err = fmt.Errorf("nobody is late: %w", err)
		}
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
