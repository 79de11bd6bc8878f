package redisstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
)

// patience bounds every wait of these tests, on a slow machine.
const patience = await.Patience

// A probe is a Store with which a test asks about the lock named k.
type probe struct {
	*testing.T
	*Store
}

// open returns a Store of one more locker. It is closed when the test ends.
func open(t *testing.T, client redis.UniversalClient, ns string) *probe {
	t.Helper()
	s, err := New(client, ns, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	})
	return &probe{T: t, Store: s}
}

// idle waits until no command of p's is under way, also of those whose callers have left.
func (p *probe) idle() {
	p.Helper()
	await.Until(p.T, "nothing is under way", func() bool { return p.single.Open() == 0 })
	p.running.Wait()
}

func (p *probe) ref(ttl time.Duration) store.Ref {
	return store.Ref{Key: "k", Token: p.NewToken(""), TTL: ttl}
}

// unanswered reports whether a question that began then is to be asked again: on a busy machine
// there may be no answer in time, and a store bears to be asked twice.
func unanswered(err error, began time.Time) bool {
	return err != nil && store.AsError(err).Evidence == store.Silent && time.Since(began) < patience
}

// insist puts a question until it is answered. again says that it was not at first, and so may have done then what it did.
func insist(question func() error) (again bool, err error) {
	began := time.Now()
	for err = question(); unanswered(err, began); err = question() {
		again = true
	}
	return again, err
}

// inTime wants what is measured to take no longer than most, once in three times at least: a busy machine holds up one and then
// goes on, and whoever does not heed a bound takes as long each time.
func inTime(t *testing.T, what string, most time.Duration, measure func() time.Duration) {
	t.Helper()
	var took time.Duration
	for range 3 {
		if took = measure(); took <= most {
			return
		}
	}
	t.Errorf("%s took %v, want %v at most", what, took, most)
}

func (p *probe) ask(r store.Ref, join store.Join) store.Answer {
	p.Helper()
	var a store.Answer
	_, err := insist(func() (err error) {
		a, err = p.Acquire(context.Background(), store.Request{Ref: r, Join: join})
		return err
	})
	if err != nil {
		p.Fatalf("Acquire(%s): %v", joins[join], err)
	}
	return a
}

func (p *probe) get(r store.Ref, join store.Join) store.Answer {
	p.Helper()
	a := p.ask(r, join)
	if !a.Granted {
		p.Errorf("Acquire(%s) was not granted", joins[join])
	}
	return a
}

// take takes the lock with a new token.
func (p *probe) take() store.Ref {
	p.Helper()
	r := p.ref(time.Minute)
	p.get(r, store.Try)
	return r
}

func (p *probe) refused(r store.Ref, join store.Join) store.Answer {
	p.Helper()
	a := p.ask(r, join)
	if a.Granted {
		p.Errorf("Acquire(%s) was granted", joins[join])
	}
	return a
}

// giveBack is Release or, with leave, Remove of one, and what that did.
func (p *probe) giveBack(ctx context.Context, r store.Ref, leave bool) (store.Released, error) {
	if leave {
		c := p.command()
		p.removal(c, store.Removal{Ref: r})
		reply, err := p.send(ctx, deadline(ctx), r.Key, c, nil)
		if err != nil {
			return store.NotHeld, err
		}
		did, _, err := p.released(store.Give{Ref: r}, reply)
		return did, err
	}
	did, _, err := p.Release(ctx, store.Give{Ref: r})
	return did, err
}

// releaseTo is Release that offers the lock to next.
func (p *probe) releaseTo(ctx context.Context, r, next store.Ref, place store.Place) (store.Released, store.Answer, error) {
	return p.Release(ctx, store.Give{Ref: r, Next: store.Waiter{Ref: next, Place: place}})
}

// noteGrant has r tell what the answer said that granted its token.
func noteGrant(r *store.Ref, a store.Answer) { r.Fence, r.Estimate = a.Fence, a.Estimate }

// givenBack is giveBack until it is answered, as insist.
func (p *probe) givenBack(r store.Ref, leave bool) (got store.Released, again bool, err error) {
	again, err = insist(func() (err error) {
		got, err = p.giveBack(context.Background(), r, leave)
		return err
	})
	return got, again, err
}

func (p *probe) leave(r store.Ref, leave bool) store.Released {
	p.Helper()
	got, _, err := p.givenBack(r, leave)
	if err != nil {
		p.Fatalf("Release: %v", err)
	}
	return got
}

func (p *probe) release(r store.Ref, leave bool, want store.Released) {
	p.Helper()
	got, again, err := p.givenBack(r, leave)
	if err != nil {
		p.Fatalf("Release: %v", err)
	}
	if got != want && (!again || got != store.NotHeld) {
		p.Errorf("Release = %v, want %v", got, want)
	}
}

// passOn passes the lock of r on to next, who came just now.
func (p *probe) passOn(r, next store.Ref, want store.Released, granted bool) store.Answer {
	p.Helper()
	did, a, err := p.releaseTo(context.Background(), r, next, store.Place{})
	if did != want || a.Granted != granted || err != nil {
		p.Errorf("Release to the next = %v, granted %v, %v, want %v, granted %v", did, a.Granted, err, want, granted)
	}
	return a
}

func (p *probe) renew(r store.Ref, want bool) {
	p.Helper()
	batch := []store.Renewal{{Ref: r}}
	_, _ = insist(func() error {
		p.Renew(context.Background(), batch)
		return batch[0].Err
	})
	if got := batch[0]; got.Held != want || got.Err != nil {
		p.Errorf("Renew = %v, %v, want %v, nil", got.Held, got.Err, want)
	}
}

// An ear is a Listener that a test reads.
type ear struct {
	listening  chan struct{}
	grants     chan store.News
	othersWait chan waits
	revoked    chan string // keys and tokens, and what was told before of who has them taken and why

	mu    sync.Mutex
	takes store.Intervention // by Revoking, until Revoked
}

// waits is what is told of one who waits for a key that a token has.
type waits struct {
	key, token string
	came       int64
}

func newEar() *ear { // with room for more than any test is told
	return &ear{listening: make(chan struct{}, 100), grants: make(chan store.News, 1000), othersWait: make(chan waits, 1000), revoked: make(chan string, 1000)}
}

// Listening implements store.Listener.
func (e *ear) Listening() { e.listening <- struct{}{} }

// Granted implements store.Listener.
func (e *ear) Granted(g store.News) { e.grants <- g }

// OthersWait implements store.Listener.
func (e *ear) OthersWait(key, token string, came int64) { e.othersWait <- waits{key, token, came} }

// Revoked implements store.Listener.
func (e *ear) Revoked(key, token string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	told := key + " " + token
	if e.takes != (store.Intervention{}) {
		told += " " + e.takes.Author + ": " + e.takes.Reason
	}
	e.takes = store.Intervention{}
	e.revoked <- told
}

// Revoking implements store.Listener.
func (e *ear) Revoking(_, _ string, by store.Intervention) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.takes = by
}

// hear has p listen until the test ends, and returns when it does.
func (p *probe) hear() *ear {
	p.Helper()
	e := newEar()
	p.listen(e)
	await.Receive(p, "Listening", e.listening)
	return e
}

// listen starts Listen and returns a function that ends it, and where its
// result arrives.
func (p *probe) listen(e store.Listener) (stop func(), ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		result <- p.Listen(ctx, e)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	p.Cleanup(stop)
	return stop, result
}

// listenBriefly returns what Listen does, which must not take long.
func (p *probe) listenBriefly() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.Listen(ctx, newEar())
}

// do has a server carry out a command.
func do(t *testing.T, client *redis.Client, args ...any) {
	t.Helper()
	if err := client.Do(context.Background(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}
