package outage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A watchedStore is a store that tells an outage what comes of every command about
// a lock.
type watchedStore struct {
	store.Store
	outage *Outage
}

// Acquire implements store.Store.
func (w *watchedStore) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	server := w.outage.of(r.Key)
	server.sent(r.Key)
	answer, err := w.Store.Acquire(ctx, r)
	server.ended(ctx, err)
	return answer, err
}

// Release implements store.Store.
func (w *watchedStore) Release(ctx context.Context, r store.Ref, leave bool) (store.Released, error) {
	server := w.outage.of(r.Key)
	server.sent(r.Key)
	did, err := w.Store.Release(ctx, r, leave)
	server.ended(ctx, err)
	return did, err
}

// ReleaseAfter implements store.Store.
func (w *watchedStore) ReleaseAfter(ctx context.Context, r store.Ref, stay time.Duration) (store.Released, error) {
	server := w.outage.of(r.Key)
	server.sent(r.Key)
	did, err := w.Store.ReleaseAfter(ctx, r, stay)
	server.ended(ctx, err)
	return did, err
}

// Renew implements store.Store. A batch may go to several servers.
func (w *watchedStore) Renew(ctx context.Context, batch []store.Renewal) {
	servers := make([]*server, len(batch))
	for i, r := range batch {
		servers[i] = w.outage.of(r.Key)
		if !slices.Contains(servers[:i], servers[i]) {
			servers[i].sent(r.Key)
		}
	}
	w.Store.Renew(ctx, batch)
	for i, r := range batch {
		if !slices.Contains(servers[:i], servers[i]) {
			servers[i].ended(ctx, r.Err) // what came of the first says enough
		}
	}
}

// Remove implements store.Store. To a server that is not reachable nothing is
// sent: pings find out when it is back, and the janitor comes again.
func (w *watchedStore) Remove(ctx context.Context, batch []store.Removal) {
	if w.outage.troubled.Load() == 0 {
		w.Store.Remove(ctx, batch)
		return
	}
	var some []store.Removal
	var places []int // of those in batch
	for i := range batch {
		if p := w.outage.Prospect(batch[i].Key); p.Reach != Reachable {
			batch[i].Err = &store.Error{Err: p.Err()}
			continue
		}
		some, places = append(some, batch[i]), append(places, i)
	}
	if len(some) == 0 {
		return
	}
	w.Store.Remove(ctx, some)
	for i, place := range places {
		batch[place].Err = some[i].Err
	}
}

// ReleaseTo implements store.Relay. It is called only where the store below is one.
func (w *watchedStore) ReleaseTo(ctx context.Context, r, next store.Ref, place store.Place) (store.Released, store.Answer, error) {
	server := w.outage.of(r.Key)
	server.sent(r.Key)
	did, answer, err := w.Store.(store.Relay).ReleaseTo(ctx, r, next, place)
	server.ended(ctx, err)
	return did, answer, err
}

// AcquireAll implements store.Bundler. Where the store below is none, and while a
// server is not reachable, it answers that not all can be had in one step. Then each
// key is asked for by itself, and its claim knows what to do in an outage.
func (w *watchedStore) AcquireAll(ctx context.Context, refs []store.Ref, timeout time.Duration, late func(granted bool, err error)) ([]int64, error) {
	bundler, ok := w.Store.(store.Bundler)
	if !ok || w.outage.troubled.Load() > 0 {
		return nil, nil
	}
	server := w.outage.of(refs[0].Key)
	server.sent(refs[0].Key)
	fences, err := bundler.AcquireAll(ctx, refs, timeout, late)
	server.ended(ctx, err)
	return fences, err
}

// EvictionPolicy is that of the store below, if it can tell it.
func (w *watchedStore) EvictionPolicy(ctx context.Context) (string, error) {
	teller, ok := w.Store.(interface {
		EvictionPolicy(context.Context) (string, error)
	})
	if !ok {
		return "", errors.ErrUnsupported
	}
	return teller.EvictionPolicy(ctx)
}

// Close implements store.Store.
func (w *watchedStore) Close() error {
	w.outage.stop()
	return w.Store.Close()
}
