package redisstore

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// wrapped is what instrumentation libraries hand around.
type wrapped struct{ redis.UniversalClient }

func TestClientsThatCannotCarryLocksAreRefused(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	for name, c := range map[string]struct {
		client redis.UniversalClient
		says   string
	}{
		"nil":                     {nil, "client is nil"},
		"a nil Client":            {(*redis.Client)(nil), "nil *redis.Client"},
		"a nil ClusterClient":     {(*redis.ClusterClient)(nil), "nil *redis.ClusterClient"},
		"a nil Ring":              {(*redis.Ring)(nil), "*redis.Ring"},
		"an empty Client":         {&redis.Client{}, "make it with redis.NewClient"},
		"an empty ClusterClient":  {&redis.ClusterClient{}, "make it with redis.NewClusterClient"},
		"a Ring":                  {ring, "two holders"},
		"a wrapper":               {wrapped{ring}, "redisstore.wrapped"},
		"a pointer to a wrapper":  {&wrapped{ring}, "*redisstore.wrapped"},
		"a nil pointer to a type": {(*wrapped)(nil), "*redisstore.wrapped"},
	} {
		s, err := New(c.client, "kit", "test")
		if err == nil {
			t.Errorf("New with %s = %v, want an error", name, s)
			continue
		}
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("New with %s = %q, want it to say %q", name, err, c.says)
		}
	}
}

// go-redis writes into what hangs on a client's options when its first connection
// is made. This test is for the race detector.
func TestNewDoesNotReadWhatTheUsersClientWrites(t *testing.T) {
	s := redistest.Shared(t)
	for range 20 {
		client := redis.NewClient(&redis.Options{Addr: s.Addr()}) // asks for notifications, which the server refuses
		connected := make(chan error, 1)
		go func() { connected <- client.Ping(t.Context()).Err() }()
		p := open(t, client, redistest.Prefix(t))
		p.release(p.take(), false, store.Freed)
		if err := await.Receive(t, "PING", connected); err != nil {
			t.Error(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNewAsksNothing(t *testing.T) {
	mini := redistest.Embedded(t)
	p := open(t, mini.Client(t, func(o *redis.Options) { o.MinIdleConns = 0 }), "kit")
	if n := mini.TotalConnectionCount(); n != 0 {
		t.Errorf("New opened %d connections, want 0", n)
	}
	p.take()
}

func TestAClosedClientOfTheUserDoesNotMatter(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client := s.Client(t)
		p := open(t, client, redistest.Prefix(t))
		r := p.take()
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		p.hear()
		p.renew(r, true)
		p.release(r, false, store.Freed)
	})
}

func TestAClosedStoreLeavesTheUsersClientOpen(t *testing.T) {
	client := redistest.Embedded(t).Client(t)
	s, err := New(client, "kit", "test")
	if err != nil {
		t.Fatal(err)
	}
	(&probe{t, s}).take()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("PING with the user's client = %v, want nil", err)
	}
}

func TestAnExhaustedPoolOfTheUserDoesNotMatter(t *testing.T) {
	s := redistest.Real(t)
	client := s.Client(t, func(o *redis.Options) { o.PoolSize, o.MaxActiveConns, o.ReadTimeout = 1, 1, -1 })
	p, other := open(t, client, "kit"), open(t, client, "kit")
	blocked := make(chan error, 1)
	go func() { blocked <- client.BLPop(context.Background(), 0, "never").Err() }()
	raw := s.Client(t)
	await.Until(t, "the application blocks its only connection", func() bool {
		return strings.Contains(raw.Info(t.Context(), "clients").Val(), "blocked_clients:1")
	})

	e := p.hear()
	r, waits := other.take(), p.ref(time.Minute)
	p.refused(waits, store.Wait)
	other.renew(r, true)
	other.release(r, false, store.HandedOver)
	await.Receive(t, "the grant", e.grants)
	p.renew(waits, true)
	p.release(waits, false, store.Freed)

	raw.RPush(t.Context(), "never", "after all")
	if err := await.Receive(t, "the application", blocked); err != nil {
		t.Errorf("BLPOP = %v, want nil", err)
	}
}

// A Sentinel client is a Client whose address is a name and whose dialer knows
// where the master is.
func TestTheUsersDialerIsUsed(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		var dials atomic.Int32
		client := s.Client(t, func(o *redis.Options) {
			o.Addr = "FailoverClient"
			o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
				dials.Add(1)
				return (&net.Dialer{}).DialContext(ctx, network, s.Addr())
			}
		})
		p := open(t, client, redistest.Prefix(t))
		p.hear()
		p.renew(p.take(), true)
		if dials.Load() == 0 {
			t.Error("the user's dialer was not asked")
		}
	})
}

func TestTheUsersDatabaseIsUsed(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client := s.Client(t, func(o *redis.Options) { o.DB = 3 })
		p := open(t, client, redistest.Prefix(t))
		r := p.take()
		lock := p.keys("k")[0]
		if got := client.Get(t.Context(), lock).Val(); !strings.HasPrefix(got, r.Token+":") {
			t.Errorf("GET in the user's database = %q, want %q", got, r.Token)
		}
	})
}

func TestTheUsersCredentialsAreUsed(t *testing.T) {
	mini := redistest.Embedded(t)
	mini.RequireUserAuth("worker", "secret")
	client := mini.Client(t, func(o *redis.Options) { o.Username, o.Password = "worker", "secret" })
	p := open(t, client, "kit")
	p.hear()
	p.renew(p.take(), true)
}

// Deadlines hold whatever the user's client was set up for.
func TestOwnConnectionsAreBounded(t *testing.T) {
	for name, mutate := range map[string]func(o *redis.Options){
		"defaults": func(*redis.Options) {},
		"longer":   func(o *redis.Options) { o.DialTimeout, o.ReadTimeout, o.WriteTimeout = time.Hour, time.Hour, time.Hour },
		"endless":  func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout, o.MaxRetries = -1, -2, 100 },
		"disabled": func(o *redis.Options) { o.PoolTimeout, o.MinIdleConns, o.MaxActiveConns = time.Hour, 2, 3 },
	} {
		client := redistest.Embedded(t).Client(t, mutate)
		o := open(t, client, "kit").client.(*redis.Client).Options()
		for what, d := range map[string]time.Duration{
			"ReadTimeout": o.ReadTimeout, "WriteTimeout": o.WriteTimeout, "PoolTimeout": o.PoolTimeout,
		} {
			if d <= 0 || d > opTimeout {
				t.Errorf("%s: %s = %v, want at most %v", name, what, d, opTimeout)
			}
		}
		if o.MaxRetries != 0 || o.DialerRetries != 1 || !o.ContextTimeoutEnabled || o.MaxActiveConns != 0 || o.MinIdleConns != 0 {
			t.Errorf("%s: options = %+v, want no retries, no idle connections kept, and deadlines that hold", name, o)
		}
	}
	shorter := redistest.Embedded(t).Client(t, func(o *redis.Options) { o.ReadTimeout = 123 * time.Millisecond })
	if got, want := open(t, shorter, "kit").client.(*redis.Client).Options().ReadTimeout, 123*time.Millisecond; got != want {
		t.Errorf("ReadTimeout = %v, want the user's %v", got, want)
	}
}

func TestTheEvictionPolicyIsRead(t *testing.T) {
	s := redistest.Real(t)
	raw, p := s.Client(t), open(t, s.Client(t), "kit")
	for _, want := range []string{"noeviction", "allkeys-lru", "volatile-ttl"} {
		do(t, raw, "CONFIG", "SET", "maxmemory-policy", want)
		if got, err := p.EvictionPolicy(t.Context()); got != want || err != nil {
			t.Errorf("EvictionPolicy = %q, %v, want %q", got, err, want)
		}
	}
}

func TestAnUnknownEvictionPolicyIsAnError(t *testing.T) {
	mini := redistest.Embedded(t)
	p := open(t, mini.Client(t), "kit")
	if got, err := p.EvictionPolicy(t.Context()); err == nil {
		t.Errorf("EvictionPolicy = %q, nil, want an error: the embedded Redis does not tell", got)
	}
	mini.SetError("NOPERM this user has no permissions to run the 'info' command")
	if got, err := p.EvictionPolicy(t.Context()); err == nil {
		t.Errorf("EvictionPolicy = %q, nil, want an error", got)
	}
}
