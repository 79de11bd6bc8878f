// Package fence has a database refuse writers whose lock somebody else has had since: it compares fences where the data is, in the
// transaction of the work.
//
//	tx, err := db.BeginTx(ctx, nil)
//	if err != nil {
//		return errors.Join(err, context.Cause(ctx)) // the lock may be lost by now
//	}
//	defer tx.Rollback()
//	if err := fence.Postgres.Guard(ctx, tx, lease); err != nil { // the first statement
//		return err
//	}
//	if _, err := tx.ExecContext(ctx, "UPDATE accounts SET balance = balance - 10 WHERE id = 42"); err != nil {
//		return err
//	}
//	return tx.Commit()
//
// A lock in Redis is as good as Redis's memory: when that forgets, two holders may be at work at the same time, and a holder that
// was stopped in the middle may go on when another one has long been there. Each lease has a fence, a number that grows from holder
// to holder (lockmw.Lease.Fence). A table keeps the highest fence with which each lock was written under; Guard raises it to that of the lease,
// or returns ErrStale if it is higher already. As it does so in the transaction of the work, the row is locked until that ends: of two
// holders the later one waits for the earlier one's commit, and the earlier one cannot begin once the later one has.
//
// Create the table that Schema prints, by a migration. Postgres, MySQL (also for MariaDB) and SQLite differ in nothing else for who uses them.
//
// # What is not promised
//
//   - Rows are guarded from those who call Guard. Who writes them without it is not hindered, and hinders nobody.
//   - Guard orders writes, and does not say whether the work was done already: read that behind it.
//   - Guard must be the first statement. What a transaction has read before may be older than the last holder's work.
//   - A late writer is refused after a later holder has called Guard, not before.
//   - Fences follow the clock of Redis's server. If that is set back and Redis has forgotten its locks, the holders from before have the
//     higher fences until it has caught up: where one of them has called Guard, later holders are refused, and where not, it is not refused when it comes
//     late. StaleError.Behind says for how long, and Forget is the way out.
//   - What guards is a row that the transaction has locked: it ends with the transaction, also where the database has ended that, see Guard.
//   - While the transaction of an earlier holder lasts, Guard waits for it, as for any locked row: set lock_timeout (PostgreSQL),
//     innodb_lock_wait_timeout (MySQL) or busy_timeout (SQLite).
//
// docs/fences.md has what it costs, and how it fits to sqlx, gorm and pgx.
//
// The code begins in guard.go; dialect.go has what the databases are asked, and errors.go what they may answer.
package fence
