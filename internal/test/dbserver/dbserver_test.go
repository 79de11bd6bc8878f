package dbserver

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lockmw/kit/internal/test/failtest"
)

// The servers themselves are at work in fence/dbtest and examples/recipes, which have the drivers.

// deaf is a driver that reaches no server.
type deaf struct{}

var errDeaf = errors.New("nobody listens")

func (deaf) Open(string) (driver.Conn, error) { return nil, errDeaf }

var register = sync.OnceFunc(func() { sql.Register("deaf", deaf{}) })

// server returns one whose program is a line for a shell.
func server(line string) *Server {
	register()
	return &Server{
		name: "Deaf", driver: "deaf", source: func(folder, _ string) string { return folder },
		start: func(s *Server) error {
			return s.spawn(new(syscall.SysProcAttr), syscall.SIGKILL, "/bin/sh", "-c", line)
		},
	}
}

// A server that cannot start ends the test at once, and not after a minute. What it has written says why.
func TestAServerThatEndsAtOnceIsTold(t *testing.T) {
	s := server("echo no room left; exit 3")
	defer s.Stop(false)
	for range 2 { // the second time it is not tried again
		inner := failtest.New(t)
		inner.Run(func() { s.Open(inner, "") })
		for _, want := range []string{"Deaf", "no room left", "exit status 3", errDeaf.Error()} {
			if !inner.Failed() || !strings.Contains(inner.Said(), want) {
				t.Errorf("it failed: %v, and said %q, want %q in it", inner.Failed(), inner.Said(), want)
			}
		}
	}
}

func TestAProgramThatIsMissingIsNamed(t *testing.T) {
	_, err := program("no-such-database", "postgres", t.TempDir())
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "scripts/ensure.sh postgres") {
		t.Errorf("err = %v, want one that says what installs it", err)
	}
	folders := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for _, folder := range folders[:2] {
		if err := os.WriteFile(folder+"/no-such-database", nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if path, err := program("no-such-database", "postgres", folders...); err != nil || path != folders[1]+"/no-such-database" {
		t.Errorf("%q, %v; want that of the last folder which has it", path, err)
	}
}

// Nothing is left of a server, and what was never opened needs no care.
func TestAStoppedServerLeavesNothing(t *testing.T) {
	s := server("exit 0")
	s.Stop(true)
	if err := s.started(); err == nil {
		t.Error("it has started")
	}
	if _, err := os.Stat(s.folder); err != nil {
		t.Error(err)
	}
	s.Stop(false)
	if _, err := os.Stat(s.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder: %v, want that it is gone", err)
	}
}
