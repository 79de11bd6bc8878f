package combos

import (
	"sync"
	"time"
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

// stall is a time in which nothing ran here.
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

func (m *meter) add(s stall) {
	if s.late < 5*time.Millisecond {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.worst = max(m.worst, s.late)
	m.stalls = append(m.stalls, s)
}

// late returns the longest delay so far.
func (m *meter) late() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.worst
}

// between returns for how long nothing ran in a time.
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

func (m *meter) stop() {
	close(m.stopped)
	m.done.Wait()
}
