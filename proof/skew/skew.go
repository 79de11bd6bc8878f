// Package skew moves the clock of a redis-server while it runs.
package skew

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
)

//go:embed shim/skew.c
var source []byte

// library is compiled once per process; the folder is the first test's.
var library = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "skew-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	c, so := filepath.Join(dir, "skew.c"), filepath.Join(dir, "skew.so")
	if err := os.WriteFile(c, source, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", so, c, "-ldl")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(so)
})

// Clock is the clock of one redis-server.
type Clock struct{ file string }

// New makes a clock that shows the right time, and the option that gives it to a
// server.
func New(tb testing.TB) (*Clock, redistest.Option) {
	tb.Helper()
	so, err := library()
	if err != nil {
		tb.Fatal("skew: ", err)
	}
	dir := tb.TempDir()
	c := &Clock{file: filepath.Join(dir, "skew")}
	if err := c.Set(0); err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(dir, "skew.so")
	if err := os.WriteFile(path, so, 0o700); err != nil {
		tb.Fatal(err)
	}
	return c, redistest.Env("LD_PRELOAD="+path, "SKEW_FILE="+c.file)
}

// Set has the clock show d more than the right time from now on.
func (c *Clock) Set(d time.Duration) error {
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600) // in place: the server has it mapped
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(d)), 0)
	return err
}
