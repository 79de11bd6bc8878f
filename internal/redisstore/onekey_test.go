package redisstore

import (
	"context"
	"fmt"
	"strings"
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
	held, waits := p.ref(10*time.Second), q.ref(time.Minute)
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
		if did, _, err := p.Release(t.Context(), store.Give{Ref: r, Stay: 20 * time.Second}); did != store.Freed || err != nil {
			t.Errorf("Release that stays = %v, %v, want %v", did, err, store.Freed)
		}
		stays := []store.Removal{{Ref: r, Stay: 3 * time.Second}}
		if p.Remove(t.Context(), stays); stays[0].Err != nil {
			t.Errorf("Remove that stays: %v", stays[0].Err)
		}
		q.refused(other, store.Try)
		await.Until(t, "the lock ends", func() bool { return q.ask(other, store.Try).Granted })
		fence = q.get(other, store.Try).Fence
		q.release(other, false, store.Freed)
		p.renew(r, false)
		p.release(r, false, store.NotHeld)
	}
}

// Many leases of one locker that are due together go in one pipeline, of which some
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

// Who is granted the lock, or asks for the last time, leaves the queue. A place that stayed there would be handed the lock when that is
// given back, and nobody would use it.
func TestWhoGetsTheLockOfASlotInMigrationLeavesTheQueue(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	client := shards.Client(t)
	p, q := open(t, shards.Client(t), "kit"), open(t, shards.Client(t), "kit")
	held, waits, last := p.take(), q.ref(time.Minute), q.ref(time.Minute)
	q.refused(waits, store.Wait)
	q.refused(last, store.Wait)
	s := migrate(t, shards, p)
	s.move(p.keys("k")[0])
	for _, step := range []struct {
		ref           store.Ref
		join          store.Join
		free, granted bool
		places        int64
	}{
		{ref: waits, join: store.Wait, places: 2},
		{ref: last, join: store.Last, places: 1},
		{ref: waits, join: store.Wait, free: true, granted: true, places: 0},
	} {
		if step.free {
			p.release(held, false, store.Freed)
		}
		r := store.Request{Ref: step.ref, Join: step.join, Again: true}
		if step.join == store.Last { // the queue is out of reach, so the next one has to ask
			r.Next = store.Waiter{Ref: q.ref(time.Minute), Place: store.Place{Waited: time.Second}}
		}
		a, err := q.Acquire(t.Context(), r)
		if err != nil || a.Granted != step.granted || a.Placed {
			t.Errorf("Acquire(%s) again = %+v, %v, want granted %v", joins[step.join], a, err, step.granted)
		}
		if n := client.ZCard(t.Context(), p.keys("k")[1]).Val(); n != step.places {
			t.Errorf("after Acquire(%s) again there are %d places in the queue, want %d", joins[step.join], n, step.places)
		}
	}
	q.release(waits, false, store.Freed)
	if source, target := s.at(p); source || target {
		t.Errorf("the lock is at the source: %v, at the target: %v, want it nowhere", source, target)
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

// Where all of a lock's keys are at one of the two nodes, a script begins there. It is carried
// out, or refused before its first write: once it was stopped where it came to a key that it had
// deleted itself, so that the lock was free and the first who waited forgotten, and nobody was told.
func TestNoScriptIsStoppedHalfWayInASlotInMigration(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	ctx := context.Background()
	const ttl = 10 * time.Minute // a busy machine needs longer than a minute for all stages
	shards := redistest.Cluster(t)
	client := shards.Client(t)
	type stage struct {
		what        string
		p, q        *probe
		held, waits store.Ref
		ask         func(p, q *probe, held, waits store.Ref) error
	}
	build := func() (all []stage) {
		for what, ask := range everyCommand {
			for name, set := range map[string]struct {
				holder, waiter store.Kind
				others         int
				dead           bool // the waiter's locker
			}{
				"a reader, and a writer waits":        {store.Kind{Shared: true}, store.Kind{}, 0, false},
				"two readers, and a writer waits":     {store.Kind{Shared: true}, store.Kind{}, 1, false},
				"a permit, and one waits":             {store.Kind{Permits: 1}, store.Kind{Permits: 1}, 0, false},
				"a reader, and a permit waits":        {store.Kind{Shared: true}, store.Kind{Permits: 2}, 0, false},
				"a writer with all keys, and a queue": {store.Kind{}, store.Kind{Shared: true}, 0, false},
				"a reader, and a dead one waits":      {store.Kind{Shared: true}, store.Kind{}, 0, true},
			} {
				ns := redistest.Prefix(t)
				p, q := open(t, client, ns), open(t, client, ns)
				st := stage{what + " of " + name, p, q, p.ref(ttl), q.ref(ttl), ask}
				st.held.Kind, st.waits.Kind = set.holder, set.waiter
				p.get(st.held, store.Try)
				for range set.others {
					other := p.ref(ttl)
					other.Kind = set.holder
					p.get(other, store.Try)
				}
				q.refused(st.waits, store.Wait)
				if keys := p.keys("k"); set.holder == (store.Kind{}) { // as after several whose lock has lapsed
					pipe := client.Pipeline()
					pipe.Set(ctx, keys[3], 1, ttl)
					pipe.ZAdd(ctx, keys[4], redis.Z{Score: 1, Member: "old"})
					pipe.Expire(ctx, keys[4], ttl)
					if _, err := pipe.Exec(ctx); err != nil {
						t.Fatal(err)
					}
				}
				if set.dead {
					if err := client.HSet(ctx, p.keys("k")[2], q.locker, "1p0").Err(); err != nil {
						t.Fatal(err)
					}
				}
				for _, key := range p.keys("k") { // places in a queue do not last that long
					client.Expire(ctx, key, ttl)
				}
				all = append(all, st)
			}
		}
		return all
	}
	atSource, atTarget := build(), build()
	s := migrate(t, shards, atSource[0].p)
	refused := 0
	try := func(st stage, where string) {
		before := s.dump(st.p)
		if strings.Count(before, "none") != keyCount {
			t.Fatalf("%s: not all keys are at one of the nodes", st.what)
		}
		if err := st.ask(st.p, st.q, st.held, st.waits); err != nil {
			refused++
			if after := s.dump(st.p); after != before {
				t.Errorf("%s at the %s: %v, but its keys were\n%s, and are\n%s", st.what, where, err, before, after)
			}
			if e := store.AsError(err); e.Permanent {
				t.Errorf("%s at the %s: %v counts as lasting", st.what, where, err)
			}
		}
	}
	for _, st := range atSource {
		try(st, "source")
	}
	for _, st := range atTarget {
		keys := st.p.keys("k")
		s.move(keys[:]...)
		try(st, "target")
	}
	t.Logf("%d of %d were refused", refused, len(atSource)+len(atTarget))
}

// dump returns what is at the source and at the target of the keys of p's lock.
func (s *slot) dump(p *probe) string {
	s.Helper()
	var lines []string
	for _, at := range []*redis.Client{s.from, s.to} {
		pipe := at.Pipeline()
		var dumps []*redis.StringCmd
		for _, key := range p.keys("k") {
			pipe.Do(context.Background(), "ASKING")
			dumps = append(dumps, pipe.Dump(context.Background(), key))
		}
		_, _ = pipe.Exec(context.Background()) // each command has its error
		for i, dump := range dumps {
			text := "none"
			if dump.Err() == nil {
				text = fmt.Sprintf("%q", dump.Val())
			}
			lines = append(lines, keyEnds[i]+" "+text)
		}
	}
	return strings.Join(lines, "\n")
}
