package quorum

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A voter is a node that answers every Acquire in the same way. It has nothing to
// give back.
type voter struct {
	store.Store
	name     string
	grants   bool
	distance time.Duration

	mu     sync.Mutex
	silent bool
}

func (v *voter) fallSilent(silent bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.silent = silent
}

// Acquire implements store.Store.
func (v *voter) Acquire(_ context.Context, r store.Request) (store.Answer, error) {
	v.mu.Lock()
	silent := v.silent
	v.mu.Unlock()
	if silent {
		time.Sleep(time.Until(r.Until))
		return store.Answer{}, &store.Error{Err: errors.New("no answer"), Ambiguous: true, Evidence: store.Silent}
	}
	time.Sleep(v.distance)
	return store.Answer{Granted: v.grants, Left: time.Second}, nil
}

// Remove implements store.Store.
func (v *voter) Remove(context.Context, []store.Removal) {}

// Close implements store.Store.
func (v *voter) Close() error { return nil }

// election makes a quorum of voters, and returns a function that asks it for a lock.
func election(t *testing.T, voters ...*voter) (ask func() (store.Answer, time.Duration, error)) {
	t.Helper()
	var nodes []Node
	for _, v := range voters {
		nodes = append(nodes, Node{Name: v.name, Store: v})
	}
	s := New(nodes, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { _ = s.Close() })
	return func() (store.Answer, time.Duration, error) {
		began := time.Now()
		a, err := s.Acquire(context.Background(), store.Request{Ref: store.Ref{Key: "k", Token: "t", TTL: time.Minute}, Until: began.Add(time.Second)})
		return a, time.Since(began), err
	}
}

// Votes that are split are given back at once where the node that is out has been silent:
// nobody else could have the lock while they wait for it.
func TestASilentNodeDoesNotHoldUpASplitVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs, third := &voter{name: "ours", grants: true}, &voter{name: "theirs"}, &voter{name: "third", grants: true}
		third.distance = 10 * time.Millisecond
		ask := election(t, ours, theirs, third)
		want := func(what string, granted bool, took time.Duration) {
			t.Helper()
			a, d, err := ask()
			if err != nil || a.Granted != granted || d != took {
				t.Errorf("%s: granted %t after %v, %v; want %t after %v", what, a.Granted, d, err, granted, took)
			}
			if !a.Granted && (a.Left != time.Second || a.Ballot == nil) {
				t.Errorf("%s: %+v, want the time that is left and the ballot", what, a)
			}
			time.Sleep(time.Second) // all have answered
		}
		want("all answer", true, third.distance)
		third.fallSilent(true)
		want("one falls silent", false, mostNodeTimeout)
		want("it was silent", false, 0)
		third.fallSilent(false)
		want("it answers again", false, 0)
		want("it has answered again", true, third.distance)
	})
}

// A majority that is silent is waited for: nothing is known without it.
func TestASilentMajorityIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := &voter{name: "a", grants: true}, &voter{name: "b", grants: true}, &voter{name: "c", grants: true}
		b.distance, c.distance = 10*time.Millisecond, 10*time.Millisecond
		ask := election(t, a, b, c)
		b.fallSilent(true)
		c.fallSilent(true)
		for range 2 {
			if _, took, err := ask(); store.AsError(err).Evidence != store.Silent || took != mostNodeTimeout {
				t.Errorf("%v after %v, want an error after %v", err, took, mostNodeTimeout)
			}
		}
		b.fallSilent(false)
		c.fallSilent(false)
		if answer, took, err := ask(); !answer.Granted || took != b.distance {
			t.Errorf("granted %t after %v, %v", answer.Granted, took, err)
		}
	})
}
