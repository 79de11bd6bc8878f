package redistest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
)

func TestClusterServesAllSlots(t *testing.T) {
	t.Parallel()
	began := time.Now()
	c := Cluster(t)
	t.Logf("three masters were there after %v", time.Since(began))
	client := c.Client(t)
	owners := make(map[*Server]int)
	for i := range 60 {
		key := fmt.Sprint("key ", i)
		if err := client.Set(t.Context(), key, i, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		owner, err := c.Owner(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		owners[owner]++
	}
	if len(owners) != 3 {
		t.Errorf("%d nodes have keys, want 3", len(owners))
	}
}

// Whoever subscribes at one node hears what is published at any, from the moment that Cluster returns.
func TestNodesOfAClusterHearEachOther(t *testing.T) {
	t.Parallel()
	c := Cluster(t)
	for _, at := range c.Nodes {
		sub := at.Client(t).Subscribe(t.Context(), "news")
		defer sub.Close()
		if _, err := sub.Receive(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, from := range c.Nodes {
			if err := from.Client(t).Publish(t.Context(), "news", from.Addr()).Err(); err != nil {
				t.Fatal(err)
			}
			if msg := await.Receive(t, fmt.Sprintf("what %s publishes, at %s", from.Addr(), at.Addr()), sub.Channel()); msg.Payload != from.Addr() {
				t.Errorf("heard %q, want %q", msg.Payload, from.Addr())
			}
		}
	}
}

func TestASlotMovesWithItsKeys(t *testing.T) {
	t.Parallel()
	c := Cluster(t)
	client := c.Client(t)
	for i := range 250 {
		if err := client.Set(t.Context(), fmt.Sprintf("{k}%d", i), i, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	from, err := c.Owner(t.Context(), "{k}")
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range c.Nodes {
		if to == from {
			continue
		}
		var tryAgain error
		err := c.Move(t.Context(), "{k}", to, func() {
			once := c.Client(t, func(o *redis.ClusterOptions) { o.MaxRetries, o.MaxRedirects = -1, -1 })
			tryAgain = once.MGet(t.Context(), "{k}1", "{k}none").Err()
		})
		if err != nil {
			t.Fatal(err)
		}
		if !redis.HasErrorPrefix(tryAgain, "TRYAGAIN") {
			t.Errorf("MGET of a key and none meanwhile = %v, want TRYAGAIN", tryAgain)
		}
		for _, asked := range c.Nodes {
			await.Until(t, asked.Addr()+" knows the new owner", func() bool {
				owner, _ := c.ownerBy(t.Context(), asked, "{k}")
				return owner == to
			})
		}
		for i := range 250 {
			key := fmt.Sprintf("{k}%d", i)
			if got, err := client.Get(t.Context(), key).Int(); got != i || err != nil {
				t.Fatalf("GET %s = %d, %v, want %d", key, got, err, i)
			}
		}
		if ttl := client.PTTL(t.Context(), "{k}1").Val(); ttl <= 0 {
			t.Errorf("the TTL of a key that moved is %v", ttl)
		}
	}
}

func TestAClusterGoesOnWithoutOneNode(t *testing.T) {
	t.Parallel()
	c := Cluster(t)
	client := c.Client(t)
	owner, err := c.Owner(t.Context(), "gone")
	if err != nil {
		t.Fatal(err)
	}
	owner.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := client.Set(ctx, "gone", "", time.Minute).Err(); err == nil {
		t.Error("SET of a killed node's key = nil, want an error")
	}
	for i := range 100 {
		key := fmt.Sprint("key ", i)
		if other, err := c.Owner(t.Context(), key); err == nil && other != owner {
			if err := client.Set(t.Context(), key, "", time.Minute).Err(); err != nil {
				t.Errorf("SET of another node's key: %v", err)
			}
			return
		}
	}
	t.Error("the killed node had all keys")
}

func TestAReplicaOfAClusterTakesOver(t *testing.T) {
	t.Parallel()
	c := Cluster(t)
	client := c.Client(t)
	if err := client.Set(t.Context(), "k", "v", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	master, err := c.Owner(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	replica := c.Replica(t, master)
	t.Logf("the replica was there after %v", time.Since(began))
	if err := replica.Client(t).ClusterFailover(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	asked := replica.Client(t, func(o *redis.Options) { o.MaxRetries = -1 })
	await.Until(t, "the replica serves its master's keys", func() bool { return asked.Get(t.Context(), "k").Val() == "v" })
	if err := client.Set(t.Context(), "k", "w", time.Minute).Err(); err != nil {
		t.Errorf("SET by a client that knew the former master: %v", err)
	}
	if got := asked.Get(t.Context(), "k").Val(); got != "w" {
		t.Errorf("GET k at the new master = %q, want %q", got, "w")
	}
}

func TestAReplicaTakesOverFromAKilledMaster(t *testing.T) {
	t.Parallel()
	began := time.Now()
	w := Sentinel(t, DownSoon())
	t.Logf("they knew each other after %v", time.Since(began))
	client := w.Client(t)
	if err := client.Set(t.Context(), "k", "v", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	replica := w.servers[1].Client(t)
	await.Until(t, "the replica has the key", func() bool { return replica.Get(t.Context(), "k").Val() == "v" })
	if master, err := w.Master(t.Context()); master != w.servers[0] || err != nil {
		t.Fatalf("the master is %v, %v", master, err)
	}
	killed := time.Now()
	if err := w.KillMaster(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "another one serves", func() bool {
		return client.Set(t.Context(), "after", "v", time.Minute).Err() == nil
	})
	t.Logf("another one served after %v", time.Since(killed))
	if got, err := client.Get(t.Context(), "k").Result(); got != "v" || errors.Is(err, redis.Nil) {
		t.Errorf("GET k = %q, %v, want what the replica had", got, err)
	}
	await.Until(t, "the Sentinels name the former replica", func() bool {
		master, err := w.Master(t.Context())
		return master == w.servers[1] && err == nil
	})
}
