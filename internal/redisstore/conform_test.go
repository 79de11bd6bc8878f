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
	for name, place := range map[string]func(tb testing.TB) storetest.Place{
		"embedded": embeddedPlace,
		"redis":    func(tb testing.TB) storetest.Place { return placeAt(tb, redistest.Shared(tb).Client(tb)) },
		"set":      func(tb testing.TB) storetest.Place { return setPlace(tb, redistest.Shared(tb).Client(tb)) },
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.Backend{New: place, Queues: true, Notices: true, Fences: true, Permits: true})
		})
	}
}

// setPlace has Stores that take free locks by SET from the beginning: they know the
// server and its clock.
func setPlace(tb testing.TB, client *redis.Client) storetest.Place {
	tb.Helper()
	place := placeAt(tb, client)
	open := place.Open
	place.Open = func(tb testing.TB) store.Store {
		tb.Helper()
		s, _ := open(tb).(*Store)
		s.suits.Store(true)
		s.sawClock(client.Time(context.Background()).Val().UnixMicro())
		return s
	}
	return place
}

// In a Cluster a release cannot see who listens, so it passes nobody over.
func TestConformanceOfACluster(t *testing.T) {
	slow.Test(t)
	client := redistest.Cluster(t).Client(t)
	storetest.Run(t, storetest.Backend{
		New:    func(tb testing.TB) storetest.Place { return placeAt(tb, client) },
		Queues: true, Fences: true, Permits: true,
	})
}

// embeddedPlace has a clock that moves only when the suite moves it.
func embeddedPlace(tb testing.TB) storetest.Place {
	mini := redistest.Embedded(tb)
	now := noon
	mini.SetTime(now)
	mini.ClockTTL(true) // TTLs count from noon on
	place := placeAt(tb, mini.Client(tb))
	place.Pass = func(d time.Duration) {
		now = now.Add(d)
		mini.SetTime(now)
	}
	return place
}

func placeAt(tb testing.TB, client redis.UniversalClient) storetest.Place {
	ns := redistest.Prefix(tb) + "kit"
	return storetest.Place{
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
