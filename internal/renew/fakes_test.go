package renew

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fakeStore answers each batch after its distance, or not at all before the batch's time
// is over. What is to be known of a batch it notes when the batch comes.
type fakeStore struct {
	distance time.Duration
	hangs    byte // the first letter of keys that have a batch get no answer

	mu       sync.Mutex
	batches  [][]string // their keys
	times    []time.Duration
	inFlight int
	most     int            // in flight at the same time
	failed   map[string]int // how many renewals of a key are to fail yet
	late     map[byte]int   // renewals that had less time than the distance, by first letter
}

var errNoAnswer = errors.New("no answer")

// change changes it, between two calls of the Watchdog.
func (s *fakeStore) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *fakeStore) Renew(ctx context.Context, batch []store.Renewal) {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	s.mu.Lock()
	wait, answers := s.distance, left >= s.distance
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	s.times = append(s.times, left)
	keys := make([]string, len(batch))
	for i, r := range batch {
		keys[i] = r.Key
		if r.Key[0] == s.hangs {
			answers, wait = false, time.Hour
		}
		if left < s.distance {
			s.late[r.Key[0]]++
		}
	}
	s.batches = append(s.batches, keys)
	s.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	for i, r := range batch {
		switch {
		case !answers:
			batch[i].Err = errNoAnswer
		case s.failed[r.Key] > 0:
			s.failed[r.Key]--
			batch[i].Err = errNoAnswer
		default:
			batch[i].Held = true
		}
	}
}

// A fakeItem notes when it is renewed, all since began. Ask and Renewed call the Watchdog,
// since no mutex of it is held then.
type fakeItem struct {
	renewal Renewal
	w       *Watchdog
	key     string
	began   time.Time
	timeout time.Duration // 1 s if 0
	pauses  func() time.Duration
	retry   time.Duration
	hears   time.Duration // how long it takes to take in an answer

	mu       sync.Mutex
	over     bool // it is not to be renewed any more
	cut      bool
	asked    []time.Duration
	answered int
	failed   int
}

func (it *fakeItem) Terms() (time.Duration, bool) {
	it.mu.Lock()
	defer it.mu.Unlock()
	switch {
	case it.over:
		return 0, false
	case it.timeout == 0:
		return time.Second, it.cut
	}
	return it.timeout, it.cut
}

func (it *fakeItem) Ask() store.Ref {
	it.w.RenewNow(&it.renewal) // it is in flight: nothing changes
	it.mu.Lock()
	defer it.mu.Unlock()
	it.asked = append(it.asked, time.Since(it.began))
	return store.Ref{Key: it.key}
}

func (it *fakeItem) Renewed(sent time.Time, answer store.Renewal) time.Duration {
	it.w.RenewNow(&it.renewal)
	time.Sleep(it.hears)
	it.mu.Lock()
	defer it.mu.Unlock()
	switch {
	case answer.Key != it.key:
		panic("the answer for " + answer.Key + " came to " + it.key)
	case sent.Sub(it.began) > it.asked[len(it.asked)-1]:
		panic(it.key + " was asked for before it was sent")
	case answer.Err != nil:
		it.failed++
		return it.retry
	}
	it.answered++
	return it.pauses()
}

// times returns when the item was asked for.
func (it *fakeItem) times() []time.Duration {
	it.mu.Lock()
	defer it.mu.Unlock()
	return it.asked
}

// outcomes returns how many of its renewals were answered, and how many failed.
func (it *fakeItem) outcomes() (answered, failed int) {
	it.mu.Lock()
	defer it.mu.Unlock()
	return it.answered, it.failed
}

// change changes it, between two calls of the Watchdog.
func (it *fakeItem) change(f func()) {
	it.mu.Lock()
	defer it.mu.Unlock()
	f()
}

// A stage is a Watchdog over a fakeStore, in a bubble of its own time.
type stage struct {
	*Watchdog
	store *fakeStore
	began time.Time
}

func onStage(t *testing.T, test func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{
			store: &fakeStore{distance: time.Millisecond, failed: make(map[string]int), late: make(map[byte]int)},
			began: time.Now(),
		}
		s.Watchdog = New(s.store)
		test(t, s)
		s.Stop()
	})
}

// item returns one that is renewed pause after pause, and was not added yet.
func (s *stage) item(key string, pause time.Duration) *fakeItem {
	it := &fakeItem{w: s.Watchdog, key: key, began: s.began, pauses: func() time.Duration { return pause }, retry: 10 * time.Millisecond}
	it.renewal = s.Renewal(it, key)
	return it
}

// add returns an item that was added.
func (s *stage) add(key string, pause time.Duration) *fakeItem {
	it := s.item(key, pause)
	s.Add(&it.renewal, time.Now(), pause)
	return it
}

// at sleeps until d has passed since the beginning.
func (s *stage) at(d time.Duration) {
	time.Sleep(time.Until(s.began.Add(d)))
	synctest.Wait()
}

// counts returns how many renewals are in an intake, on the sound agenda, and on the other.
func (s *stage) counts() (fresh, sound, cut int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for in := range s.intakes.All() {
		in.mu.Lock()
		fresh += len(in.renewals)
		in.mu.Unlock()
	}
	return fresh, len(s.sound.agenda), len(s.cut.agenda)
}
