package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A fail-over to a replica that is behind may give a lock to two: that is out
// of the model, so overlaps are counted. Fences stay in order nevertheless.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	stood, began := stalls.During(t), time.Now()
	w := redistest.Sentinel(t, redistest.DownSoon())
	stop := redistest.Pulse(stood, 20*time.Millisecond, redistest.Silences, w.Servers()[0].Client(t))
	defer stop()
	lockers := []*lockmw.Locker{testenv.Open(t, w.Client(t)), testenv.Open(t, w.Client(t))}
	ld := startLoad(lockers, 4, []string{"a", "b", "c"}, lockmw.Policy{TTL: 2 * time.Second, Wait: 5 * time.Second})
	ld.more(t, 300)
	before, err := w.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop()
	killed := time.Now()
	if err := w.KillMaster(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Within(t, 40*time.Second, "another master is named and writes", func() bool {
		master, err := w.Master(t.Context())
		if err != nil || master == before {
			return false
		}
		c := redis.NewClient(redistest.Options(master.Addr()))
		defer c.Close()
		return c.Set(t.Context(), "there", "", time.Minute).Err() == nil
	})
	up := time.Now()
	ld.more(t, 1)
	back := time.Now()
	ld.more(t, 300)
	ld.end(t)
	var last time.Time
	for _, m := range ld.mishaps {
		if m.at.Before(killed) && stood.Longest(began, killed) < 300*time.Millisecond { // or the Sentinels may have replaced a master that stood still
			t.Errorf("an error before the master was killed: %v", m.err)
		}
		last = m.at
	}
	t.Logf("a master was up again %v after the kill, turns went on after %v, the last error was %v after the kill; %d overlaps",
		up.Sub(killed), back.Sub(killed), last.Sub(killed), ld.overlaps(t))
	// Whoever asked while there was no master may wait for its budget and the
	// clean-up of what it left.
	if late := last.Sub(up); late > 10*time.Second {
		t.Errorf("the last error came %v after a master was up", late)
	}
}

// The replica of a Cluster's node takes its master's place, as an operator has it before a node is stopped, while locks are held
// and waited for: nothing is lost. Then the new master is killed, and the former one takes its place again, as an operator has it
// where the others do not agree that it is gone. What it had received is kept.
func TestClusterFailoverUnderLoad(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := redistest.Cluster(t)
	const key = "contended"
	master, err := c.Owner(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	replica := c.Replica(t, master)
	lockers := []*lockmw.Locker{testenv.Open(t, c.Client(t)), testenv.Open(t, c.Client(t))}
	long := lockmw.Policy{TTL: 30 * time.Second, Wait: time.Minute} // which a machine that stands still does not use up
	held := mustAcquire(t, lockers[0], sameSlot(t, c.Client(t), key), long)
	waiting := lineUp(t, lockers[1], held.Key(), lockmw.Policy{TTL: 30 * time.Second, Retries: lockmw.Forever}, 2) // through any outage

	ld := startLoad(lockers, 3, []string{key}, lockmw.Policy{TTL: 5 * time.Second, Wait: 10 * time.Second})
	ld.more(t, 100)
	began := time.Now()
	failOver(t, replica)
	ld.more(t, 100)
	ld.end(t)
	t.Logf("the longest time without a turn was %v", ld.longestGap(began))
	if n := ld.overlaps(t); n > 0 {
		t.Errorf("%d holds overlap", n)
	}
	for _, m := range ld.mishaps {
		if errors.Is(m.err, lockmw.ErrLost) {
			t.Errorf("a lock was lost: %v", m.err)
		}
	}
	wantRenewed(t, lockers[0], held)

	former := master.Client(t)
	await.Until(t, "the former master follows the new one", func() bool {
		return strings.Contains(former.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
	catchUp(t, replica, "{"+key+"}:last")
	replica.Kill()
	failOver(t, master, "TAKEOVER")
	up := time.Now()
	wantRenewed(t, lockers[0], held)
	const soon = 2 * time.Second
	took := time.Since(up)
	t.Logf("a held lock was renewed %v after a master was there", took)
	if took > soon+3*time.Second+machine.Between(up, time.Now()) { // a slow machine
		t.Errorf("a held lock was renewed after %v, want %v", took, soon)
	}
	mustRelease(t, held)
	last := held.Fence()
	for range cap(waiting) {
		next := await.Receive(t, "the turn of one who has waited", waiting)
		if next == nil {
			return // it was said why
		}
		if next.Fence() <= last {
			t.Errorf("fence %d after %d", next.Fence(), last)
		}
		last = next.Fence()
		mustRelease(t, next)
	}
	mustRelease(t, mustAcquire(t, lockers[0], key, long))
}

// failOver has a replica of a Cluster take its master's place.
func failOver(t *testing.T, replica *redistest.Server, how ...any) {
	t.Helper()
	const givenUp = 6 * time.Second // Redis gives up one that has lasted for five
	var asked time.Time
	await.Until(t, "the replica is the master", func() bool {
		if time.Since(asked) > givenUp {
			asked = time.Now()
			command(t, replica, append([]any{"CLUSTER", "FAILOVER"}, how...)...)
		}
		return isMaster(t, replica)
	})
}

func isMaster(t *testing.T, s *redistest.Server) bool {
	t.Helper()
	client := redis.NewClient(redistest.Options(s.Addr()))
	defer client.Close()
	return strings.Contains(client.Info(t.Context(), "replication").Val(), "role:master")
}

// wantRenewed has a lock that is held renewed.
func wantRenewed(t *testing.T, l *lockmw.Locker, held *lockmw.Lease) {
	t.Helper()
	before := held.ValidUntil()
	await.Until(t, "the lock that is held is renewed", func() bool {
		lockmw.RenewAll(l)
		return held.ValidUntil().After(before) || !held.Valid()
	})
	if !held.Valid() {
		t.Errorf("the lock that is held was lost: %v", context.Cause(held.Context()))
	}
}

// A slot moves from node to node and back while its key is contended. A lock
// that is held all the time, in the same slot, is not lost.
func TestClusterSlotMovesUnderLoad(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := redistest.Cluster(t)
	lockers := []*lockmw.Locker{testenv.Open(t, c.Client(t)), testenv.Open(t, c.Client(t))}
	client := c.Client(t)
	const key = "contended"
	held := mustAcquire(t, lockers[0], sameSlot(t, client, key), lockmw.Policy{TTL: 15 * time.Second})
	first := held.ValidUntil()

	ld := startLoad(lockers, 3, []string{key}, lockmw.Policy{TTL: 2 * time.Second, Wait: 3 * time.Second})
	ld.more(t, 100)
	from, err := c.Owner(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var windows []time.Duration
	moves := 0
	began := time.Now()
	for _, to := range append(c.Nodes, from) {
		if owner, _ := c.Owner(t.Context(), key); owner == to {
			continue
		}
		opened := time.Now()
		window := time.NewTimer(300 * time.Millisecond) // what an operator's tool takes for the other keys
		if err := c.Move(t.Context(), key, to, func() {
			lockmw.RenewAll(lockers[0])
			<-window.C
		}); err != nil {
			t.Fatal(err)
		}
		moves++
		windows = append(windows, time.Since(opened).Round(time.Millisecond))
		ld.more(t, 100)
		if !held.Valid() {
			t.Errorf("the lock that was held was lost: %v", context.Cause(held.Context()))
		}
	}
	ld.end(t)
	t.Logf("%d moves, windows of %v; the longest time without a turn was %v", moves, windows, ld.longestGap(began))
	if moves < 3 {
		t.Errorf("the slot moved %d times, want 3", moves)
	}
	if n := ld.overlaps(t); n > 0 {
		t.Errorf("%d holds overlap", n)
	}
	if !held.ValidUntil().After(first) {
		t.Error("the lock that was held was not renewed")
	}
	asked := time.Now()
	if err := held.Release(context.Background()); err != nil && !unanswered(err, asked) {
		t.Errorf("release of the lock that was held: %v", err)
	}
}

// While a slot is in migration nobody can see a lock's queue. So no process passes the lock
// on within itself, or others would have no turn for as long as that lasts.
func TestClusterSlotInMigrationIsNotForOneProcessAlone(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	const key = "contended"
	c := redistest.Cluster(t)
	crowd := gather(t, testenv.Open(t, c.Client(t)), key, 8, time.Millisecond, new(inside))
	defer crowd.disperse()
	other := testenv.Open(t, c.Client(t))
	from, err := c.Owner(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Move(t.Context(), key, c.Other(from), func() {
		for range 3 {
			began := time.Now()
			_, lease, err := other.Acquire(context.Background(), key, lockmw.Policy{TTL: 3 * time.Second, Wait: 10 * time.Second})
			if err != nil {
				t.Error(err)
				return
			}
			crowd.inside.enter(t, lease)
			crowd.inside.leave()
			mustRelease(t, lease)
			t.Logf("had its turn after %v", time.Since(began))
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// A move of a slot may take long, or stop half-way. Leases of mutexes in it live on,
// can be given back, and new ones are had; all of that was refused once.
func TestClusterSlotThatStaysInMigration(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := redistest.Cluster(t)
	one, two := testenv.Open(t, c.Client(t)), testenv.Open(t, c.Client(t))
	const ttl = 15 * time.Second // a machine that stands still does not use it up; it is renewed in each turn
	p := lockmw.Policy{TTL: ttl}
	waits := lockmw.Policy{TTL: ttl, Wait: 20 * time.Second}
	const key, stays = "contended", 4 * time.Second
	other := sameSlot(t, c.Client(t), key)
	from, err := c.Owner(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	to := c.Other(from)
	held, short := mustAcquire(t, one, other, p), mustAcquire(t, one, key, p)
	if err := c.Move(t.Context(), key, to, func() {
		began, turns, first := time.Now(), 0, held.ValidUntil()
		for time.Since(began) < stays {
			lockmw.RenewAll(one)
			lockmw.RenewAll(two)
			if !held.Valid() {
				t.Fatalf("the lock that is held was lost after %v: %v", time.Since(began), context.Cause(held.Context()))
			}
			asked := time.Now()
			if _, _, err := two.Acquire(context.Background(), key, p); !errors.Is(err, lockmw.ErrNotAcquired) && !unanswered(err, asked) {
				t.Fatalf("a lock that is held: %v, want %v", err, lockmw.ErrNotAcquired)
			}
			taken := make(chan *lockmw.Lease)
			go func() {
				lease, err := askedAgain(two, key, waits)
				if err != nil {
					t.Errorf("a waiter: %v", err)
				}
				taken <- lease
			}()
			mustRelease(t, short)
			if short = <-taken; short == nil {
				return
			}
			turns++
		}
		if !held.ValidUntil().After(first) {
			t.Error("the lock that is held was not renewed")
		}
		t.Logf("%d turns while the slot was in migration for %v", turns, time.Since(began))
	}); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, short)
	if !held.Valid() {
		t.Errorf("the lock that is held was lost when the slot had moved: %v", context.Cause(held.Context()))
	}
	mustRelease(t, held)
	for _, node := range c.Nodes {
		noKeys(t, node.Client(t), key, 15*time.Second)
		noKeys(t, node.Client(t), other, 15*time.Second)
	}
}

// The last reader goes while its slot moves, and a writer waits: giving back is refused as long
// as that lasts, and done soon after. Once it was stopped half-way, the lock given back and
// nobody told.
func TestClusterReaderGoesWhileItsSlotMoves(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	const key = "contended"
	c := redistest.Cluster(t)
	one, two := testenv.Open(t, c.Client(t)), testenv.Open(t, c.Client(t))
	read := mustAcquire(t, one, key, lockmw.Policy{TTL: time.Minute, Mode: lockmw.Shared})
	granted := make(chan *lockmw.Lease, 1)
	go func() {
		_, lease, err := two.Acquire(context.Background(), key, lockmw.Policy{TTL: 5 * time.Second, Wait: time.Minute})
		if err != nil {
			t.Errorf("the writer: %v", err)
		}
		granted <- lease
	}()
	from, err := c.Owner(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	source := from.Client(t)
	await.Until(t, "it waits", func() bool { return len(keysOf(t, source, "{"+key+"}")) == 5 })
	if err := c.Move(t.Context(), key, c.Other(from), func() {
		if err := read.Release(context.Background()); !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("release = %v, want %v", err, lockmw.ErrUnavailable)
		}
		if n := source.Exists(context.Background(), "lock:{"+key+"}").Val(); n != 1 {
			t.Error("the release says that it was refused, and the lock was given back")
		}
	}); err != nil {
		t.Fatal(err)
	}
	moved := time.Now()
	write := await.Receive(t, "the writer's turn", granted)
	t.Logf("the writer has its turn %v after the slot has moved", time.Since(moved))
	if write != nil {
		mustRelease(t, write)
	}
	for _, node := range c.Nodes {
		noKeys(t, node.Client(t), key, 15*time.Second)
	}
}

// sameSlot returns another key whose lock is in the same slot.
func sameSlot(t *testing.T, client *redis.ClusterClient, key string) string {
	t.Helper()
	want := client.ClusterKeySlot(t.Context(), key).Val()
	for batch := range 200 {
		var slots []*redis.IntCmd
		if _, err := client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for i := range 1000 {
				slots = append(slots, pipe.ClusterKeySlot(t.Context(), fmt.Sprintf("k%d", batch*1000+i)))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for i, slot := range slots {
			if slot.Val() == want {
				return fmt.Sprintf("k%d", batch*1000+i)
			}
		}
	}
	t.Fatal("no key in the same slot")
	return ""
}

// keysByNode returns a node of a Cluster, those of n keys that it serves, and those
// that the others do.
func keysByNode(t *testing.T, c *redistest.Shards, n int) (node *redistest.Server, theirs, others []string) {
	t.Helper()
	for i := range n {
		key := fmt.Sprint("k", i)
		owner, err := c.Owner(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if node == nil {
			node = owner
		}
		if owner == node {
			theirs = append(theirs, key)
		} else {
			others = append(others, key)
		}
	}
	return node, theirs, others
}

// The locks of the other nodes' slots go on, and the killed node's are refused.
func TestClusterNodeThatDiesTakesItsOwnLocksOnly(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := redistest.Cluster(t)
	l := testenv.Open(t, c.Client(t))
	owner, theirs, others := keysByNode(t, c, 40)
	p := lockmw.Policy{TTL: 2 * time.Second}
	lost := mustAcquire(t, l, theirs[0], p)
	kept := mustAcquire(t, l, others[0], lockmw.Policy{TTL: 15 * time.Second}) // which a machine that stands still does not use up
	first := kept.ValidUntil()
	owner.Kill()
	select {
	case <-lost.Context().Done():
	case <-time.After(20 * time.Second):
		t.Error("a lock of a dead node is held on to")
	}
	await.Within(t, 20*time.Second, "a lock of another node is renewed", func() bool {
		lockmw.RenewAll(l)
		return kept.ValidUntil().After(first) || !kept.Valid()
	})
	if !kept.Valid() {
		t.Error("a lock of another node was lost")
	}
	for _, key := range others[1:] {
		mustRelease(t, mustAcquire(t, l, key, lockmw.Policy{TTL: 2 * time.Second, Wait: 10 * time.Second}))
	}
	for _, key := range theirs[1:3] {
		if _, _, err := l.Acquire(context.Background(), key, p); err == nil {
			t.Errorf("%s was granted by a dead node", key)
		}
	}
	mustRelease(t, kept)
	_ = lost.Release(context.Background()) // lost
}

// A slot that no node serves says nothing about the nodes, which serve others: locks
// of those are taken, and those of the slot neither wait for the others nor fail open.
func TestASlotThatNobodyServesIsNoOutage(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := redistest.Cluster(t, redistest.Args("--cluster-require-full-coverage", "no"))
	ctx := t.Context()
	slot, err := c.Nodes[0].Client(t).ClusterKeySlot(ctx, "unserved").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range c.Nodes {
		if err := node.Client(t).Do(ctx, "CLUSTER", "DELSLOTS", slot).Err(); err != nil {
			t.Fatal(err)
		}
	}
	l := testenv.Open(t, c.Client(t))
	for i := range 10 { // a node at random is asked
		p := lockmw.Policy{FailOpen: true}
		if i < 2 {
			p.Wait = 2 * time.Second // longer than a moment in which no node answers, on a busy machine
		}
		_, lease, err := l.Acquire(ctx, "unserved", p)
		if !errors.Is(err, lockmw.ErrUnavailable) {
			t.Errorf("err = %v, want ErrUnavailable", err)
		}
		if lease != nil {
			mustRelease(t, lease)
		}
	}
	for i := range 20 {
		lease := mustAcquire(t, l, fmt.Sprint("k", i), lockmw.Policy{Wait: 5 * time.Second, FailOpen: true})
		if lease.Fence() == 0 {
			t.Errorf("k%d: ran without the lock", i)
		}
		mustRelease(t, lease)
	}
}
