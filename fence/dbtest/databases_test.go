package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/mattn/go-sqlite3"

	"github.com/lockmw/kit/fence"
)

// A database is one kind of it, as a program opens it.
type database struct {
	name    string
	dialect fence.Dialect
	open    func(t testing.TB, impatient bool) *sql.DB // impatient: it waits for a lock for a moment only
	levels  []sql.IsolationLevel
}

var (
	ofPostgres = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
	ofMariaDB  = []sql.IsolationLevel{sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
	ofSQLite   = []sql.IsolationLevel{sql.LevelDefault}
)

var databases = []database{
	{"PostgreSQL", fence.Postgres, openPostgres, ofPostgres},
	{"MariaDB", fence.MySQL, mariaDB(""), ofMariaDB},
	{"MariaDB with clientFoundRows", fence.MySQL, mariaDB("clientFoundRows=true&interpolateParams=true"), ofMariaDB[1:3]},
	{"SQLite, WAL", fence.SQLite, sqlite("_journal_mode=WAL"), ofSQLite},
	{"SQLite, WAL, immediate", fence.SQLite, sqlite("_journal_mode=WAL&_txlock=immediate"), ofSQLite},
	{"SQLite, rollback journal", fence.SQLite, sqlite("_journal_mode=DELETE"), ofSQLite},
}

func openPostgres(t testing.TB, impatient bool) *sql.DB {
	t.Helper()
	options := ""
	if impatient {
		options = "lock_timeout=200"
	}
	return postgres.open(t, options)
}

func mariaDB(options string) func(t testing.TB, impatient bool) *sql.DB {
	return func(t testing.TB, impatient bool) *sql.DB {
		t.Helper()
		if impatient {
			options := options + "&innodb_lock_wait_timeout=1"
			return mariadb.open(t, strings.TrimPrefix(options, "&"))
		}
		return mariadb.open(t, options)
	}
}

func sqlite(options string) func(t testing.TB, impatient bool) *sql.DB {
	return func(t testing.TB, impatient bool) *sql.DB {
		t.Helper()
		patience := 30_000
		if impatient {
			patience = 100
		}
		return open(t, "sqlite3", fmt.Sprintf("file:%s?%s&_synchronous=OFF&_busy_timeout=%d", filepath.Join(t.TempDir(), "data"), options, patience))
	}
}

// each runs a test for each database, with an empty table.
func each(t *testing.T, test func(t *testing.T, d database, db *sql.DB)) {
	t.Helper()
	on(t, databases, test)
}

// eachServer is each without SQLite, in which one writes at a time, and there is one isolation level.
func eachServer(t *testing.T, test func(t *testing.T, d database, db *sql.DB)) {
	t.Helper()
	on(t, slices.DeleteFunc(slices.Clone(databases), func(d database) bool { return d.dialect == fence.SQLite }), test)
}

func on(t *testing.T, databases []database, test func(t *testing.T, d database, db *sql.DB)) {
	t.Helper()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			db := d.open(t, false)
			do(t, db, "DROP TABLE IF EXISTS lockmw_fences", d.dialect.Schema())
			test(t, d, db)
		})
	}
}

func do(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// begin begins a transaction, which the test's end rolls back.
func begin(t testing.TB, db *sql.DB, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// code is what the database calls an error.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return fmt.Sprint(e.Number)
	}
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		return fmt.Sprint("SQLite ", int(e.Code))
	}
	return ""
}

const sqliteBusy = "SQLite 5"

// again reports whether an error of a database says that the transaction is to be done again.
func again(err error) bool {
	return slices.Contains([]string{"40001", "40P01", "1213", "1020", sqliteBusy}, code(err))
}
