// Package stalls tells a test how long the machine that it runs on stood still, so that a
// bound in time can grow by that: a virtual machine is stopped for a second now and then, and
// on two cores that many packages share a goroutine may wait for its turn. What is measured is
// how late a goroutine of this process wakes that only sleeps. Another process, such as the
// test's Redis, may have stood still longer.
package stalls

import (
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	nap   = 5 * time.Millisecond // the sleeper sleeps so long at a time
	least = 5 * time.Millisecond // a shorter stall is not kept
)

// A Stall is from when something was due until it came.
type Stall struct{ Began, Ended time.Time }

// Took is how long s was.
func (s Stall) Took() time.Duration { return s.Ended.Sub(s.Began) }

// A Meter remembers stalls. Its zero value has none and measures nothing, but may be told of
// some. Its methods may be called by several goroutines at a time.
type Meter struct {
	stop func() // of Start; nil: nothing is measured
	done sync.WaitGroup

	mu  sync.Mutex
	due time.Time // when sleep is to wake; zero: it does not run
	all []Stall
}

// Start returns a Meter that measures until Stop is called.
func Start() *Meter {
	stopped := make(chan struct{})
	m := &Meter{stop: sync.OnceFunc(func() { close(stopped) })}
	m.done.Go(func() { m.sleep(stopped) })
	return m
}

// During returns a Meter that measures until the test ends.
func During(tb testing.TB) *Meter {
	m := Start()
	tb.Cleanup(m.Stop)
	return m
}

// Stop ends what Start began. It may be called again.
func (m *Meter) Stop() {
	if m.stop != nil {
		m.stop()
		m.done.Wait()
	}
}

// sleep is the sleeper.
func (m *Meter) sleep(stopped <-chan struct{}) {
	timer := time.NewTimer(nap)
	defer timer.Stop()
	for {
		m.wake(true)
		select {
		case <-stopped:
			m.wake(false)
			return
		case <-timer.C:
		}
		timer.Reset(nap)
	}
}

// wake notes how late the sleeper is, and when it is due next, if it sleeps again.
func (m *Meter) wake(again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if s, late := m.present(now); late {
		m.all = append(m.all, s)
	}
	m.due = time.Time{}
	if again {
		m.due = now.Add(nap)
	}
}

// present is the stall that ends now, if the sleeper is late. The caller holds mu.
func (m *Meter) present(now time.Time) (Stall, bool) {
	s := Stall{m.due, now}
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

// Within returns the stalls of which a part at least lay between from and to. Who wakes from
// a stall before the sleeper does finds it among them, until now.
func (m *Meter) Within(from, to time.Time) (in []Stall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all
	if s, late := m.present(time.Now()); late {
		all = append(slices.Clip(all), s)
	}
	for _, s := range all {
		if !s.Ended.Before(from) && !s.Began.After(to) {
			in = append(in, s)
		}
	}
	return in
}

// Between returns how long the stalls of Within took together, each with what lay outside.
func (m *Meter) Between(from, to time.Time) (together time.Duration) {
	for _, s := range m.Within(from, to) {
		together += s.Took()
	}
	return together
}

// Longest returns how long the longest of the stalls of Within took, with what lay outside.
func (m *Meter) Longest(from, to time.Time) (longest time.Duration) {
	for _, s := range m.Within(from, to) {
		longest = max(longest, s.Took())
	}
	return longest
}
