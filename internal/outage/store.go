package outage

import (
	"context"
	"slices"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A watchedStore is a store that tells an outage what comes of every command about
// a lock, and also that nothing does where the caller's context panics.
type watchedStore struct {
	store.Store
	outage *Outage
}

// Acquire implements store.Store.
func (w *watchedStore) Acquire(ctx context.Context, r store.Request) (store.Answer, error) {
	server := w.outage.of(r.Key)
	server.sent(r.Key)
	over := false
	defer server.unlessOver(&over)
	answer, err := w.Store.Acquire(ctx, r)
	over = true
	server.ended(ctx, err)
	return answer, err
}

// Recall implements store.Store.
func (w *watchedStore) Recall(ctx context.Context, r store.Request) (store.Answer, error) {
	server := w.outage.of(r.Key)
	server.sent(r.Key)
	over := false
	defer server.unlessOver(&over)
	answer, err := w.Store.Recall(ctx, r)
	over = true
	server.ended(ctx, err)
	return answer, err
}

// Release implements store.Store.
func (w *watchedStore) Release(ctx context.Context, g store.Give) (store.Released, store.Answer, error) {
	server := w.outage.of(g.Key)
	server.sent(g.Key)
	over := false
	defer server.unlessOver(&over)
	did, answer, err := w.Store.Release(ctx, g)
	over = true
	server.ended(ctx, err)
	return did, answer, err
}

// ReleaseAsync implements store.Store.
func (w *watchedStore) ReleaseAsync(g store.Give, soon bool, told func(store.Released, store.Answer, error) <-chan struct{}) {
	server := w.outage.of(g.Key)
	server.sent(g.Key)
	w.Store.ReleaseAsync(g, soon, func(did store.Released, answer store.Answer, err error) <-chan struct{} {
		server.ended(context.Background(), err)
		return told(did, answer, err)
	})
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

// TakesSeveral implements store.Store. While a server is not reachable nothing takes several keys in one step. Then each
// key is asked for by itself, and its claim knows what to do in an outage.
func (w *watchedStore) TakesSeveral() bool {
	return w.outage.troubled.Load() == 0 && w.Store.TakesSeveral()
}

// AcquireAll implements store.Store.
func (w *watchedStore) AcquireAll(ctx context.Context, refs []store.Ref, until time.Time, late func(granted bool, err error)) ([]int64, error) {
	server := w.outage.of(refs[0].Key)
	server.sent(refs[0].Key)
	over := false
	defer server.unlessOver(&over)
	fences, err := w.Store.AcquireAll(ctx, refs, until, late)
	over = true
	server.ended(ctx, err)
	return fences, err
}

// Close implements store.Store.
func (w *watchedStore) Close() error {
	w.outage.stop()
	return w.Store.Close()
}
