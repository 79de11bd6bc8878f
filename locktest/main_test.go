package locktest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A probe is a test inside a test: it may fail and it ends.
type probe struct {
	testing.TB
	said     []string // why it failed
	cleanups []func()
}

// try runs f as a test of its own, to the end, and returns why it failed.
func try(t *testing.T, f func(t testing.TB)) string {
	t.Helper()
	p := &probe{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(p)
	}()
	<-done
	for _, cleanup := range slices.Backward(p.cleanups) {
		cleanup()
	}
	return strings.Join(p.said, "\n")
}

func (p *probe) Helper()                      {}
func (p *probe) Cleanup(f func())             { p.cleanups = append(p.cleanups, f) }
func (p *probe) Errorf(f string, args ...any) { p.said = append(p.said, fmt.Sprintf(f, args...)) }
func (p *probe) Fatalf(f string, args ...any) { p.Errorf(f, args...); runtime.Goexit() }
func (p *probe) Skipped() bool                { return false }
