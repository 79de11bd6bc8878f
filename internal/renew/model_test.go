package renew

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A modelItem is the model of one renewal: it is due at a time, which a pause or RenewNow sets, and may
// come early by what its pause allows. It is never asked for twice at once, nor later than
// when one of the batches lands that were in flight when it was due, nor once it is removed.
type modelItem struct {
	renewal Renewal
	key     string
	timeout time.Duration
	random  *rand.Rand // of the history; used with mu held

	mu       sync.Mutex
	due      time.Time
	early    time.Duration
	inFlight bool
	over     bool // its terms or an answer have said so
	removed  bool
	asked    int
	fault    error // the first
}

func (m *modelItem) checkf(ok bool, format string, args ...any) {
	if !ok && m.fault == nil {
		m.fault = fmt.Errorf("%s at %v: %s", m.key, time.Now().Format("05.000000000"), fmt.Sprintf(format, args...))
	}
}

// plan notes a pause from now on. The caller holds mu.
func (m *modelItem) plan(pause time.Duration) {
	m.due, m.early = time.Now().Add(pause), min(50*ms, pause/20)
}

// pause draws one. Its odd nanosecond has it end when no owner does anything: they act
// at whole microseconds.
func (m *modelItem) pause(most time.Duration) time.Duration {
	return time.Duration(1+m.random.Int64N(int64(most/time.Microsecond)))*time.Microsecond + 1
}

func (m *modelItem) Terms() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkf(!m.removed && !m.over && !m.inFlight, "terms, though removed (%v), over (%v) or in flight (%v)", m.removed, m.over, m.inFlight)
	if m.random.IntN(50) == 0 {
		m.over = true
		return 0, false
	}
	return m.timeout, m.random.IntN(5) == 0
}

func (m *modelItem) Ask() store.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	early, late := time.Until(m.due), time.Since(m.due)
	m.checkf(!m.removed && !m.over && !m.inFlight, "asked, though removed (%v), over (%v) or in flight (%v)", m.removed, m.over, m.inFlight)
	m.checkf(early <= m.early, "asked %v early, at most %v", early, m.early)
	m.checkf(late <= modelDistance, "asked %v late", late)
	m.inFlight = true
	m.asked++
	return store.Ref{Key: m.key}
}

func (m *modelItem) Renewed(_ time.Time, answer store.Renewal) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkf(m.inFlight && !m.removed && answer.Key == m.key, "an answer for %s, though not in flight or removed", answer.Key)
	m.inFlight = false
	var pause time.Duration
	switch {
	case answer.Err != nil:
		pause = m.pause(50 * ms)
	case m.random.IntN(30) == 0:
		m.over = true
		return 0
	default:
		pause = m.pause(2 * time.Second)
	}
	m.plan(pause)
	return pause
}

// own is one life of the item, in the hands of its owner.
func (m *modelItem) own(w *Watchdog, sleep func(most time.Duration)) {
	sleep(time.Second)
	m.renewal = w.Renewal(m, m.key)
	m.mu.Lock()
	pause := m.pause(2 * time.Second)
	m.plan(pause)
	acts := m.random.IntN(6)
	m.mu.Unlock()
	w.Add(&m.renewal, time.Now(), pause)
	for range acts {
		sleep(time.Second)
		m.mu.Lock()
		if !m.inFlight && !m.over {
			m.due = time.Now()
		}
		m.mu.Unlock()
		w.RenewNow(&m.renewal)
	}
	sleep(time.Second)
	w.Remove(&m.renewal)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removed = true
	m.checkf(!m.inFlight, "its removal did not wait")
	m.checkf(m.over || time.Since(m.due) <= modelDistance, "removed when it was due since %v", time.Since(m.due))
}

const modelDistance = ms + 1

// A modelStore fails some renewals, and looks at the time that a batch has.
type modelStore struct {
	mu     sync.Mutex
	random *rand.Rand
	items  map[string]*modelItem
	fault  error
}

func (s *modelStore) Renew(ctx context.Context, batch []store.Renewal) {
	deadline, _ := ctx.Deadline()
	s.mu.Lock()
	shortest, longest := time.Hour, time.Duration(0)
	for i, r := range batch {
		timeout := s.items[r.Key].timeout
		shortest, longest = min(shortest, timeout), max(longest, timeout)
		if batch[i].Held = true; s.random.IntN(10) == 0 {
			batch[i].Held, batch[i].Err = false, errors.New("no answer")
		}
	}
	if got := time.Until(deadline); got != shortest || longest > 4*shortest || len(batch) > batchSize {
		s.fault = fmt.Errorf("a batch of %d has %v, with timeouts from %v to %v", len(batch), got, shortest, longest)
	}
	s.mu.Unlock()
	time.Sleep(modelDistance)
}

// In random histories each renewal does what the model says, whatever the others do.
func TestRandomHistories(t *testing.T) {
	asked := 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			s := &modelStore{random: rand.New(rand.NewPCG(seed, 0)), items: make(map[string]*modelItem)}
			w := New(s)
			var owners sync.WaitGroup
			var items []*modelItem
			for i := range 1 + int(seed)*3 {
				m := &modelItem{key: fmt.Sprintf("k%d", i), random: rand.New(rand.NewPCG(seed, uint64(i)+1))}
				m.timeout = 20 * ms << m.random.IntN(6)
				items, s.items[m.key] = append(items, m), m
			}
			for i, m := range items {
				owners.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(i)+1000))
					m.own(w, func(most time.Duration) {
						time.Sleep(time.Duration(random.Int64N(int64(most/time.Microsecond))) * time.Microsecond)
					})
				})
			}
			owners.Wait()
			time.Sleep(10 * time.Second)
			w.Stop()
			if s.fault != nil {
				t.Errorf("seed %d: %v", seed, s.fault)
			}
			for _, m := range items {
				asked += m.asked
				if m.fault != nil {
					t.Errorf("seed %d: %v", seed, m.fault)
				}
			}
			if n := len(w.sound.agenda) + len(w.cut.agenda); n > 0 {
				t.Errorf("seed %d: %d renewals are left", seed, n)
			}
		})
	}
	t.Logf("%d renewals", asked)
}
