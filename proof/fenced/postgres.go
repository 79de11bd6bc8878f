package fenced

import (
	"context"
	"database/sql"
	"errors"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/lockmw"
)

// A Database is a store in PostgreSQL, in which fence.Postgres.Guard refuses late writers, as it does for a service. It may be used concurrently.
type Database struct{ db *sql.DB }

// schema has a row for each key, with the number of its writes. A write locks the row until it is committed, so the numbers are the order of the
// writes, also if nothing guards them.
const schema = "CREATE TABLE IF NOT EXISTS written (key TEXT PRIMARY KEY, place BIGINT NOT NULL);"

// connections are how many a process has at most: 18 processes together have fewer than the server allows.
const connections = 8

// OpenDatabase opens a store, by what the driver calls it. Create has to have been called before.
func OpenDatabase(source string) (*Database, error) {
	db, err := sql.Open("pgx", source)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return &Database{db}, nil
}

// Create makes the tables of the store.
func (d *Database) Create(ctx context.Context) error {
	_, err := d.db.ExecContext(ctx, fence.Postgres.Schema()+schema)
	return err
}

// Write asks the store to accept a write to key under a lease. Its place is one among the writes to this key; a write that was refused has none. A
// lease that has ended, as far as this process knows, is refused before the database is asked.
func (d *Database) Write(ctx context.Context, lease *lockmw.Lease, key string) (a Answer, err error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := fence.Postgres.Guard(ctx, tx, lease); err != nil {
		return refused(err)
	}
	const next = "INSERT INTO written VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET place = written.place + 1 RETURNING place"
	if err := tx.QueryRowContext(ctx, next, key).Scan(&a.Place); err != nil {
		return Answer{}, err
	}
	if err := tx.Commit(); err != nil {
		return Answer{}, err
	}
	a.Accepted = true
	return a, nil
}

// refused makes an answer of Guard's error, if that says that the write comes too late.
func refused(err error) (Answer, error) {
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		return Answer{Highest: stale.Highest}, nil
	}
	if errors.Is(err, lockmw.ErrLost) || errors.Is(err, lockmw.ErrReleased) || errors.Is(err, lockmw.ErrMaxHold) {
		return Answer{}, nil
	}
	return Answer{}, err
}

// Close closes the connections.
func (d *Database) Close() error { return d.db.Close() }
