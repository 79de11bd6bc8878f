package lockmw_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

type wrapped struct{ redis.UniversalClient }

func TestUnusableClientsAreRefusedWithTheReason(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	for _, tc := range []struct {
		client redis.UniversalClient
		want   string
	}{
		{nil, "client is nil"},
		{(*redis.Client)(nil), "nil *redis.Client"},
		{(*redis.ClusterClient)(nil), "nil *redis.ClusterClient"},
		{ring, "two holders"},
		{wrapped{}, "pass the *redis.Client"},
	} {
		if _, err := lockmw.New(tc.client); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%T: err = %v, want it to say %q", tc.client, err, tc.want)
		}
	}
}

func TestANamespaceMayBeCalledNearlyAsWhatIsReserved(t *testing.T) {
	for _, ns := range []string{"lockmw2", "lockmw-shop", "shop:lockmw", "shadow", "shop-shadow", "shop:shadows", "shop:shadow:1"} {
		testenv.Open(t, redistest.Embedded(t).Client(t), lockmw.WithNamespace(ns))
	}
}

func TestBadOptionsAreRefusedWithTheReason(t *testing.T) {
	c := redistest.Embedded(t).Client(t)
	for _, tc := range []struct {
		option lockmw.Option
		want   string
	}{
		{nil, "option 1 is nil"},
		{lockmw.WithNamespace(""), "WithNamespace: empty"},
		{lockmw.WithNamespace("a{b"), `WithNamespace: has the character '{'`},
		{lockmw.WithNamespace(strings.Repeat("n", 129)), "WithNamespace: 129 bytes"},
		{lockmw.WithNamespace("lockmw"), `WithNamespace: "lockmw": below lockmw lie the settings of all namespaces`},
		{lockmw.WithNamespace("lockmw:settings"), `WithNamespace: "lockmw:settings": below lockmw`},
		{lockmw.WithNamespace("shop:shadow"), `WithNamespace: "shop:shadow": there lie the locks of policies with Shadow of the namespace "shop"`},
		{lockmw.WithLogger((*slog.Logger)(nil)), "WithLogger: the logger is nil"},
		{lockmw.WithObserver(nil), "WithObserver: the observer is nil"},
		{lockmw.WithMaxWaiters(0, 5), "WithMaxWaiters: perKey is 0"},
		{lockmw.WithMaxWaiters(5, 4), "WithMaxWaiters: total (4)"},
	} {
		if _, err := lockmw.New(c, tc.option); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("err = %v, want it to say %q", err, tc.want)
		}
	}
}

func TestNewAsksRedisNothing(t *testing.T) {
	m := redistest.Embedded(t)
	testenv.Open(t, m.Client(t))
	if n := m.TotalConnectionCount(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// goredisLog collects what go-redis logs.
type goredisLog struct {
	mu    sync.Mutex
	lines []string
}

func (g *goredisLog) Printf(_ context.Context, format string, v ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lines = append(g.lines, fmt.Sprintf(format, v...))
}

// The options of a client that is in use hold things that belong to it.
func TestClientWithDefaultOptionsIsSharedQuietly(t *testing.T) {
	var log goredisLog
	redis.SetLogger(&log)
	defer redis.SetLogger(&goredisLog{})
	s := redistest.Shared(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer c.Close()
	if err := c.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	l := testenv.Open(t, c)
	key := redistest.Prefix(t)
	first := mustAcquire(t, l, key, lockmw.Policy{})
	if _, lease, err := l.Acquire(context.Background(), key, lockmw.Policy{Wait: 200 * time.Millisecond}); err == nil {
		_ = lease.Release(context.Background())
	}
	mustRelease(t, first)
	log.mu.Lock()
	defer log.mu.Unlock()
	for _, line := range log.lines {
		t.Errorf("go-redis logged: %s", line)
	}
}

func TestNamespacesDoNotExcludeEachOther(t *testing.T) {
	m := redistest.Embedded(t)
	c := m.Client(t)
	a := mustAcquire(t, testenv.Open(t, c, lockmw.WithNamespace("a")), "k", lockmw.Policy{})
	b := mustAcquire(t, testenv.Open(t, c, lockmw.WithNamespace("b")), "k", lockmw.Policy{})
	if !m.Exists("a:{k}") || !m.Exists("b:{k}") {
		t.Errorf("keys: %q", m.Keys())
	}
	mustRelease(t, a)
	mustRelease(t, b)
}
