package dbtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jmoiron/sqlx"
	gormsqlite "gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/lockmw/kit/fence"
	"github.com/lockmw/kit/lockmw"
)

// What docs/fences.md shows, and whether it works.

// pgxTx is a transaction of pgx, as Guard takes one.
type pgxTx struct{ pgx.Tx }

func (t pgxTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := t.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

func (t pgxTx) QueryFence(ctx context.Context, query string, args ...any) (fence int64, err error) {
	err = t.QueryRow(ctx, query, args...).Scan(&fence)
	return fence, err
}

func withPgx(ctx context.Context, conn *pgx.Conn, lease *lockmw.Lease, id int) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := fence.Postgres.Guard(ctx, pgxTx{tx}, lease); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "UPDATE accounts SET n = n + 1 WHERE id = $1", id)
		return err
	})
}

func withSqlx(ctx context.Context, db *sqlx.DB, lease *lockmw.Lease, id int) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fence.SQLite.Guard(ctx, tx, lease); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET n = n + 1 WHERE id = ?", id); err != nil {
		return err
	}
	return tx.Commit()
}

func withGorm(ctx context.Context, db *gorm.DB, lease *lockmw.Lease, id int) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := fence.SQLite.Guard(ctx, tx.Statement.ConnPool, lease); err != nil {
			return err
		}
		return tx.Exec("UPDATE accounts SET n = n + 1 WHERE id = ?", id).Error
	})
}

const accounts = "CREATE TABLE accounts (id INT PRIMARY KEY, n INT)"

// behindEachOther runs work by an earlier holder, a later one, and again the earlier one.
func behindEachOther(t *testing.T, db *sql.DB, work func(lease *lockmw.Lease) error) {
	t.Helper()
	early, late := two(t)
	do(t, db, "INSERT INTO accounts VALUES (1, 0)")
	for _, lease := range []*lockmw.Lease{early, late, late} {
		if err := work(lease); err != nil {
			t.Error(err)
		}
	}
	err := work(early)
	if stale, ok := errors.AsType[*fence.StaleError](err); !ok || stale.Behind() <= 0 {
		t.Errorf("err = %v, want a StaleError that says by how much", err)
	}
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT n FROM accounts WHERE id = 1").Scan(&n); err != nil || n != 3 {
		t.Errorf("n = %d, %v; want 3", n, err)
	}
}

func TestTransactionsOfPgx(t *testing.T) {
	db := openPostgres(t, false)
	do(t, db, "DROP TABLE IF EXISTS lockmw_fences", "DROP TABLE IF EXISTS accounts", accounts, fence.Postgres.Schema())
	conn, err := pgx.Connect(t.Context(), postgres.Source(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	behindEachOther(t, db, func(lease *lockmw.Lease) error { return withPgx(t.Context(), conn, lease, 1) })
}

func TestTransactionsOfSqlx(t *testing.T) {
	db := sqlx.NewDb(open(t, "sqlite3", "file:"+filepath.Join(t.TempDir(), "data")), "sqlite3")
	do(t, db.DB, accounts, fence.SQLite.Schema())
	behindEachOther(t, db.DB, func(lease *lockmw.Lease) error { return withSqlx(t.Context(), db, lease, 1) })
	_, lease := two(t)
	if err := fence.SQLite.Guard(t.Context(), db, lease); err == nil {
		t.Error("a database of sqlx is taken for a transaction")
	}
}

func TestTransactionsOfGorm(t *testing.T) {
	for _, prepared := range []bool{false, true} {
		db, err := gorm.Open(gormsqlite.Open("file:"+filepath.Join(t.TempDir(), "data")), &gorm.Config{PrepareStmt: prepared})
		if err != nil {
			t.Fatal(err)
		}
		plain, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { plain.Close() })
		do(t, plain, accounts, fence.SQLite.Schema())
		behindEachOther(t, plain, func(lease *lockmw.Lease) error { return withGorm(t.Context(), db, lease, 1) })
		_, lease := two(t)
		if err := fence.SQLite.Guard(t.Context(), db.Statement.ConnPool, lease); err == nil {
			t.Errorf("PrepareStmt %v: a database of gorm is taken for a transaction", prepared)
		}
	}
}
