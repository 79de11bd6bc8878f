// Package fence makes a database refuse writers whose lock somebody else has had since. It compares fences where the data is, in
// the transaction of the work.
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
// A lock in Redis is only as good as Redis's memory. When Redis forgets a lock, two holders may be at work at the same time. A
// holder that was stopped in the middle may go on long after another one has begun. So each lease has a fence, a number that
// grows from holder to holder (lockmw.Lease.Fence). For each lock, a table keeps the highest fence with which somebody has
// written under it. Guard raises this number to the fence of the lease, or returns ErrStale if the number is higher already. It
// does so in the transaction of the work, so the row is locked until the transaction ends. Of two holders, the later one waits
// for the earlier one's commit. Once the later one has written, the earlier one is refused.
//
// Create the table in a migration, with the statement that Schema returns. For users, Postgres, MySQL (also for MariaDB) and
// SQLite differ in nothing else.
//
// # What is not promised
//
//   - Rows are guarded only from those who call Guard. A writer that does not call it is not hindered, and hinders nobody.
//   - Guard orders writes. It does not say whether the work was already done: read that after Guard.
//   - Guard must be the first statement. What a transaction has read before may be older than the last holder's work.
//   - A late writer is refused after a later holder has called Guard, not before.
//   - Fences follow the clock of Redis's server. If that clock is set back and Redis has forgotten its locks, the holders from
//     before have the higher fences until the clock has caught up. If one of them has called Guard, later holders are refused. If
//     none has, they are not refused when they come late. StaleError.Behind says for how long, and Forget is the way out.
//   - What guards is a row that the transaction has locked. The guard ends with the transaction, also if the database has ended
//     it; see Guard.
//   - While the transaction of an earlier holder lasts, Guard waits for it, as for any locked row. Set lock_timeout (PostgreSQL),
//     innodb_lock_wait_timeout (MySQL) or busy_timeout (SQLite).
//
// docs/fences.md says what it costs, and how to use it with sqlx, gorm and pgx.
package fence
