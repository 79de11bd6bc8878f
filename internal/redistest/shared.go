package redistest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// shared is the one server of this test process. It exists only between the
// beginning and the end of Main.
var shared struct {
	mu     sync.Mutex
	active bool // inside Main
	server *Server
	err    error // why it did not start; it is not tried again
}

// Shared returns the one real server of this test process and starts it at
// first use. It is a Backend and not a *Server because it is not the caller's to
// kill, and tests run beside each other: keys belong below Prefix(tb), and
// FLUSHALL, CONFIG SET and the like need a server from Real.
//
// It fails the test when there is no redis-server, or when the package has no
// TestMain that calls Main.
func Shared(tb testing.TB) Backend {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.active {
		tb.Fatal("redistest: nobody would stop the shared server: add `func TestMain(m *testing.M) { redistest.Main(m) }`")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Start()
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

// Main runs the tests of a package, stops the shared server and exits. Goroutines
// that are left after tests that passed fail the run; opts are handed to goleak.
//
//	func TestMain(m *testing.M) { redistest.Main(m) }
func Main(m *testing.M, opts ...goleak.Option) {
	goleak.VerifyTestMain(session{m}, opts...)
}

// session puts the shared server's life around the tests, inside of what goleak
// looks at.
type session struct{ m goleak.TestingM }

// Run runs the tests and returns their exit code.
func (s session) Run() int {
	openShared()
	code := s.m.Run()
	if err := closeShared(code != 0); err != nil {
		fmt.Fprintln(os.Stderr, "redistest: close the shared server:", err)
		return 1
	}
	return code
}

func openShared() {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.active = true
}

func closeShared(failed bool) error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	server := shared.server
	shared.active, shared.server, shared.err = false, nil, nil
	if server == nil {
		return nil
	}
	if failed {
		fmt.Fprintf(os.Stderr, "the shared redis-server at %s wrote:\n%s", server.Addr(), server.Log())
	}
	return server.Close()
}
