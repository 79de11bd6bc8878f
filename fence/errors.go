package fence

import (
	"errors"
	"fmt"
	"time"
)

// The errors with which Guard refuses work. Test for them with errors.Is.
var (
	// ErrStale: a later holder of the lock has written. Roll back: what the work would have done is out of date. *StaleError has
	// the details.
	ErrStale = errors.New("fence: stale")

	// ErrUnfenced: the lease has no fence to compare. Either the work runs without its lock (Policy.FailOpen, or a live setting
	// says off), or the lock is one of a quorum. AllowUnfenced lets such work pass.
	ErrUnfenced = errors.New("fence: the lease has no fence")

	errNoLease   = errors.New("fence: no lease: there is nothing to guard with; in a handler, is the middleware in front of it?")
	errShared    = errors.New("fence: others may hold the lock at the same time, and none of them is the later one: only a lock with one holder guards")
	errNoDialect = errors.New("fence: the zero Dialect: take Postgres, MySQL or SQLite")
	errNoTx      = errors.New("fence: no transaction: it is nil")
	errNoQuery   = errors.New("fence: MySQL needs a transaction that has QueryRowContext or QueryFence, see Tx")
)

// A StaleError says which write is refused. It Is ErrStale.
//
// Behind tells a late writer from a clock that was set back. A late writer is behind by the time that has passed between the two
// holders. If there was no later holder, Redis has lost its data, and its clock is behind the one that it had before. Each holder
// is then refused until the time that Behind returns is over, or until an operator has had the fence forgotten.
type StaleError struct {
	Key      string // the policy's prefix and the key
	RedisKey string // the lock's key in Redis, by which Forget and the table know it
	Fence    int64  // of the lease
	Highest  int64  // of the later holder; 0 if it is not known, because the transaction cannot be asked, see Tx
}

// Behind returns by how much the lease is older than the last holder that has written; 0 if that is not known.
func (e *StaleError) Behind() time.Duration {
	if e.Highest == 0 {
		return 0
	}
	return time.Duration(e.Highest-e.Fence) * time.Microsecond
}

// Error says which lock the error is about, and by how much the lease is behind.
func (e *StaleError) Error() string {
	behind := ""
	if e.Highest != 0 {
		behind = fmt.Sprintf(", %v after this one", e.Behind())
	}
	return fmt.Sprintf("fence: stale: a later holder of %q has written%s: roll back", e.Key, behind)
}

// Unwrap returns ErrStale.
func (e *StaleError) Unwrap() error { return ErrStale }
