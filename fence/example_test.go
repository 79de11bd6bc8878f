package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// A Redis that has forgotten a lock gives it to a second holder, and the first one knows nothing of that yet. Its work is refused where
// the data is.
func ExampleDialect_Guard() {
	client, closeAll := redistest.Example() // in a service: a client of its Redis
	defer closeAll()
	locks, err := lockmw.New(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	db := sql.OpenDB(newFake()) // in a service: its database, with the table of fence.Postgres.Schema()
	defer db.Close()
	ctx := context.Background()
	defer locks.Close(ctx)

	pay := func(ctx context.Context) error {
		lease, _ := lockmw.FromContext(ctx)
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return errors.Join(err, context.Cause(ctx)) // the lock may be lost by now
		}
		defer tx.Rollback()
		if err := fence.Postgres.Guard(ctx, tx, lease); err != nil {
			return err
		}
		// … the statements of the work, in tx
		return tx.Commit()
	}

	first, lease, err := locks.Acquire(ctx, "42", lockmw.Policy{Prefix: "order:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	client.FlushAll(ctx)
	second, lease, err := locks.Acquire(ctx, "42", lockmw.Policy{Prefix: "order:"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	fmt.Println("second:", pay(second))
	fmt.Println("first is stale:", errors.Is(pay(first), fence.ErrStale))
	// Output:
	// second: <nil>
	// first is stale: true
}
