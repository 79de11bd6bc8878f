package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/storetest"
)

func TestConformance(t *testing.T) {
	for name, keyspace := range map[string]func(tb testing.TB) storetest.Keyspace{
		"embedded": embeddedKeyspace,
		"redis":    func(tb testing.TB) storetest.Keyspace { return keyspaceAt(tb, redistest.Shared(tb).Client(tb)) },
		"set":      func(tb testing.TB) storetest.Keyspace { return setKeyspace(tb, redistest.Shared(tb).Client(tb)) },
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.Backend{New: keyspace, Queues: true, Notices: true, Fences: true, Permits: true})
		})
	}
}

// setKeyspace has Stores that take free locks by SET from the beginning: they know the
// server and its clock.
func setKeyspace(tb testing.TB, client *redis.Client) storetest.Keyspace {
	tb.Helper()
	keyspace := keyspaceAt(tb, client)
	open := keyspace.Open
	keyspace.Open = func(tb testing.TB) store.Store {
		tb.Helper()
		s, _ := open(tb).(*Store)
		s.suits.Store(true)
		s.noteClock(client.Time(context.Background()).Val().UnixMicro())
		return s
	}
	return keyspace
}

// In a Cluster a release cannot see who listens, so it passes nobody over.
func TestConformanceOfACluster(t *testing.T) {
	slow.Test(t)
	client := redistest.Cluster(t).Client(t)
	storetest.Run(t, storetest.Backend{
		New:    func(tb testing.TB) storetest.Keyspace { return keyspaceAt(tb, client) },
		Queues: true, Fences: true, Permits: true,
	})
}

// embeddedKeyspace has a clock that moves only when the suite moves it.
func embeddedKeyspace(tb testing.TB) storetest.Keyspace {
	mini := redistest.Embedded(tb)
	now := noon
	mini.SetTime(now)
	mini.ClockTTL(true) // TTLs count from noon on
	keyspace := keyspaceAt(tb, mini.Client(tb))
	keyspace.Pass = func(d time.Duration) {
		now = now.Add(d)
		mini.SetTime(now)
	}
	return keyspace
}

func keyspaceAt(tb testing.TB, client redis.UniversalClient) storetest.Keyspace {
	ns := redistest.Prefix(tb) + "kit"
	return storetest.Keyspace{
		Open: func(tb testing.TB) store.Store {
			tb.Helper()
			s, err := New(client, ns, "test")
			if err != nil {
				tb.Fatal(err)
			}
			return s
		},
		Nodes:  []redis.UniversalClient{client},
		Prefix: ns,
		Key: func(lock string) string {
			key := (&Store{ns: ns}).keys(lock)[0]
			return key
		},
	}
}
