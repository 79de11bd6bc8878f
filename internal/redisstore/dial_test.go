package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// closesSoon closes s, which must not take long.
func closesSoon(t *testing.T, s *Store) {
	t.Helper()
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	took := time.Since(start)
	t.Logf("Close took %v", took)
	if took > 3*time.Second {
		t.Errorf("Close took %v, want at most %v", took, opTimeout+closeTimeout)
	}
}

// dialsForEver sets a Dialer that returns when the test has ended.
func dialsForEver(t *testing.T, o *redis.Options) {
	t.Helper()
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	o.Dialer = func(context.Context, string, string) (net.Conn, error) { <-ended; return nil, errOdd }
}

// Connections of the user's Dialer that do not return from Close, and a ClusterSlots that does not return, are waited for together,
// and not for long.
func TestCloseDoesNotWaitForTheUsersFunctions(t *testing.T) {
	slow.Test(t)
	server := redistest.Real(t)
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	for name, open := range map[string]func(t *testing.T) redis.UniversalClient{
		"connections that are slow to close": func(t *testing.T) redis.UniversalClient {
			t.Helper()
			return server.Client(t, func(o *redis.Options) {
				o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, addr)
					return slowToClose{c, make(chan struct{}, 99), end}, err
				}
			})
		},
		"ClusterSlots does not return": func(t *testing.T) redis.UniversalClient {
			t.Helper()
			client := redis.NewClusterClient(&redis.ClusterOptions{ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				<-end
				return nil, errOdd
			}})
			t.Cleanup(func() { _ = client.Close() })
			return client
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := New(open(t), "kit", "test")
			if err != nil {
				t.Fatal(err)
			}
			listening, over := context.WithCancel(t.Context())
			listened := make(chan error, 1)
			go func() { listened <- s.Listen(listening, newEar()) }()
			var asking sync.WaitGroup
			for i := range 40 {
				asking.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), opTimeout)
					defer cancel()
					_, _ = s.Inspect(ctx, fmt.Sprint("k", i))
					_ = s.Ping(ctx, "k", unwatched)
				})
			}
			asking.Wait()
			over()
			began := time.Now()
			await.Receive(t, "the end of Listen", listened)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > opTimeout+closeTimeout+time.Second {
				t.Errorf("Close took %v, want at most %v", took, closeTimeout)
			}
		})
	}
}

// go-redis's own dialer does not let its context end a TLS handshake.
func TestCloseIsBoundedWhileConnectionsAreSetUp(t *testing.T) {
	slow.Test(t)
	for name, set := range map[string]func(t *testing.T, o *redis.Options){
		"TLS":                           func(_ *testing.T, o *redis.Options) { o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12} },
		"plain":                         func(*testing.T, *redis.Options) {},
		"a Dialer that does not return": dialsForEver,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := New(redistest.NewClient(t, silent(t), func(o *redis.Options) { set(t, o) }), "kit", "test")
			if err != nil {
				t.Fatal(err)
			}
			var asking sync.WaitGroup
			for range 40 {
				asking.Go(func() {
					_, _ = s.Acquire(t.Context(), store.Request{
						Ref: store.Ref{Key: "k", Token: s.NewToken(""), TTL: time.Minute}, Until: time.Now().Add(100 * time.Millisecond),
					})
				})
			}
			asking.Wait()
			closesSoon(t, s)
		})
	}
}

// TLS says goodbye, and waits five seconds for somebody to read it.
func TestATLSConnectionIsClosedWithoutWaiting(t *testing.T) {
	addr, config := redistest.TLS(t, redistest.Embedded(t).Addr())
	client, server := net.Pipe()
	defer server.Close()
	front, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	var copying sync.WaitGroup
	cut := make(chan struct{})
	copying.Go(func() { copyUntil(cut, server, front) })
	copying.Go(func() { copyUntil(cut, front, server) })
	config.ServerName = "127.0.0.1"
	c := tls.Client(client, config)
	if err := c.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(cut) // nobody reads any more
	copying.Wait()
	d := newDialer(&redis.Options{})
	defer d.close()
	start := time.Now()
	if err := (&conn{Conn: c, dialer: d}).Close(); err != nil {
		t.Errorf("Close = %v, want nil", err)
	}
	if took := time.Since(start); took > 4*time.Second { // where it waits that takes five
		t.Errorf("Close took %v, want no wait", took)
	}
}

// copyUntil copies until cut is closed.
func copyUntil(cut <-chan struct{}, to, from net.Conn) {
	b := make([]byte, 4096)
	for {
		_ = from.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if n, _ := from.Read(b); n > 0 {
			_ = to.SetWriteDeadline(time.Now().Add(time.Second)) // what comes behind the handshake is not read
			_, _ = to.Write(b[:n])
		}
		select {
		case <-cut:
			return
		default:
		}
	}
}

// A Dialer of the user's that hangs must not fill the memory.
func TestSetUpsThatDoNotEndAreCounted(t *testing.T) {
	ended := make(chan struct{})
	d := newDialer(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		<-ended
		return nil, errOdd
	}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * abandonedMost {
		if _, err := d.connect(ctx, "tcp", "somewhere:1", nil); err == nil {
			t.Fatal("connect = nil, want an error")
		}
	}
	if n := d.era.abandoned.Load(); n != abandonedMost {
		t.Errorf("%d go on, want %d at most", n, abandonedMost)
	}
	// The next one is not begun. What all of them wait for is an answer to a dial.
	if _, err := d.connect(t.Context(), "tcp", "somewhere:1", nil); !errors.Is(d.verdict(err), errAbandoned) || d.verdict(err).Evidence != store.Silent {
		t.Errorf("connect = %+v, want %v, and that nobody answers", err, errAbandoned)
	}
	close(ended)
	await.Until(t, "they have ended", func() bool { return d.era.abandoned.Load() == 0 })
	d.close()
}

// A connection that is being made while another server becomes the master is made to that one:
// nobody is told of the other.
func TestAConnectionBegunBeforeANewMasterLeadsToIt(t *testing.T) {
	addr, dialled := redistest.Embedded(t).Addr(), make(chan struct{})
	dials := 0
	d := newDialer(&redis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if dials++; dials == 1 {
			close(dialled)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	go func() { <-dialled; d.newMaster() }()
	c, err := d.connect(t.Context(), "tcp", "somewhere:1", nil)
	if err != nil || dials != 2 {
		t.Fatalf("connect = %v after %d dials, want a connection after 2", err, dials)
	}
	_ = c.Close()
	d.close()
}

// What hangs in other functions of the user's tells nothing about the server.
func TestAnOnConnectThatHangsIsNoSilence(t *testing.T) {
	ended := make(chan struct{})
	hangs := make(chan struct{}, abandonedMost)
	d := newDialer(&redis.Options{OnConnect: func(context.Context, *redis.Conn) error {
		hangs <- struct{}{}
		<-ended
		return errOdd
	}})
	addr := redistest.Embedded(t).Addr()
	for range abandonedMost {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() { defer close(left); _, _ = d.connect(ctx, "tcp", addr, nil) }()
		await.Receive(t, "OnConnect", hangs)
		cancel()
		await.Receive(t, "the end of connect", left)
	}
	if _, err := d.connect(t.Context(), "tcp", addr, nil); !errors.Is(d.verdict(err), errAbandoned) || d.verdict(err).Evidence != store.Unclear {
		t.Errorf("connect = %+v, want %v", err, errAbandoned)
	}
	close(ended)
	await.Until(t, "they have ended", func() bool { return d.era.abandoned.Load() == 0 })
	d.close()
}

// A connection for commands costs one exchange before its first one, as a user's does. go-redis greets its own
// once more.
func TestAConnectionForCommandsIsGreetedOnce(t *testing.T) {
	proxy := faultproxy.Start(t, redistest.Shared(t).Addr())
	p := open(t, redistest.NewClient(t, proxy.Addr()), redistest.Prefix(t))
	p.take()
	if got, want := proxy.Commands()["HELLO"], proxy.Connections(); got != want {
		t.Errorf("%d times HELLO over %d connections", got, want)
	}
	p.hear()
	if got, want := proxy.Commands()["HELLO"], proxy.Connections()+1; got != want {
		t.Errorf("%d times HELLO over %d connections, one of which is go-redis's", got, want)
	}
}

// A lingering notes how it is to be closed.
type lingering struct {
	net.Conn
	seconds *atomic.Int32
}

func (l lingering) SetLinger(seconds int) error {
	l.seconds.Store(int32(seconds))
	return nil
}

// What the network has kept back of a command does not arrive when its connection was given up: nobody would give back what it takes.
func TestWhatIsOnItsWayIsThrownAway(t *testing.T) {
	seconds := new(atomic.Int32)
	seconds.Store(-1)
	s, err := New(redistest.NewClient(t, redistest.Shared(t).Addr(), func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			return lingering{c, seconds}, err
		}
	}), redistest.Prefix(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	p := &probe{T: t, Store: s}
	p.release(p.take(), false, store.Freed)
	if got := seconds.Load(); got != -1 {
		t.Errorf("SetLinger(%d) of a connection in use", got)
	}
	closesSoon(t, s)
	if got := seconds.Load(); got != 0 {
		t.Errorf("SetLinger(%d) before a connection for commands is closed, want 0", got)
	}
}

func TestTLSWorks(t *testing.T) {
	addr, config := redistest.TLS(t, redistest.Shared(t).Addr())
	p := open(t, redistest.NewClient(t, addr, func(o *redis.Options) { o.TLSConfig = config }), redistest.Prefix(t))
	p.hear()
	r := p.take()
	p.renew(r, true)
	p.release(r, false, store.Freed)
	if config.ServerName != "" {
		t.Error("the user's configuration was changed")
	}
}

// The user may make connections of their own.
func TestAnOwnDialerIsToldFromTheDefault(t *testing.T) {
	users := redis.NewClient(&redis.Options{Addr: "somewhere:1"})
	defer users.Close()
	if !isDefaultDialer(users.Options().Dialer) {
		t.Error("go-redis's default Dialer counts as the user's")
	}
	sentinels := redis.NewFailoverClient(&redis.FailoverOptions{})
	defer sentinels.Close()
	for name, f := range map[string]func(context.Context, string, string) (net.Conn, error){
		"a method":       (&net.Dialer{}).DialContext,
		"NewDialer's":    redis.NewDialer(&redis.Options{}),
		"the Sentinels'": sentinels.Options().Dialer,
	} {
		if isDefaultDialer(f) {
			t.Errorf("%s counts as go-redis's default", name)
		}
	}
}
