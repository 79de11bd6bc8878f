package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/golden"
	"github.com/lockmw/kit/internal/test/redistest"
)

// In a Cluster a subscription may be on another node than the lock, so that
// PUBLISH finds no receiver: that says nothing there.
func TestAProcessElsewhereInTheClusterIsGrantedUnheard(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		holder, elsewhere := open(t, client, ns), open(t, client, ns)
		elsewhere.cluster = true
		elsewhere.subscribed.Store(true)
		r, waits := holder.ref(time.Minute), elsewhere.ref(time.Minute)
		holder.get(r, store.Try)
		elsewhere.refused(waits, store.Wait)
		holder.release(r, false, store.HandedOver)
		elsewhere.get(waits, store.Wait)
	})
}

// A locker may ask while its subscription is broken and it has not noticed
// yet. Nobody hears the message then, but the answer names the sibling.
func TestANewcomerDoesNotOvertakeItsOwnDeafProcess(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		for _, join := range []store.Join{store.Try, store.Wait, store.Last} {
			client, ns := s.Client(t), redistest.Prefix(t)
			holder, deaf := open(t, client, ns), open(t, client, ns)
			deaf.subscribed.Store(true)
			holder.get(holder.ref(time.Minute), store.Try)
			first, newcomer := deaf.ref(time.Minute), deaf.ref(time.Minute)
			deaf.refused(first, store.Wait)
			lock := deaf.keys("k")[0]
			client.Del(t.Context(), lock)
			if got := deaf.refused(newcomer, join).Siblings; got != first.Token {
				t.Errorf("Acquire(%s): Siblings = %q, want %q, which stood in front", joins[join], got, first.Token)
			}
		}
	})
}

// Whoever uses one of a lock's side keys for other data is told so and keeps
// the data, and nothing stays for ever.
func TestOtherDataInASideKeyAreLeftAlone(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		kinds := []store.Kind{{}, {Shared: true}, {Permits: 2}}
		for i, side := range []string{"queue", "alive", "fence", "holders"} {
			for n := range 2 * len(kinds) {
				contended, kind := n%2 == 1, kinds[n/2]
				client, ns := s.Client(t), redistest.Prefix(t)
				holder, p := open(t, client, ns), open(t, client, ns)
				keys := p.keys("k")
				planted := keys[i+1]
				if contended {
					holds := holder.ref(time.Minute)
					holds.Kind = kind
					holder.get(holds, store.Try)
				}
				client.Del(t.Context(), planted)
				if err := client.RPush(t.Context(), planted, "data").Err(); err != nil {
					t.Fatal(err)
				}

				asks := p.ref(time.Minute)
				asks.Kind = kind
				_, err := p.Acquire(t.Context(), store.Request{Ref: asks, Join: store.Wait})
				keepsOtherData(t, client, ns, planted, fmt.Sprintf("%s (contended %v): Acquire", side, contended), err)
			}
		}
	})
}

// keepsOtherData checks what a question, which err came of, has made of data that
// are not a lock's, under the key planted: they are there, the error is none or
// permanent, and nothing else stays for ever.
func keepsOtherData(t *testing.T, client *redis.Client, ns, planted, question string, err error) {
	t.Helper()
	if e := (*store.Error)(nil); err != nil && (!errors.As(err, &e) || !e.Permanent) {
		t.Errorf("%s = %v, want nil or a permanent error", question, err)
	}
	if got := client.LRange(t.Context(), planted, 0, -1).Val(); !slices.Equal(got, []string{"data"}) {
		t.Errorf("%s made of the data %q", question, got)
	}
	for _, key := range client.Keys(t.Context(), ns+"*").Val() {
		if key != planted && client.PTTL(t.Context(), key).Val() < 0 {
			t.Errorf("%s = %v and left %s without a TTL", question, err, key)
		}
	}
}

// A foreign program may keep its lock without a TTL.
func TestAForeignLockWithoutTTLIsWaitedFor(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p := open(t, client, ns)
		lock := p.keys("k")[0]
		if err := client.Set(context.Background(), lock, "theirs", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if left := p.refused(p.ref(time.Minute), store.Try).Left; left != 0 {
			t.Errorf("Left = %v, want 0: unknown", left)
		}
		if ttl := client.PTTL(context.Background(), lock).Val(); ttl != -1 {
			t.Errorf("PTTL = %v, want -1 as before", ttl)
		}
	})
}

// The scripts are known to the server by the hash that Go computes. Each is a file, apart
// from the parts that they include.
func TestScriptsAreCalledByTheirHash(t *testing.T) {
	files, err := filepath.Glob("lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	parts := []string{"lua/enter.lua", "lua/lock.lua", "lua/made.lua", "lua/queue.lua"}
	files = slices.DeleteFunc(files, func(file string) bool { return slices.Contains(parts, file) })
	if len(files)+1 != len(scripts) { // keep.lua is a part of two
		t.Errorf("%d files are scripts, want %d: %q", len(files), len(scripts)-1, files)
	}
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client := s.Client(t)
		for name, script := range scripts {
			if got, err := client.ScriptLoad(t.Context(), script.text).Result(); got != script.sha || err != nil {
				t.Errorf("SCRIPT LOAD of %s = %q, %v, want %q", name, got, err, script.sha)
			}
		}
	})
}

// A server knows a script by its hash. Where that changes, lockers of two versions that run
// beside each other during an upgrade send two scripts for one thing: each must do with what
// the other has left. So the hashes are written down, and no script changes unseen.
func TestTheScriptsAreTheOnesWrittenDown(t *testing.T) {
	var got string
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		got += scripts[name].sha + "  " + name + "\n"
	}
	golden.Check(t, "testdata/scripts.sha1", got)
}
