package fence

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
)

// A Dialect is a kind of database: Postgres, MySQL or SQLite. It is a value that may be copied and used concurrently.
// The zero Dialect is none of them: Guard, Purge and Forget return an error, and Schema returns an empty text.
type Dialect struct {
	language *language
	unfenced bool
}

// The databases.
var (
	// Postgres is PostgreSQL. Guard runs one statement for each key.
	Postgres = Dialect{language: &language{
		schema: `CREATE TABLE IF NOT EXISTS lockmw_fences (
	redis_key BYTEA PRIMARY KEY,
	fence     BIGINT NOT NULL
) WITH (fillfactor = 90);
`,
		raise: `INSERT INTO lockmw_fences AS f (redis_key, fence) VALUES ($1, $2)
ON CONFLICT (redis_key) DO UPDATE SET fence = EXCLUDED.fence WHERE f.fence <= EXCLUDED.fence`,
		read:   `SELECT fence FROM lockmw_fences WHERE redis_key = $1`,
		forget: `DELETE FROM lockmw_fences WHERE redis_key = $1`,
		purge:  `DELETE FROM lockmw_fences WHERE fence < $1`,
	}}

	// MySQL is MySQL and MariaDB. Guard runs two statements for each key. The table is of InnoDB.
	MySQL = Dialect{language: &language{
		schema: `CREATE TABLE IF NOT EXISTS lockmw_fences (
	redis_key VARBINARY(1024) NOT NULL PRIMARY KEY,
	fence     BIGINT NOT NULL,
	guards    BIGINT NOT NULL DEFAULT 0,
	KEY lockmw_fences_fence (fence)
) ENGINE = InnoDB;
`,
		raise:    `INSERT INTO lockmw_fences (redis_key, fence) VALUES (?, ?) ON DUPLICATE KEY UPDATE fence = GREATEST(fence, ?), guards = guards + 1`,
		readBack: true,
		read:     `SELECT fence FROM lockmw_fences WHERE redis_key = ? FOR UPDATE`,
		forget:   `DELETE FROM lockmw_fences WHERE redis_key = ?`,
		purge:    `DELETE f FROM lockmw_fences AS f FORCE INDEX (lockmw_fences_fence) WHERE f.fence < ?`, // or all rows are locked
	}}

	// SQLite is SQLite 3.24 or newer. Guard runs one statement for each key.
	SQLite = Dialect{language: &language{
		schema: `CREATE TABLE IF NOT EXISTS lockmw_fences (
	redis_key BLOB PRIMARY KEY NOT NULL,
	fence     INTEGER NOT NULL
) WITHOUT ROWID;
`,
		raise: `INSERT INTO lockmw_fences (redis_key, fence) VALUES (?, ?)
ON CONFLICT (redis_key) DO UPDATE SET fence = excluded.fence WHERE lockmw_fences.fence <= excluded.fence`,
		read:   `SELECT fence FROM lockmw_fences WHERE redis_key = ?`,
		forget: `DELETE FROM lockmw_fences WHERE redis_key = ?`,
		purge:  `DELETE FROM lockmw_fences WHERE fence < ?`,
	}}
)

// A language is what a database is asked.
type language struct {
	schema string

	// raise raises the fence of a key to another one, and leaves it if it is higher already. The row is written also where its fence is equal: in a
	// Galera cluster two transactions at different nodes see each other's rows only if both have written them. MySQL takes what stays the same for
	// nothing written, so that it counts guards as well.
	raise string

	// readBack says that the number of rows that raise has changed does not tell whether the fence was higher, so that it has to be read. MySQL
	// counts none for an equal and for a higher one, or, where clients ask for the rows that were found, one for either. raise takes the fence twice then.
	readBack bool

	read   string // the fence of a key, in a transaction that has its row locked
	forget string
	purge  string
}

// Schema returns the statement that creates the table lockmw_fences if it is not there, for a migration. (In PostgreSQL it may
// fail if two run it at the same time.) Each row has the key of a lock in Redis, as bytes, and the highest fence with which
// somebody has written under that lock. The key order:42 in the namespace "lock" is "lock:{order:42}" in Redis.
//
// In PostgreSQL and SQLite, the column fence has no index, because an index would cost each Guard more than it saves Purge. MySQL
// needs one: without it, Purge would lock all rows, and wait for all who are at work.
func (d Dialect) Schema() string {
	if d.language == nil {
		return ""
	}
	return d.language.schema
}

// AllowUnfenced returns a Dialect whose Guard also lets leases pass that have no fence. These are the leases of work that runs
// without its lock, by Policy.FailOpen or because a live setting says off, and those of a quorum. Nothing guards what they write:
// a late write may undo the work of a later holder. For each, observers are told EventUnfenced. Leases that have a fence are
// still guarded.
//
//	var guard = fence.Postgres.AllowUnfenced()
func (d Dialect) AllowUnfenced() Dialect {
	d.unfenced = true
	return d
}

// shortest is the least that Purge takes.
const shortest = time.Hour

// Purge deletes the fences that are older than olderThan, so that the table does not grow for ever, and returns how many it has
// deleted. A *sql.DB does as well as a transaction. Run it once a day or so, from any process:
//
//	_, err := fence.Postgres.Purge(ctx, db, 7*24*time.Hour)
//
// A holder that is older than that is not refused any more. So take a time that is longer than any process may be stopped and
// then go on. It must also be longer than clocks may differ, because Purge counts back from the clock of the calling process.
// Less than an hour is an error.
func (d Dialect) Purge(ctx context.Context, tx Tx, olderThan time.Duration) (deleted int64, err error) {
	if olderThan < shortest {
		return 0, fmt.Errorf("fence: purge what is older than %v: less than %v would let late writers pass", olderThan, shortest)
	}
	return d.remove(ctx, tx, "purge", func(l *language) string { return l.purge }, time.Now().Add(-olderThan).UnixMicro())
}

// Forget deletes the fence of one lock, and reports whether there was one. redisKey is the lock's key in Redis, such as
// "lock:{order:42}"; StaleError.RedisKey has it. A text that is no such key, such as "order:42", is an error. A *sql.DB does as
// well as a transaction.
//
// Forget is for operators, when fences are ahead of Redis's clock: Redis has moved to a machine whose clock is behind, or its
// clock was set back. Holders then get ErrStale until the clock has caught up, be it a millisecond or an hour. Before you forget
// a fence, make sure that no earlier holder is at work any more: it would not be refused.
func (d Dialect) Forget(ctx context.Context, tx Tx, redisKey string) (forgotten bool, err error) {
	if !strings.Contains(redisKey, ":{") || !strings.HasSuffix(redisKey, "}") {
		return false, fmt.Errorf(`fence: forget %q: a lock's key in Redis is like "lock:{order:42}", see StaleError.RedisKey`, redisKey)
	}
	n, err := d.remove(ctx, tx, "forget", func(l *language) string { return l.forget }, []byte(redisKey))
	return n > 0, err
}

// remove runs a statement that deletes rows.
func (d Dialect) remove(ctx context.Context, tx Tx, what string, query func(*language) string, arg any) (int64, error) {
	if err := d.check(tx); err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, query(d.language), arg)
	if err != nil {
		return 0, fmt.Errorf("fence: %s: %w", what, err)
	}
	return affected(what, result)
}

// check returns nil if something can be asked.
func (d Dialect) check(tx Tx) error {
	switch {
	case d.language == nil:
		return errNoDialect
	case isNil(tx):
		return errNoTx
	}
	return nil
}

// affected returns how many rows a statement has changed.
func affected(what string, result sql.Result) (int64, error) {
	n, err := result.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("fence: %s: the driver does not tell how many rows were changed: %w", what, err)
	}
	return n, nil
}
