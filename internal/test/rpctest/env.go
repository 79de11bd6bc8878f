package rpctest

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// The lock of the usual rule, in words that no status may show.
const (
	prefix  = "topprefix:"
	id      = "secretid"
	lockKey = prefix + "order:" + id
)

// An env is one case's Redis, Locker, server and client. What its Env counts
// as runs are the messages that handlers got to work on.
type env struct {
	*testenv.Env
	fw    Framework
	fault *Fault // of the door, or nil
	conn  grpc.ClientConnInterface
	shop  testpb.ShopClient
}

// newEnv opens a Locker on backend. Everything is closed when the test ends.
func newEnv(tb testing.TB, fw Framework, fault *Fault, backend redistest.Backend) *env {
	tb.Helper()
	return &env{Env: testenv.New(tb, backend), fw: fw, fault: fault}
}

// hold takes the lock of the usual rule.
func (e *env) hold() *lockmw.Lease { return e.Take(lockKey) }
