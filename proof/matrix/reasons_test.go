package matrix

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
)

// A lasting is a test that says once more at its very end why it failed. The logs of its servers, which come after it
// and which are long, would hide that.
type lasting struct {
	*testing.T

	mu      sync.Mutex
	reasons []string
}

// reasonsLast returns t as a lasting. It is called before any server is started: what is cleaned up first is printed last.
func reasonsLast(t *testing.T) testing.TB {
	t.Helper()
	l := &lasting{T: t}
	t.Cleanup(l.repeat)
	return l
}

func (l *lasting) repeat() {
	const most = 10
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.reasons) == 0 {
		return
	}
	shown := slices.Clone(l.reasons)
	if more := len(shown) - most; more > 0 {
		shown = append([]string{fmt.Sprintf("(%d more are above the logs of the servers)", more)}, shown[more:]...)
	}
	l.Logf("it failed because of\n%s", strings.Join(shown, "\n"))
}

func (l *lasting) note(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reasons = append(l.reasons, reason)
}

// Error, Errorf, Fatal and Fatalf are those of the test, and note the reason.
func (l *lasting) Error(args ...any) {
	l.Helper()
	l.note(fmt.Sprint(args...))
	l.T.Error(args...)
}

func (l *lasting) Errorf(format string, args ...any) {
	l.Helper()
	l.note(fmt.Sprintf(format, args...))
	l.T.Errorf(format, args...)
}

func (l *lasting) Fatal(args ...any) {
	l.Helper()
	l.note(fmt.Sprint(args...))
	l.T.Fatal(args...)
}

func (l *lasting) Fatalf(format string, args ...any) {
	l.Helper()
	l.note(fmt.Sprintf(format, args...))
	l.T.Fatalf(format, args...)
}

// failsEnv has TestReasonIsPrintedBelowTheLogs fail, in a process that it started itself.
const failsEnv = "PROOF_FAILS"

func TestReasonIsPrintedBelowTheLogs(t *testing.T) {
	const reason, log = "two held one lock", "redis-server at"
	if os.Getenv(failsEnv) != "" {
		failing := reasonsLast(t)
		redistest.Real(failing)
		failing.Error(reason)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), failsEnv+"=yes")
	said, err := child.CombinedOutput()
	if err == nil || !strings.Contains(string(said), log) {
		t.Fatalf("a test that fails ended with %v and said\n%s", err, said)
	}
	if at := strings.LastIndex(string(said), reason); at < strings.LastIndex(string(said), log) {
		t.Errorf("below the log of the server there is no %q:\n%s", reason, said)
	}
}
