package redisstore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

// bundle returns refs for the locks k, k1, k2 on the same terms.
func (p *probe) bundle(kind store.Kind) []store.Ref {
	refs := []store.Ref{p.ref(time.Minute), p.ref(time.Minute), p.ref(time.Minute)}
	refs[1].Key, refs[2].Key = "k1", "k2"
	for i := range refs {
		refs[i].Kind = kind
	}
	return refs
}

func (p *probe) all(refs []store.Ref) []int64 {
	p.Helper()
	var fences []int64
	_, err := insist(func() (err error) {
		fences, err = p.AcquireAll(context.Background(), refs, time.Time{}, nil)
		return err
	})
	if err != nil {
		p.Fatalf("AcquireAll: %v", err)
	}
	return fences
}

var kinds = []store.Kind{{}, {Shared: true}, {Permits: 1}}

func TestSeveralLocksAreTakenInOneStep(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		for _, kind := range kinds {
			client, ns := s.Client(t), redistest.Prefix(t)
			p, other := open(t, client, ns), open(t, client, ns)
			refs := p.bundle(kind)
			fences := p.all(refs)
			if len(fences) != 3 || slices.Contains(fences, 0) {
				t.Errorf("%+v: fences %v", kind, fences)
			}
			if again := p.all(refs); !slices.Equal(again, fences) {
				t.Errorf("%+v: asked again: %v, want %v", kind, again, fences)
			}
			for i, r := range refs {
				theirs := other.ref(time.Minute)
				theirs.Key = r.Key
				other.refused(theirs, store.Try)
				p.renew(r, true)
				if got := p.get(r, store.Try); got.Fence != fences[i] {
					t.Errorf("%+v: fence %d, want %d", kind, got.Fence, fences[i])
				}
				p.release(r, false, store.Freed)
			}
			if left := client.Keys(t.Context(), ns+"*").Val(); len(left) > 0 {
				t.Errorf("%+v: left: %q", kind, left)
			}
		}
	})
}

func TestAllOrNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		for _, kind := range kinds {
			client, ns := s.Client(t), redistest.Prefix(t)
			p, other := open(t, client, ns), open(t, client, ns)
			held := other.ref(time.Minute)
			held.Key = "k2" // the last one
			other.get(held, store.Try)
			if fences := p.all(p.bundle(kind)); fences != nil {
				t.Errorf("%+v: granted %v although one is held", kind, fences)
			}
			other.release(held, false, store.Freed)
			if left := client.Keys(t.Context(), ns+"*").Val(); len(left) > 0 {
				t.Errorf("%+v: left: %q", kind, left)
			}
		}
	})
}

// Whoever takes several locks does not overtake who waits for one of them.
func TestSeveralLocksWaitBehindOthers(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p, other := open(t, client, ns), open(t, client, ns)
		reader, writer := other.ref(time.Minute), other.ref(time.Minute)
		reader.Kind.Shared = true
		other.get(reader, store.Try)
		other.refused(writer, store.Wait)
		if fences := p.all(p.bundle(store.Kind{Shared: true})); fences != nil {
			t.Errorf("readers overtook a writer that waits: %v", fences)
		}
	})
}

func TestClusterTakesNoLocksTogether(t *testing.T) {
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer c.Close()
	p := open(t, c, "kit")
	if p.TakesSeveral() {
		t.Error("a Cluster takes several locks in one step")
	}
}
