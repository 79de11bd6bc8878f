package combos

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// meter measures how busy the machine is: how late a goroutine wakes that only
// sleeps. Bounds in time grow with what it saw while they ran.
type meter struct {
	began   time.Time
	stopped chan struct{}
	done    sync.WaitGroup

	mu     sync.Mutex
	worst  time.Duration
	stalls []stall
}

// stall is a time in which a goroutine was due and did not run: it ended at at, and
// took late.
type stall struct{ at, late time.Duration }

func startMeter(began time.Time) *meter {
	m := &meter{began: began, stopped: make(chan struct{})}
	m.done.Go(func() {
		const pause = 5 * time.Millisecond
		timer := time.NewTimer(pause)
		defer timer.Stop()
		for {
			slept := time.Now()
			select {
			case <-m.stopped:
				return
			case <-timer.C:
			}
			timer.Reset(pause)
			m.add(stall{time.Since(m.began), time.Since(slept) - pause})
		}
	})
	return m
}

// startPulse measures how busy the servers are: how long each takes to answer a
// ping that comes past the doors. On a busy machine a well server is silent.
func startPulse(began time.Time, servers []*redis.Client) *meter {
	m := &meter{began: began, stopped: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	m.done.Go(func() { <-m.stopped; cancel() })
	for _, server := range servers {
		m.done.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				_ = server.Ping(ctx).Err() // that it took long is what counts
				m.add(stall{time.Since(m.began), time.Since(asked)})
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	return m
}

func (m *meter) add(s stall) {
	if s.late < 5*time.Millisecond {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.worst = max(m.worst, s.late)
	m.stalls = append(m.stalls, s)
}

// late returns the longest stall so far.
func (m *meter) late() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.worst
}

// between returns how long the stalls in a time took together.
func (m *meter) between(from, to time.Duration) (all time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stalls {
		if s.at >= from && s.at-s.late <= to {
			all += s.late
		}
	}
	return all
}

// longest returns the longest delay that lay in a time, at least in part, other than
// in these windows.
func (m *meter) longest(from, to time.Duration, other []window) (late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.stalls {
		during := func(w window) bool { return s.at >= w.from && s.at-s.late <= w.to }
		if during(window{from, to}) && !slices.ContainsFunc(other, during) {
			late = max(late, s.late)
		}
	}
	return late
}

func (m *meter) stop() {
	close(m.stopped)
	m.done.Wait()
}
