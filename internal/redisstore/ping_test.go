package redisstore

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// unwatched is the progress of a ping that nobody follows.
var unwatched = store.Progress{Heard: func() {}, Waits: func(bool) {}}

// pinged returns what a ping tells, which has a second for it.
func pinged(t *testing.T, s *Store) (store.Evidence, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	began := time.Now()
	err := s.Ping(ctx, "k", unwatched)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a ping of a second took %v", took)
	}
	if err == nil {
		return 0, true
	}
	return store.AsError(err).Evidence, false
}

func newStore(t *testing.T, client redis.UniversalClient) *Store {
	t.Helper()
	s, err := New(client, redistest.Prefix(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestAnyReplyIsAServerThatIsThere(t *testing.T) {
	m := redistest.Embedded(t)
	s := newStore(t, m.Client(t))
	for _, says := range []string{"", "READONLY You can't write", "NOPERM no permissions", "ERR unknown command", "BUSY Redis is busy", "MOVED 1 127.0.0.1:1"} {
		m.SetError(says)
		if evidence, there := pinged(t, s); !there {
			t.Errorf("%q: evidence %d, want it to be there", says, evidence)
		}
	}
	for _, says := range []string{"LOADING Redis is loading", "CLUSTERDOWN The cluster is down"} {
		m.SetError(says)
		if evidence, there := pinged(t, s); there || evidence != store.Unreachable {
			t.Errorf("%q: there %t, evidence %d, want %d", says, there, evidence, store.Unreachable)
		}
	}
	m.SetError("")
	if s.Server("k") != "" {
		t.Errorf("one server is called %q", s.Server("k"))
	}
	before := m.TotalConnectionCount()
	for range 10 {
		pinged(t, s)
	}
	if n := m.TotalConnectionCount() - before; n > 1 {
		t.Errorf("ten pings made %d connections", n)
	}
}

// slowToClose is a connection whose Close takes its time, as one of the user's Dialer may.
type slowToClose struct {
	net.Conn
	closes chan<- struct{} // gets one when Close is called
	goesOn <-chan struct{} // closed when Close may return
}

func (c slowToClose) Close() error {
	c.closes <- struct{}{}
	<-c.goesOn
	return c.Conn.Close()
}

// Of two pings to one server at a time one leaves its connection for the next ping, and the other closes it. Pings
// that begin meanwhile wait for neither: in a Cluster nobody would find out about any server.
func TestAPingDoesNotWaitUntilAnotherHasClosedItsConnection(t *testing.T) {
	closes, goesOn := make(chan struct{}, 8), make(chan struct{})
	s := newStore(t, redistest.Embedded(t).Client(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			return slowToClose{c, closes, goesOn}, err
		}
	}))
	t.Cleanup(func() { close(goesOn) }) // before the store is closed
	var clients []*pingClient
	for range 2 {
		client := s.pings.take(s.apart(s.client.(*redis.Client).Options()), s.dialer)
		client.ping.Store(&pinging{Progress: unwatched})
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
	}
	s.pings.put(clients[0])
	go s.pings.put(clients[1])
	await.Receive(t, "the connection of the second ping is being closed", closes)
	answered := make(chan bool, 1)
	go func() {
		_, there := pinged(t, s)
		answered <- there
	}()
	if !await.Receive(t, "the answer to the third ping", answered) {
		t.Error("the server was not found")
	}
}

// Long after many dials have failed, too: go-redis's pools wait a second then.
func TestAPingFindsAServerThatIsBack(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	server := redistest.Real(t)
	s := newStore(t, server.Client(t))
	if evidence, there := pinged(t, s); !there {
		t.Errorf("evidence %d", evidence)
	}
	server.Kill()
	for range 50 {
		pinged(t, s) // the connection that it had is closed
	}
	if evidence, there := pinged(t, s); there || evidence != store.Unreachable {
		t.Errorf("killed: there %t, evidence %d, want %d", there, evidence, store.Unreachable)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if evidence, there := pinged(t, s); !there {
		t.Errorf("restarted: evidence %d", evidence)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	for range 3 { // on the connection that it had, and on new ones
		if evidence, there := pinged(t, s); there || evidence != store.Silent {
			t.Errorf("stopped: there %t, evidence %d, want %d", there, evidence, store.Silent)
		}
	}
	if err := server.Cont(); err != nil {
		t.Fatal(err)
	}
	if evidence, there := pinged(t, s); !there {
		t.Errorf("continued: evidence %d", evidence)
	}
}

func TestAPingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.Real(t)
	s := newStore(t, server.Client(t))
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Ping(ctx, "k", unwatched) }()
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a stopped server answered")
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on")
	}
}

func TestAClusterKnowsTheServerOfAKey(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	c := redistest.Cluster(t)
	s := newStore(t, c.Client(t))
	if name := s.Server("k0"); name != "" {
		t.Errorf("before anything is known: %q", name)
	}
	ctx := context.Background()
	if err := s.Ping(ctx, "k0", unwatched); err != nil { // has the topology read
		t.Fatal(err)
	}
	owner, err := c.Owner(ctx, s.keys("k0")[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Server("k0"); got != owner.Addr() {
		t.Errorf("Server = %q, want %q", got, owner.Addr())
	}
	owner.Kill()
	for _, key := range []string{"k0", "k1", "k2", "k3", "k4", "k5"} {
		at, there := s.Server(key), s.Ping(ctx, key, unwatched) == nil
		if there == (at == owner.Addr()) {
			t.Errorf("%s: there %t, at %s; the one that is dead is %s", key, there, at, owner.Addr())
		}
	}
}
