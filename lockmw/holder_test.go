package lockmw_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// underNote is a context whose calls have a note.
func underNote(note string) context.Context {
	return context.WithValue(context.Background(), noteKey{}, note)
}

// The event of a refusal, its error and its line in the log name who is in the way: which instance, what it noted, since when, and
// how many wait.
func TestARefusalNamesWhoIsInTheWay(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		var seen events
		var log textLog
		holder := testenv.Open(t, s.Client(t), lockmw.WithInstance("web-1"), noted())
		l := testenv.Open(t, s.Client(t), seen.option(), log.option())
		_, lease, err := holder.Acquire(underNote("export 7"), "k", lockmw.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		waits := make(chan error, 1)
		go func() {
			_, _, err := l.Acquire(context.Background(), "k", lockmw.Policy{Wait: time.Minute, TTL: time.Hour})
			waits <- err
		}()
		await.Until(t, "one waits", func() bool { return len(seen.of(lockmw.EventContended)) == 1 })
		if met := seen.of(lockmw.EventContended)[0].Holder; met == nil || met.Instance != holder.Instance() || met.Note != "export 7" {
			t.Errorf("who waits met %+v", met)
		}
		time.Sleep(2 * time.Second)
		_, _, err = l.Acquire(context.Background(), "k", lockmw.Policy{})
		var refused *lockmw.AcquireError
		if !errors.As(err, &refused) {
			t.Fatal(err)
		}
		told := seen.of(lockmw.EventRefused)
		if len(told) != 1 || told[0].Holder == nil || told[0].Holder != refused.Holder {
			t.Fatalf("told %+v, and the error has %+v", told, refused)
		}
		if h := *told[0].Holder; h.Instance != holder.Instance() || h.Note != "export 7" || h.Age < 2*time.Second || h.Age > 3*time.Second || told[0].Waiting != 1 {
			t.Errorf("told %+v, waiting %d", h, told[0].Waiting)
		}
		wantsIn(t, log.line(t, "lock was refused"), "holder="+holder.Instance(), `holder_note="export 7"`, "held_for=2", "waiting=1")
		mustRelease(t, lease)
		if err := <-waits; err != nil {
			t.Fatal(err)
		}
		if had := seen.of(lockmw.EventAcquired); len(had) != 1 || had[0].Holder == nil || had[0].Holder.Note != "export 7" {
			t.Errorf("who has waited was told %+v", had)
		}
	})
}

// Of several holders the oldest is named, of those that are at work: also by a process that has the lock itself.
func TestOfSeveralHoldersTheOldestIsNamed(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		first := testenv.Open(t, s.Client(t), lockmw.WithInstance("first"), noted())
		second := testenv.Open(t, s.Client(t), lockmw.WithInstance("second"))
		readers := lockmw.Policy{Mode: lockmw.Shared}
		names := func(l *lockmw.Locker, want *lockmw.Locker, note string, age time.Duration) {
			t.Helper()
			_, _, err := l.Acquire(context.Background(), "k", lockmw.Policy{})
			var refused *lockmw.AcquireError
			if !errors.As(err, &refused) || refused.Holder == nil {
				t.Fatalf("%v: %+v", err, refused)
			}
			if h := *refused.Holder; h.Instance != want.Instance() || h.Note != note || h.Age < age || h.Age > age+time.Second {
				t.Errorf("named is %+v, want %s for %v", h, want.Instance(), age)
			}
		}
		staying := readers
		staying.MinHold = time.Minute
		mustRelease(t, mustAcquire(t, first, "k", staying)) // its work is over
		time.Sleep(time.Second)
		_, oldest, err := first.Acquire(underNote("report"), "k", readers)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		younger := mustAcquire(t, second, "k", readers)
		time.Sleep(2 * time.Second)
		third := testenv.Open(t, s.Client(t))
		for _, l := range []*lockmw.Locker{third, second, first} {
			names(l, first, "report", 5*time.Second)
		}
		mustRelease(t, oldest)
		names(third, second, "", 2*time.Second)
		mustRelease(t, younger)
	})
}

// Where leases of a process follow one another, a call learns the note of the one that has the lock now, not the one that
// Redis knows.
func TestTheNoteOfThisProcessIsTheCurrentOne(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		var seen events
		l := testenv.Open(t, s.Client(t), noted(), seen.option())
		p := lockmw.Policy{Wait: time.Minute}
		_, first, err := l.Acquire(underNote("first"), "k", p)
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan *lockmw.Lease, 1)
		go func() {
			_, lease, err := l.Acquire(underNote("second\x1b"), "k", p)
			if err != nil {
				t.Error(err)
			}
			second <- lease
		}()
		await.Until(t, "it waits", func() bool { return len(seen.of(lockmw.EventContended)) == 1 })
		if met := seen.of(lockmw.EventContended)[0].Holder; met == nil || met.Note != "first" {
			t.Errorf("who waits met %+v", met)
		}
		mustRelease(t, first)
		lease := <-second
		_, _, err = l.Acquire(context.Background(), "k", lockmw.Policy{})
		var refused *lockmw.AcquireError
		if !errors.As(err, &refused) || refused.Holder == nil || refused.Holder.Note != "second\ufffd" {
			t.Errorf("%v names %+v", err, refused.Holder)
		}
		mustRelease(t, lease)
	})
}

// Nothing of that is in an answer to a client: neither who is in the way, nor who has taken a lock and why.
func TestNoClientLearnsWhoIsInTheWay(t *testing.T) {
	s := redistest.Shared(t)
	key := redistest.Prefix(t)
	holder := testenv.Open(t, s.Client(t), lockmw.WithInstance("secret-pod"), noted())
	l := testenv.Open(t, s.Client(t))
	_, lease, err := holder.Acquire(underNote("secret-note"), key, lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	var work func(http.ResponseWriter, *http.Request)
	h := httplock.Middleware(l, keyfunc.Const(key), lockmw.Policy{})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { work(w, r) }))
	answers := func(want string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		var all strings.Builder
		_ = w.Result().Header.Write(&all)
		text := w.Body.String() + all.String()
		if !strings.Contains(text, want) || strings.Contains(text, "secret") || strings.Contains(text, "INC-42") || strings.Contains(text, "ana@") {
			t.Errorf("the client is told %d %s", w.Code, text)
		}
	}
	answers(lockmw.CodeBusy)
	mustRelease(t, lease)
	work = func(_ http.ResponseWriter, r *http.Request) {
		if err := l.ForceReleaseAs(context.Background(), key, incident42); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}
	answers(lockmw.CodeLost)
}

// Who waits for an answer that is made in its own process is told by whom, as who waits for a lock is.
func TestARefusalNamesWhoMakesTheAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		seen := new(events)
		l := testenv.Open(t, s.Client(t), seen.option(), lockmw.WithInstance("web-7"), lockmw.WithNote(func(context.Context) string { return "POST /report" }))
		key, f := redistest.Prefix(t), lockmw.Flight{Policy: lockmw.Policy{Wait: 2 * time.Second}}
		begins, ends := make(chan struct{}), make(chan struct{})
		var first sync.WaitGroup
		first.Go(func() {
			if _, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (int, error) { close(begins); <-ends; return 1, nil }); err != nil {
				t.Error(err)
			}
		})
		<-begins
		_, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (int, error) { return 2, nil })
		refusal, ok := errors.AsType[*lockmw.AcquireError](err)
		if !ok || refusal.Holder == nil || refusal.Holder.Instance != l.Instance() || refusal.Holder.Note != "POST /report" || refusal.Holder.Age < 2*time.Second {
			t.Errorf("Do = %v, of %+v, want who is at work", err, refusal)
		}
		close(ends)
		first.Wait()
		synctest.Wait()
		if all := seen.of(lockmw.EventRefused); len(all) != 1 || all[0].Holder == nil || all[0].Holder.Instance != l.Instance() {
			t.Errorf("the events are %+v", all)
		}
	})
}

// So is who waits behind a call of its own process that waits, too: for work with another fingerprint, of the same process or of another one.
func TestARefusalNamesWhoDoesOtherWork(t *testing.T) {
	for name, inAnother := range map[string]bool{"in the same process": false, "in another process": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				seen := new(events)
				note := lockmw.WithNote(func(context.Context) string { return "POST /report" })
				l := testenv.Open(t, s.Client(t), seen.option(), lockmw.WithInstance("web-7"), note)
				worker := l
				if inAnother {
					worker = testenv.Open(t, s.Client(t), lockmw.WithInstance("web-8"), note)
				}
				key, ends := redistest.Prefix(t), make(chan struct{})
				makes := func(l *lockmw.Locker, fingerprint string, wait time.Duration, does func()) error {
					f := lockmw.Flight{Policy: lockmw.Policy{Wait: wait}, Fingerprint: []byte(fingerprint)}
					_, _, err := lockmw.Do(context.Background(), l, key, f, func(context.Context) (int, error) { does(); return 1, nil })
					return err
				}
				var others sync.WaitGroup
				carriedOut := func(l *lockmw.Locker, fingerprint string, does func()) {
					others.Go(func() {
						if err := makes(l, fingerprint, time.Minute, does); err != nil {
							t.Errorf("%s: %v", fingerprint, err)
						}
					})
					time.Sleep(time.Second) // in the bubble: it works, or waits
				}
				carriedOut(worker, "one", func() { <-ends })
				carriedOut(l, "two", func() {})
				err := makes(l, "two", 2*time.Second, func() {})
				refusal, ok := errors.AsType[*lockmw.AcquireError](err)
				if !ok || !errors.Is(err, lockmw.ErrNotAcquired) {
					t.Fatalf("Do = %v, want that it is not acquired", err)
				}
				if h := refusal.Holder; h == nil || h.Instance != worker.Instance() || h.Note != "POST /report" || h.Age < 3900*time.Millisecond || h.Age > 5*time.Second {
					t.Errorf("Do = %v, of %+v, want %s, which is at work for 4 s", err, h, worker.Instance())
				}
				close(ends)
				others.Wait()
				synctest.Wait()
				if all := seen.of(lockmw.EventRefused); len(all) != 1 || all[0].Holder != refusal.Holder {
					t.Errorf("the events are %+v, want one with the holder of the error", all)
				}
			})
		})
	}
}
