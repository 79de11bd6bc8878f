// Package stalls tells a test how long the machine that it runs on stood still, so that a
// bound in time can grow by that: a virtual machine is stopped for a second now and then, and
// on two cores that many packages share a goroutine may wait for its turn. What is measured is
// how late a goroutine wakes that only sleeps.
package stalls

import (
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	nap   = 5 * time.Millisecond // between two looks at the clock
	least = 5 * time.Millisecond // that is worth remembering
)

// A Stall is a time in which what was due did not come.
type Stall struct{ Began, Ended time.Time }

// Took is how long s was.
func (s Stall) Took() time.Duration { return s.Ended.Sub(s.Began) }

// A Meter remembers stalls. Its zero value has none and measures nothing, but may be told of
// some. Its methods may be called by several goroutines at a time.
type Meter struct {
	stop chan struct{}
	done sync.WaitGroup

	mu  sync.Mutex
	due time.Time // when sleep is to wake; zero: it does not run
	all []Stall
}

// Start returns a Meter that measures until Stop is called.
func Start() *Meter {
	m := &Meter{stop: make(chan struct{})}
	m.done.Go(m.sleep)
	return m
}

// During returns a Meter that measures until the test ends.
func During(tb testing.TB) *Meter {
	m := Start()
	tb.Cleanup(m.Stop)
	return m
}

// Stop ends what Start began. It is for a Meter of Start, and for one call.
func (m *Meter) Stop() {
	close(m.stop)
	m.done.Wait()
}

func (m *Meter) sleep() {
	timer := time.NewTimer(nap)
	defer timer.Stop()
	for {
		m.wake(time.Now().Add(nap))
		select {
		case <-m.stop:
			m.wake(time.Time{})
			return
		case <-timer.C:
		}
		timer.Reset(nap)
	}
}

// wake notes how late the sleeper is, and when it is due next.
func (m *Meter) wake(next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, late := m.present(); late {
		m.all = append(m.all, s)
	}
	m.due = next
}

// present is the stall that ends now, if the sleeper is late. The caller holds mu.
func (m *Meter) present() (Stall, bool) {
	s := Stall{m.due, time.Now()}
	return s, !m.due.IsZero() && s.Took() >= least
}

// Add notes a stall, unless it is too short to matter.
func (m *Meter) Add(s Stall) {
	if s.Took() < least {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, s)
}

// Within returns the stalls of which a part at least lay in a time. Who wakes from a stall
// before the sleeper does finds it among them, until now.
func (m *Meter) Within(from, to time.Time) (in []Stall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all
	if s, late := m.present(); late {
		all = append(slices.Clip(all), s)
	}
	for _, s := range all {
		if !s.Ended.Before(from) && !s.Began.After(to) {
			in = append(in, s)
		}
	}
	return in
}

// Between returns how long the stalls of Within took together, with what lay outside.
func (m *Meter) Between(from, to time.Time) (together time.Duration) {
	for _, s := range m.Within(from, to) {
		together += s.Took()
	}
	return together
}

// Longest returns how long the longest stall of Within took, with what lay outside.
func (m *Meter) Longest(from, to time.Time) (longest time.Duration) {
	for _, s := range m.Within(from, to) {
		longest = max(longest, s.Took())
	}
	return longest
}
