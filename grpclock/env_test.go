package grpclock_test

import (
	"testing"

	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/internal/rig"
	"github.com/lockmw/kit/lockmw"
)

// The lock of the usual rule, in words that no status may show.
const (
	prefix  = "topprefix:"
	id      = "secretid"
	lockKey = prefix + "order:" + id
)

// An env is one case's Redis, Locker, server and client. What its Rig counts
// as runs are the messages that handlers got to work on.
type env struct {
	*rig.Rig
	doors
	remote
}

// newEnv opens a Locker on backend. Everything is closed when the test ends.
func newEnv(tb testing.TB, d doors, backend redistest.Backend) *env {
	tb.Helper()
	return &env{Rig: rig.New(tb, backend), doors: d}
}

// hold takes the lock of the usual rule.
func (e *env) hold() *lockmw.Lease { return e.Take(lockKey) }
