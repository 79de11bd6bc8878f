package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// Release implements store.Store. It asks all nodes and answers when a majority has freed the lock, or
// denies that it was held. Where a node does not answer, or denies it, the
// command that took the lock may be under way yet: the janitors see to that.
//
// Asked again after an error, nodes that freed the lock the first time deny
// that it is held. So it may end in an error, or NotHeld, although a majority
// has freed the lock by and by; the caller knows of the first error.
func (s *Store) Release(ctx context.Context, g store.Give) (store.Released, store.Answer, error) {
	did, err := s.release(context.WithoutCancel(ctx), g) // whoever has a majority leaves, and the other nodes are still to be asked
	return did, store.Answer{}, err
}

// ReleaseAsync implements store.Store. It is not called.
func (s *Store) ReleaseAsync(store.Give, bool, func(store.Released, store.Answer, error) <-chan struct{}) {
}

// Announce implements store.Store. It is not called.
func (s *Store) Announce(string) (over func()) { return func() {} }

// NewTicket implements store.Store. It is not called.
func (s *Store) NewTicket(string) string { return "" }

// Recall implements store.Store. It is not called.
func (s *Store) Recall(context.Context, store.Request) (store.Answer, error) {
	return store.Answer{}, nil
}

// Resolve implements store.Store. It is not called.
func (s *Store) Resolve(context.Context, string, store.Record) (store.Resolved, error) {
	return store.NoSuchWork, nil
}

// Shadow implements store.Store. It is not called.
func (s *Store) Shadow() (store.Store, error) { return s, nil }

// Note implements store.Store. It is not called.
func (s *Store) Note(context.Context, store.Work) (store.Beside, error) { return store.Beside{}, nil }

// Begun implements store.Store. It is not called.
func (s *Store) Begun(context.Context, string, func([]string) bool) error { return nil }

// AnswersHealth implements store.Store: no answers are kept.
func (s *Store) AnswersHealth(context.Context) (facts []string, advice []error) { return nil, nil }

// Settings implements store.Store. It is not called.
func (s *Store) Settings(context.Context) (texts map[string]string, clock int64, err error) {
	return nil, 0, errNoSettings
}

// Set implements store.Store. It is not called.
func (s *Store) Set(context.Context, string, *string, string) (had string, done bool, err error) {
	return "", false, errNoSettings
}

var errNoSettings = errors.New("a quorum keeps no settings")

func (s *Store) release(ctx context.Context, g store.Give) (store.Released, error) {
	if g.Until.IsZero() {
		g.Until = time.Now().Add(mostNodeTimeout)
	}
	type reply struct {
		node int
		did  store.Released
		err  error
	}
	replies := make(chan reply, len(s.nodes))
	for i, n := range s.nodes {
		s.calls.Go(func() {
			did, _, err := n.Store.Release(ctx, g)
			if err != nil || did == store.NotHeld {
				s.janitors[i].AddAt(time.Now().Add(g.Stay), g.Ref, false)
			}
			replies <- reply{i, did, err}
		})
	}
	freed, denied := 0, 0
	var errs []error
	for range s.nodes {
		switch got := <-replies; {
		case got.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", s.nodes[got.node].Name, got.err))
		case got.did == store.NotHeld:
			denied++
		default:
			freed++
		}
		switch {
		case freed >= s.majority:
			return store.Freed, nil
		case denied >= s.majority:
			return store.NotHeld, nil
		}
	}
	return store.NotHeld, s.noMajority(errs)
}
