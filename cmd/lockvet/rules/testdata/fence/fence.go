package fences

import (
	"context"
	"database/sql"
	"time"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/lockmw"
)

func guards(ctx context.Context, db *sql.DB, conn *sql.Conn, tx *sql.Tx, lease *lockmw.Lease) {
	_ = fence.Postgres.Guard(ctx, db, lease)                 // want `a \*sql.DB is no transaction`
	_ = fence.MySQL.Guard(ctx, conn, lease)                  // want `a \*sql.Conn is no transaction`
	_ = fence.Postgres.AllowUnfenced().Guard(ctx, db, lease) // want `a \*sql.DB is no transaction`
	_ = fence.Postgres.Guard(ctx, tx, lease)
	_, _ = fence.SQLite.Forget(ctx, db, "lock:{42}")
	_, _ = fence.SQLite.Purge(ctx, db, time.Hour)
}
