package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// A slot is a Cluster's slot in migration, and stays so until the test ends.
type slot struct {
	*testing.T
	from, to *redis.Client
}

// migrate leaves the slot of p's lock k in migration, with those of its keys moved
// that the test names by their place in keys.
func migrate(t *testing.T, shards *redistest.Shards, p *probe) *slot {
	t.Helper()
	key := p.keys("k")[0]
	owner, err := shards.Owner(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := &slot{t, owner.Client(t), shards.Other(owner).Client(t)}
	number := s.from.ClusterKeySlot(t.Context(), key).Val()
	source, dest := s.from.ClusterMyID(t.Context()).Val(), s.to.ClusterMyID(t.Context()).Val()
	do(t, s.to, "CLUSTER", "SETSLOT", number, "IMPORTING", source)
	do(t, s.from, "CLUSTER", "SETSLOT", number, "MIGRATING", dest)
	return s
}

// move moves keys to the target.
func (s *slot) move(keys ...string) {
	s.Helper()
	host, port := splitAddr(s.to.Options().Addr)
	for _, key := range keys {
		do(s.T, s.from, "MIGRATE", host, port, key, 0, 5000)
	}
}

func splitAddr(addr string) (host, port string) {
	_, _ = fmt.Sscanf(addr, "127.0.0.1:%s", &port)
	return "127.0.0.1", port
}

// at returns whether the lock k is at the source and at the target.
func (s *slot) at(p *probe) (source, target bool) {
	key := p.keys("k")[0]
	there := func(at *redis.Client) bool {
		pipe := at.Pipeline()
		pipe.Do(context.Background(), "ASKING")
		get := pipe.Get(context.Background(), key)
		_, _ = pipe.Exec(context.Background())
		return get.Err() == nil
	}
	return there(s.from), there(s.to)
}

// A mutex in a slot in migration, wherever its key is, and whatever else there is:
// a script with all the lock's keys is refused everywhere.
func TestAMutexWorksWhileItsSlotIsInMigration(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	p, q := open(t, shards.Client(t), "kit"), open(t, shards.Client(t), "kit")
	keys := p.keys("k")
	held, waits := p.ref(time.Second), q.ref(time.Minute)
	p.get(held, store.Try)
	q.refused(waits, store.Wait) // so there is a queue
	s := migrate(t, shards, p)
	held.TTL = time.Minute
	for _, moved := range []string{"", keys[1], keys[0], keys[2]} {
		if moved != "" {
			s.move(moved)
		}
		p.renew(held, true)
		q.refused(q.ref(time.Minute), store.Try)
		if a := q.refused(waits, store.Wait); a.Left < 50*time.Second {
			t.Errorf("Left = %v after %q was moved, want the minute of the renewal", a.Left, moved)
		}
		q.renew(waits, false)
		q.release(waits, false, store.NotHeld)
		if a := p.get(held, store.Try); a.Fence == 0 {
			t.Error("the holder, asked again, has no fence")
		}
	}
	if source, target := s.at(p); source || !target {
		t.Fatalf("the lock is at the source: %v, at the target: %v, want it moved", source, target)
	}
	fence := p.get(held, store.Try).Fence
	p.release(held, false, store.Freed)
	q.release(waits, true, store.NotHeld) // gives its place up
	if n := s.to.Exists(t.Context(), keys[0]).Val(); n != 0 {
		t.Errorf("%d keys of the lock are left", n)
	}

	// New ones are at the target, one at a time and with growing fences.
	for range 3 {
		r, other := p.ref(time.Minute), q.ref(time.Minute)
		a := p.get(r, store.Try)
		if a.Fence <= fence {
			t.Errorf("fence %d is not above %d", a.Fence, fence)
		}
		q.refused(other, store.Last)
		p.renew(r, true)
		if did, err := p.ReleaseAfter(t.Context(), r, 300*time.Millisecond); did != store.Freed || err != nil {
			t.Errorf("ReleaseAfter = %v, %v, want %v", did, err, store.Freed)
		}
		q.refused(other, store.Try)
		await.Until(t, "the lock ends", func() bool { return q.ask(other, store.Try).Granted })
		fence = q.get(other, store.Try).Fence
		q.release(other, false, store.Freed)
		p.renew(r, false)
		p.release(r, false, store.NotHeld)
	}
}

// Many leases of one process that are due together go in one pipeline, of which some
// are in the slot.
func TestRenewalsOfASlotInMigrationGoWithOthers(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	p := open(t, shards.Client(t), "kit")
	batch := []store.Renewal{{Ref: p.take()}}
	for i := range 20 {
		r := store.Ref{Key: fmt.Sprint("other", i), Token: p.NewToken(""), TTL: time.Minute}
		p.get(r, store.Try)
		batch = append(batch, store.Renewal{Ref: r})
	}
	lost := p.ref(time.Minute) // does not hold k
	batch = append(batch, store.Renewal{Ref: lost})
	s := migrate(t, shards, p)
	for range 2 {
		do(t, s.from, "SCRIPT", "FLUSH")
		do(t, s.to, "SCRIPT", "FLUSH")
		p.Renew(t.Context(), batch)
		for _, r := range batch {
			if want := r.Token != lost.Token; r.Held != want || r.Err != nil {
				t.Errorf("renewal of %s = %v, %v, want %v", r.Key, r.Held, r.Err, want)
			}
		}
		s.move(p.keys("k")[0])
	}
}

// What was abandoned is removed all the same: the lock, and the place in the queue.
func TestWhatIsAbandonedIsRemovedFromASlotInMigration(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	p := open(t, shards.Client(t), "kit")
	held, waits := p.take(), p.ref(time.Minute)
	p.refused(waits, store.Wait)
	s := migrate(t, shards, p)
	s.move(p.keys("k")[1])
	batch := []store.Removal{{Ref: waits}, {Ref: held}, {Ref: p.ref(time.Minute)}}
	p.Remove(t.Context(), batch)
	for i, r := range batch {
		if r.Err != nil {
			t.Errorf("removal %d: %v", i, r.Err)
		}
	}
	if source, target := s.at(p); source || target {
		t.Errorf("the lock is at the source: %v, at the target: %v, want it nowhere", source, target)
	}
	if n := shards.Client(t).ZCard(t.Context(), p.keys("k")[1]).Val(); n != 0 {
		t.Errorf("%d places are left in the queue", n)
	}
}

// A fence beside the lock, which the clock has not passed, is not gone below. The
// script cannot write a new one, so nothing is granted.
func TestAFenceIsNotGoneBelowInASlotInMigration(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	p := open(t, shards.Client(t), "kit")
	client := shards.Client(t)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	if err := client.Set(t.Context(), p.keys("k")[3], ahead, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	s := migrate(t, shards, p)
	for range 2 {
		_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
		wantVerdict(t, "Acquire", err, passing, "TRYAGAIN")
		s.move(p.keys("k")[3])
	}
}

// Readers and permits need more than one key, and are refused until the slot is moved.
func TestSeveralHoldersAreRefusedInASlotInMigration(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	p := open(t, shards.Client(t), "kit")
	migrate(t, shards, p)
	for _, kind := range []store.Kind{{Shared: true}, {Permits: 2}} {
		r := p.ref(time.Minute)
		r.Kind = kind
		_, err := p.Acquire(t.Context(), store.Request{Ref: r})
		wantVerdict(t, fmt.Sprintf("Acquire(%+v)", kind), err, passing, "TRYAGAIN")
	}
}
