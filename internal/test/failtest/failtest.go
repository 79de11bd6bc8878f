// Package failtest lets a test watch another one fail: a suite of behaviours is
// run against something that is broken on purpose, and must notice it.
package failtest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// A T is a testing.TB that may fail without failing the test.
type T struct {
	testing.TB // for the name
	mu         sync.Mutex
	failed     bool
	said       string
	cleanups   []func()
}

// New returns a T that has the name of tb.
func New(tb testing.TB) *T { return &T{TB: tb} }

// Run runs f as a test, with its clean-up, and waits for both.
func (p *T) Run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, cleanup := range slices.Backward(p.cleanups) {
				cleanup()
			}
		}()
		f()
	}()
	<-done
}

// Said returns what was logged, and why f failed.
func (p *T) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// Failed reports whether f has failed.
func (p *T) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

func (p *T) note(failed bool, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = p.failed || failed
	p.said += text + "\n"
}

// Helper does nothing.
func (p *T) Helper() {}

// Cleanup has f called at the end of Run.
func (p *T) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

// Log notes args.
func (p *T) Log(args ...any) { p.note(false, fmt.Sprint(args...)) }

// Logf notes args.
func (p *T) Logf(f string, args ...any) { p.note(false, fmt.Sprintf(f, args...)) }

// Error notes that the test has failed.
func (p *T) Error(args ...any) { p.note(true, fmt.Sprint(args...)) }

// Errorf notes that the test has failed.
func (p *T) Errorf(f string, args ...any) { p.note(true, fmt.Sprintf(f, args...)) }

// Fatal notes that the test has failed, and ends it.
func (p *T) Fatal(args ...any) { p.Error(args...); runtime.Goexit() }

// Fatalf notes that the test has failed, and ends it.
func (p *T) Fatalf(f string, args ...any) { p.Errorf(f, args...); runtime.Goexit() }
