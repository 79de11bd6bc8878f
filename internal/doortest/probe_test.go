package doortest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// A probe is a testing.TB that may fail without failing the test.
type probe struct {
	testing.TB // for the name
	mu         sync.Mutex
	failed     bool
	said       string
	cleanups   []func()
}

// run runs f as a test, with its clean-up.
func (p *probe) run(f func()) {
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

func (p *probe) note(failed bool, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = p.failed || failed
	p.said += text + "\n"
}

func (p *probe) Helper()                      {}
func (p *probe) Cleanup(f func())             { p.cleanups = append(p.cleanups, f) }
func (p *probe) Log(args ...any)              { p.note(false, fmt.Sprint(args...)) }
func (p *probe) Logf(f string, args ...any)   { p.note(false, fmt.Sprintf(f, args...)) }
func (p *probe) Error(args ...any)            { p.note(true, fmt.Sprint(args...)) }
func (p *probe) Errorf(f string, args ...any) { p.note(true, fmt.Sprintf(f, args...)) }
func (p *probe) Fatal(args ...any)            { p.Error(args...); runtime.Goexit() }
func (p *probe) Fatalf(f string, args ...any) { p.Errorf(f, args...); runtime.Goexit() }

func (p *probe) Failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}
