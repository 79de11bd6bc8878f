package locktest

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/lockmw"
)

// Down takes Redis away from the code under test, as if its server had been stopped. When
// Down returns, all connections of l are cut, and new ones are refused. A command that
// was on its way may have been carried out, without an answer. Redis comes back with Up,
// or when the test of t ends.
//
// l then does what it does in production, and takes as long. A call with one attempt is
// refused with lockmw.ErrUnavailable at once. A call that may wait is refused when its
// wait is over, about a second after Down at the latest. A call with Retries: Forever and
// no Wait waits for Up. A call with FailOpen runs without the lock. A lease that is held
// goes on until shortly before its key can expire, and then ends with lockmw.ErrLost. To
// see that, give the policy a short TTL.
//
// For all others Redis is still there: Keys, Hold and its release work as before. Lose
// does not, because nobody can tell the holder.
//
// If Redis is down already, Down does nothing more. It may be called from any goroutine,
// at any time. It fails the test if l is not from New.
func Down(t testing.TB, l *lockmw.Locker) {
	t.Helper()
	s := stageOf(t, "Down", l)
	if !s.way.cut() {
		return
	}
	t.Cleanup(func() { // before what holds a lock still is to give it back
		t.Helper()
		if !s.up() {
			t.Errorf("locktest: Down: %s", s.notBack())
		}
	})
}

// Up ends what Down began. Redis has what it had before, and what others did to it
// meanwhile. Locks whose TTL has run out are gone. Up returns when l has reached Redis,
// which takes about a quarter of a second. From then on, new calls of Acquire ask Redis,
// and so do those that have waited for it. For a second or two, l is not yet told of
// releases. Until then, those who wait for a lock find it free by their retries alone.
//
// If Redis is not down, Up does nothing. It may be called from any goroutine, at any
// time. It fails the test if l does not reach Redis within five seconds, and if l is not
// from New.
func Up(t testing.TB, l *lockmw.Locker) {
	t.Helper()
	s := stageOf(t, "Up", l)
	if !s.up() {
		t.Fatalf("locktest: Up: %s", s.notBack())
	}
}

// up mends the way to Redis and reports whether the Locker knows that it is there again.
func (s *stage) up() bool {
	s.way.mend()
	return s.await(s.patience, func() bool { return seam.Reaches(s.locks) })
}

func (s *stage) notBack() string {
	return "the Locker has not reached Redis again within " + s.patience.String()
}

// A way leads from the code under test to its Redis.
type way struct {
	mu    sync.Mutex
	down  bool
	cuts  int // how often it was cut: a dial that was under way meanwhile is refused
	conns []net.Conn
}

// dial implements redis.Options.Dialer.
func (w *way) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	cuts, down := w.state()
	if down {
		return nil, refused(network, addr)
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if !w.keep(conn, cuts) {
		_ = conn.Close()
		return nil, refused(network, addr)
	}
	return conn, nil
}

func (w *way) state() (cuts int, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts, w.down
}

// keep takes note of a connection, unless the way was cut since it had been cut cuts
// times. Those that are closed stay in the list: a test has few.
func (w *way) keep(conn net.Conn, cuts int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cuts != cuts {
		return false
	}
	w.conns = append(w.conns, conn)
	return true
}

// cut ends all connections, and lets no new ones be made. The users of a connection learn
// what they would learn from a server that has ended: they read the end of the stream. It
// does nothing, and returns false, if the way is cut already.
func (w *way) cut() bool {
	w.mu.Lock()
	if w.down {
		w.mu.Unlock()
		return false
	}
	conns := w.conns
	w.down, w.conns = true, nil
	w.cuts++
	w.mu.Unlock()
	for _, conn := range conns {
		if tcp, ok := conn.(*net.TCPConn); ok { // it may be closed already
			_ = tcp.CloseWrite()
			_ = tcp.CloseRead()
		}
	}
	return true
}

func (w *way) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = false
}

// refused is the error of a dial to an address where nobody listens.
func refused(network, addr string) error {
	err := &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if to, cause := net.ResolveTCPAddr(network, addr); cause == nil {
		err.Addr = to
	}
	return err
}
