package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
)

const (
	long    = time.Minute           // a TTL that no test outlasts
	short   = 80 * time.Millisecond // a TTL that a test waits for
	timeout = 10 * time.Second      // of one question, on a busy machine

	// firstTTL is the most that a hand-over gives before the first renewal.
	firstTTL = 2 * time.Second

	// lock is the name of the lock that most tests are about.
	lock = "orders/17"
)

var joins = [...]string{store.Try: "Try", store.Wait: "Wait", store.Last: "Last"}

// A world is one test's keyspace with the processes in it.
type world struct {
	*testing.T
	keyspace Keyspace
}

func newWorld(t *testing.T, keyspace Keyspace) *world {
	return &world{T: t, keyspace: keyspace}
}

// keys returns what lies in the keyspace, with the remaining TTLs. A negative
// one is that of a key without a TTL.
func (w *world) keys() map[string]time.Duration {
	w.Helper()
	all := make(map[string]time.Duration)
	for i, node := range w.keyspace.Nodes {
		for key, ttl := range w.keysOf(node) {
			all[fmt.Sprintf("node %d: %s", i, key)] = ttl
		}
	}
	return all
}

func (w *world) keysOf(node redis.UniversalClient) map[string]time.Duration {
	w.Helper()
	var mu sync.Mutex
	all := make(map[string]time.Duration)
	w.atServers(node, func(ctx context.Context, server *redis.Client) error {
		names, err := server.Keys(ctx, w.keyspace.Prefix+"*").Result()
		if err != nil || len(names) == 0 {
			return err
		}
		ttls := make([]*redis.DurationCmd, len(names))
		_, err = server.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i, name := range names {
				ttls[i] = pipe.PTTL(ctx, name)
			}
			return nil
		})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for i, name := range names {
			if ttl := ttls[i].Val(); ttl != -2 { // -2: it expired between the two questions
				all[name] = ttl
			}
		}
		return nil
	})
	return all
}

// channels counts the channels of this keyspace on which somebody listens.
func (w *world) channels() int64 {
	w.Helper()
	var n atomic.Int64
	for _, node := range w.keyspace.Nodes {
		w.atServers(node, func(ctx context.Context, server *redis.Client) error {
			names, err := server.PubSubChannels(ctx, w.keyspace.Prefix+"*").Result()
			n.Add(int64(len(names)))
			return err
		})
	}
	return n.Load()
}

// atServers calls do for a node, or all masters of a Cluster at once.
func (w *world) atServers(node redis.UniversalClient, do func(ctx context.Context, server *redis.Client) error) {
	w.Helper()
	var err error
	switch n := node.(type) {
	case *redis.ClusterClient:
		err = n.ForEachMaster(w.Context(), do)
	case *redis.Client:
		err = do(w.Context(), n)
	default:
		err = fmt.Errorf("a node is a %T", node)
	}
	if err != nil {
		w.Fatalf("look at a node: %v", err)
	}
}

// mustExpire fails the test if a key is there for ever.
func (w *world) mustExpire(after string) {
	w.Helper()
	for key, ttl := range w.keys() {
		if ttl < 0 {
			w.Errorf("after %s: %s has no TTL", after, key)
		}
	}
}

// mustBeEmpty fails the test if anything lies in the keyspace.
func (w *world) mustBeEmpty(after string) {
	w.Helper()
	var left map[string]time.Duration
	if !w.holds(func() bool { left = w.keys(); return len(left) == 0 }) {
		w.Errorf("after %s there is left: %v", after, slices.Sorted(maps.Keys(left)))
	}
}

// mustHold fails the test unless token, "" for nobody, holds lock on all nodes.
func (w *world) mustHold(token string) {
	w.Helper()
	var holders []string
	agreed := w.holds(func() bool {
		holders = nil
		w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
			got, err := node.Get(ctx, key).Result()
			holder, _, _ := strings.Cut(got, ":") // and the fence
			holders = append(holders, holder)
			if errors.Is(err, redis.Nil) {
				return nil
			}
			return err
		})
		return !slices.ContainsFunc(holders, func(h string) bool { return h != token })
	})
	if !agreed {
		w.Errorf("the holders on the nodes are %q, want %q", holders, token)
	}
}

// holds reports whether cond is true, or comes true where there are several nodes: what
// one of them answered too late is given back in the background, in more than one try
// and within a second or two. No lock of these tests ends by its TTL as soon as that, but
// those that are meant to.
func (w *world) holds(cond func() bool) bool {
	if cond() {
		return true
	}
	if len(w.keyspace.Nodes) == 1 {
		return false
	}
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(timeout)
	for {
		select {
		case <-poll.C:
			if cond() {
				return true
			}
		case <-deadline:
			return false
		}
	}
}

// onNodes does something with the lock's key on every node, as programs in
// other languages do.
func (w *world) onNodes(do func(ctx context.Context, node redis.UniversalClient, key string) error) {
	w.Helper()
	for _, node := range w.keyspace.Nodes {
		if err := do(w.Context(), node, w.keyspace.Key(lock)); err != nil {
			w.Fatalf("at the lock's key: %v", err)
		}
	}
}

// left is what is left of the lock's TTL at a majority of the nodes. One that
// answered too late for a vote may have less, or nothing: the lock stands with the
// others.
func (w *world) left() time.Duration {
	w.Helper()
	var ttls []time.Duration
	w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
		ttl, err := node.PTTL(ctx, key).Result()
		ttls = append(ttls, ttl)
		return err
	})
	slices.Sort(ttls)
	slices.Reverse(ttls)
	return ttls[len(ttls)/2]
}

// awaitExpiry waits until a lock with a short TTL is not held any more.
func (w *world) awaitExpiry() {
	w.Helper()
	w.pass(short)
	w.eventually("the lock expires", func() bool {
		there := int64(0)
		w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
			n, err := node.Exists(ctx, key).Result()
			there += n
			return err
		})
		return there == 0
	})
}

// lasts wants the lock to end in d, or in a little less.
func (w *world) lasts(d time.Duration, when string) {
	w.Helper()
	var left time.Duration
	if !w.holds(func() bool { left = w.left(); return left <= d && left > d-timeout }) {
		w.Errorf("%s: PTTL = %v, want nearly %v", when, left, d)
	}
}

// outlast lets so much time pass that what had d left is over.
func (w *world) outlast(d time.Duration) {
	if w.keyspace.Pass != nil {
		w.keyspace.Pass(d)
		return
	}
	<-time.After(d + time.Millisecond)
}

// pass lets time pass where the test is to do that.
func (w *world) pass(d time.Duration) {
	if w.keyspace.Pass != nil {
		w.keyspace.Pass(d)
	}
}

// drop deletes the lock's key behind everybody's back, as an operator does.
func (w *world) drop() {
	w.Helper()
	w.onNodes(func(ctx context.Context, node redis.UniversalClient, key string) error {
		return node.Del(ctx, key).Err()
	})
}

// wipe deletes everything in the keyspace, as FLUSHALL or a restart does.
func (w *world) wipe() {
	w.Helper()
	for _, node := range w.keyspace.Nodes {
		for name := range w.keysOf(node) {
			if err := node.Del(w.Context(), name).Err(); err != nil {
				w.Fatalf("DEL %s: %v", name, err)
			}
		}
	}
}

// eventually is await.Within, with the suite's time.
func (w *world) eventually(what string, is func() bool) {
	w.Helper()
	await.Within(w, timeout, what, is)
}
