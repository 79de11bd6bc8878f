package redistest

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestEachRunsBoth(t *testing.T) {
	var ran []string
	Each(t, func(t *testing.T, s Backend) {
		client, key := s.Client(t), Prefix(t)+"k"
		set(t, client, key, "v")
		if got := client.Get(t.Context(), key).Val(); got != "v" {
			t.Errorf("GET at %s = %q, want %q", s.Addr(), got, "v")
		}
		switch s.(type) {
		case *Mini:
			ran = append(ran, "embedded")
		case *Server:
			ran = append(ran, "redis")
		}
	})
	if want := []string{"embedded", "redis"}; !slices.Equal(ran, want) {
		t.Errorf("ran against %q, want %q", ran, want)
	}
}

func TestPrefixIsNeverTheSame(t *testing.T) {
	if a, b := Prefix(t), Prefix(t); a == b {
		t.Errorf("two prefixes = %q", a)
	}
}

func TestMutatorsChangeTheClient(t *testing.T) {
	client := Embedded(t).Client(t, func(o *redis.Options) { o.PoolSize = 3 }, func(o *redis.Options) { o.PoolSize++ })
	if got, want := client.Options().PoolSize, 4; got != want {
		t.Errorf("PoolSize = %d, want %d", got, want)
	}
}

func TestClientMayBeClosedEarlier(t *testing.T) {
	client := Embedded(t).Client(t)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
}

func TestEmbeddedKeysExpireByTheWallClock(t *testing.T) {
	client := Embedded(t).Client(t)
	if err := client.Set(t.Context(), "k", "v", 20*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(20 * time.Second); client.Exists(t.Context(), "k").Val() == 1; <-poll.C {
		if time.Now().After(deadline) {
			t.Fatal("the key did not expire")
		}
	}
}

func TestInMemoryKeysExpireByTheBubblesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := InMemory(t).Client(t)
		set(t, client, "k", "v") // for a minute
		time.Sleep(59 * time.Second)
		if err := client.Get(t.Context(), "k").Err(); err != nil {
			t.Errorf("GET k after 59 s = %v, want nil", err)
		}
		time.Sleep(2 * time.Second)
		if err := client.Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("GET k after 61 s = %v, want %v", err, redis.Nil)
		}
	})
}
