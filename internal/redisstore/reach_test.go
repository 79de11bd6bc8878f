package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// reply is a server's refusal, as go-redis returns it.
type reply string

func (r reply) Error() string { return string(r) }

// RedisError implements redis.Error.
func (reply) RedisError() {}

func dial(err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: err}
}

func sysErr(name string, number syscall.Errno) error {
	return os.NewSyscallError(name, number)
}

// The whole list of what counts as away, which is all that may have work run without
// its lock, and what looks like it and does not. Texts are those of Redis 6 to 8 and
// Valkey 8 and 9.
func TestWhatCountsAsAway(t *testing.T) {
	for _, c := range []struct {
		err       error
		evidence  store.Evidence
		permanent bool
	}{
		{dial(sysErr("connect", syscall.ECONNREFUSED)), store.Unreachable, false},
		{dial(sysErr("connect", syscall.EHOSTUNREACH)), store.Unreachable, false},
		{dial(sysErr("connect", syscall.ENETUNREACH)), store.Unreachable, false},
		{dial(sysErr("connect", syscall.EHOSTDOWN)), store.Unreachable, false},
		{&net.OpError{Op: "dial", Net: "unix", Err: sysErr("connect", syscall.ENOENT)}, store.Unreachable, false},
		{&net.OpError{Op: "read", Net: "tcp", Err: sysErr("read", syscall.EHOSTUNREACH)}, store.Unreachable, false},
		{dial(&net.DNSError{Err: "no such host", Name: "redis", IsNotFound: true}), store.Unreachable, false},
		{dial(&net.DNSError{Err: "server misbehaving", Name: "redis", IsTemporary: true}), store.Unreachable, false},
		{fmt.Errorf("redis: all sentinels specified in configuration are unreachable: %w", dial(sysErr("connect", syscall.ECONNREFUSED))), store.Unreachable, false},
		{reply("LOADING Redis is loading the dataset in memory"), store.Unreachable, false},
		{reply("CLUSTERDOWN The cluster is down"), store.Unreachable, false},
		{reply("CLUSTERDOWN The cluster is down and only accepts read commands"), store.Unreachable, false},
		{reply("ERR Script attempted to execute a write command while the cluster is down and readonly script: 0a1b, on @user_script:21."), store.Unreachable, false},
		{reply("ERR Script attempted to execute a command while the cluster is down script: 0a1b, on @user_script:21."), store.Unreachable, false},
		{reply("ERR Error running script (call to f_0a1b): @user_script:12: Lua script attempted to execute a command while the cluster is down"), store.Unreachable, false},

		{dial(os.ErrDeadlineExceeded), store.Silent, false},
		{dial(sysErr("connect", syscall.ETIMEDOUT)), store.Silent, false},
		{dial(&net.DNSError{Err: "i/o timeout", Name: "redis", IsTimeout: true}), store.Silent, false},
		{&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, store.Silent, false},
		{context.DeadlineExceeded, store.Silent, false},
		{redis.ErrPoolTimeout, store.Silent, false},

		{reply("MOVED 3999 127.0.0.1:6381"), store.Answered, false},
		{reply("ASK 3999 127.0.0.1:6381"), store.Answered, false},
		{reply("TRYAGAIN Multiple keys request during rehashing of slot"), store.Answered, false},
		{reply("ERR Script attempted to access a non local key in a cluster node script: 0a1b, on @user_script:21."), store.Answered, false},
		{reply("READONLY You can't write against a read only replica. script: 0a1b, on @user_script:21."), store.Answered, false},
		{reply("ERR Error running script (call to f_0a1b): @user_script:12: @user_script: 12: -READONLY You can't write against a read only replica."), store.Answered, false},
		{reply("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."), store.Answered, false},
		{reply("ERR Can not execute the command on a stale replica script: 0a1b, on @user_script:21."), store.Answered, false},
		{reply("NOREPLICAS Not enough good replicas to write. script: 0a1b, on @user_script:21."), store.Answered, false},
		{reply("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."), store.Answered, false},
		{reply("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."), store.Answered, false},
		{reply("ERR max number of clients reached"), store.Answered, false},
		{reply("ERR max number of clients + cluster connections reached"), store.Answered, false},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), store.Answered, true},
		{reply("NOAUTH Authentication required."), store.Answered, true},
		{reply("ERR Protocol error: unauthenticated multibulk length"), store.Answered, true},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), store.Answered, true},
		{reply("NOPERM User locker has no permissions to run the 'evalsha' command"), store.Answered, true},
		{reply("ERR ACL failure in script: User locker has no permissions to run the 'zadd' command script: 0a1b, on @user_script:21."), store.Answered, true},
		{reply("WRONGTYPE Operation against a key holding the wrong kind of value"), store.Answered, true},
		{reply("CROSSSLOT Keys in request don't hash to the same slot"), store.Answered, true},
		{reply("ERR unknown command 'EVALSHA', with args beginning with: '0a1b' '5' 'lock:{ CLUSTERDOWN while the cluster is down}'"), store.Answered, true},
		{reply("ERR value is not an integer or out of range"), store.Answered, true},
		{redis.Nil, store.Answered, false},

		{io.EOF, store.Unclear, false},
		{&net.OpError{Op: "read", Net: "tcp", Err: sysErr("read", syscall.ECONNRESET)}, store.Unclear, false},
		{dial(sysErr("connect", syscall.ECONNRESET)), store.Unclear, false},
		{dial(sysErr("socket", syscall.EMFILE)), store.Unclear, false},
		{dial(sysErr("connect", syscall.EADDRNOTAVAIL)), store.Unclear, false},
		{dial(&net.AddrError{Err: "missing port in address", Addr: "localhost"}), store.Unclear, true},
		{dial(&net.DNSError{Err: "unknown port", Name: "tcp/redis", IsNotFound: true}), store.Unclear, true},
		{dial(net.UnknownNetworkError("tpc")), store.Unclear, true},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, store.Unclear, true},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, store.Unclear, true},
		{fmt.Errorf("failed to resolve credentials: %w", dial(sysErr("connect", syscall.ECONNREFUSED))), store.Unclear, false},
		{fmt.Errorf("failed to subscribe to streaming credentials: %w", context.DeadlineExceeded), store.Unclear, false},
		{&os.PathError{Op: "open", Path: "password", Err: syscall.ENOENT}, store.Unclear, false},
		{fmt.Errorf("client certificate: %w", &os.PathError{Op: "open", Path: "cert.pem", Err: syscall.ENOENT}), store.Unclear, false},

		// A server is there that serves other keys.
		{reply("CLUSTERDOWN Hash slot not served"), store.Answered, false},
		{reply("ERR Script attempted to access a slot not served script: 0a1b, on @user_script:21."), store.Answered, false},
		{reply("ERR Error running script (call to f_0a1b): @user_script:12: @user_script: 12: -CLUSTERDOWN Hash slot not served"), store.Answered, false},
		{errors.New("what OnConnect says"), store.Unclear, false},
		{context.Canceled, store.Unclear, false},
		{redis.ErrClosed, store.Unclear, true},
	} {
		if e := classify(c.err); e.Evidence != c.evidence || e.Permanent != c.permanent || !errors.Is(e, c.err) {
			t.Errorf("classify(%q) = %+v, want evidence %d, permanent %v, and the error itself", c.err, *e, c.evidence, c.permanent)
		}
	}
}

// A port at which nobody listens, as the system tells of it.
func TestNobodyListens(t *testing.T) {
	for name, address := range map[string][2]string{"tcp": {"tcp", "127.0.0.1:1"}, "unix": {"unix", t.TempDir() + "/socket"}} {
		_, err := net.Dial(address[0], address[1])
		if e := classify(err); e.Evidence != store.Unreachable || e.Ambiguous {
			t.Errorf("%s: classify(%v) = %+v, want that the store is away", name, err, *e)
		}
	}
	_, err := net.Dial("tcp", "127.0.0.1")
	if e := classify(err); e.Evidence != store.Unclear || !e.Permanent {
		t.Errorf("classify(%v) = %+v, want a mistake", err, *e)
	}
}
