package redistest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// shared is the one server of this test process. It exists only inside Main.
var shared sharedServer

// Shared returns the one real server of this test process and starts it at
// first use. It is a Backend and not a *Server because it is not the caller's to
// kill, and tests run beside each other: keys belong below Prefix(tb), and
// FLUSHALL, CONFIG SET and the like need a server from Real.
//
// It fails the test when there is no redis-server, or when the package has no
// TestMain that calls Main.
func Shared(tb testing.TB) Backend {
	tb.Helper()
	s, err := shared.get()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Main runs the tests of a package, stops the shared server and exits. Goroutines
// that are left after tests that passed fail the run; opts are handed to goleak.
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
func Main(m *testing.M, opts ...goleak.Option) {
	// go-redis tries a server that was down once a second, and notices only
	// then that its pool is closed.
	opts = append(opts, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
	goleak.VerifyTestMain(session{m, &shared}, opts...)
}

// session puts the shared server's life around the tests, inside of what goleak
// looks at.
type session struct {
	m      goleak.TestingM
	server *sharedServer
}

// Run runs the tests and returns their exit code.
func (s session) Run() int {
	s.server.open()
	code := s.m.Run()
	if err := s.server.close(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "redistest: close the shared server:", err)
		return 1
	}
	return code
}

var errNoMain = errors.New("redistest: nobody would stop the shared server: " +
	"add `func TestMain(m *testing.M) { redistest.Main(m) }` to the package")

// sharedServer is a server that is started at first use.
type sharedServer struct {
	mu     sync.Mutex
	usable bool
	server *Server
	err    error // why it did not start; it is not tried again
}

func (s *sharedServer) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usable = true
}

func (s *sharedServer) get() (*Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.usable {
		return nil, errNoMain
	}
	if s.server == nil && s.err == nil {
		s.server, s.err = Start()
	}
	return s.server, s.err
}

// close stops the server, if one was started, and shows its log if asked to.
func (s *sharedServer) close(showLog bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := s.server
	s.usable, s.server, s.err = false, nil, nil
	if server == nil {
		return nil
	}
	if showLog {
		fmt.Fprintf(os.Stderr, "the shared redis-server at %s wrote:\n%s", server.Addr(), server.Log())
	}
	return server.Close()
}
