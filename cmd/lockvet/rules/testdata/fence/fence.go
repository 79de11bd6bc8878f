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

// A shop has a database within, as sqlx's and bun's types have.
type shop struct{ *sql.DB }

// A unit is a transaction with something more.
type unit struct {
	*sql.Tx

	orders int
}

// An adapter is one for a library whose transactions have a Commit of their own.
type adapter struct{ committer }

type committer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Commit(ctx context.Context) error
}

func guardsOthers(ctx context.Context, db shop, work *unit, tx adapter, anything fence.Tx, either committer, lease *lockmw.Lease) {
	_ = fence.Postgres.Guard(ctx, db, lease)         // want `a fences.shop is no transaction`
	_ = fence.Postgres.Guard(ctx, &db, lease)        // want `a \*fences.shop is no transaction`
	_ = fence.Postgres.Guard(ctx, onlyExec{}, lease) // want `a fences.onlyExec is no transaction`
	_ = fence.Postgres.Guard(ctx, work, lease)
	_ = fence.Postgres.Guard(ctx, tx, lease)
	_ = fence.Postgres.Guard(ctx, anything, lease) // nobody knows what is inside
	_ = fence.Postgres.Guard(ctx, either, lease)
	_ = fence.Postgres.Guard(ctx, nil, lease)
}

func guardsAny[T fence.Tx](ctx context.Context, tx T, lease *lockmw.Lease) error {
	return fence.Postgres.Guard(ctx, tx, lease)
}

type onlyExec struct{}

func (onlyExec) ExecContext(context.Context, string, ...any) (sql.Result, error) { return nil, nil }
