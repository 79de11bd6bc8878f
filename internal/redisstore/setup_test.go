package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

var errOdd = errors.New("an odd end")

// silent returns the address of a server that accepts connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	return saying(t, "")
}

// saying returns the address of a server that says the same to whoever connects.
func saying(t *testing.T, words string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		var open []net.Conn
		for {
			c, err := listener.Accept()
			if err != nil {
				break
			}
			_, _ = c.Write([]byte(words))
			open = append(open, c)
		}
		for _, c := range open {
			_ = c.Close()
		}
	})
	t.Cleanup(func() { _ = listener.Close(); accepting.Wait() })
	return listener.Addr().String()
}

// nobody returns an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // until then no listener is given this port
	return client.LocalAddr().String()
}

// Whatever keeps a connection from being set up: no question was put, and the error
// says why, and whether Redis is away.
func TestNothingIsAskedBeforeAConnectionIsSetUp(t *testing.T) {
	slow.Test(t)
	mini, locked := redistest.Embedded(t), redistest.Embedded(t)
	locked.RequireAuth("secret")
	mutual, _ := redistest.MutualTLS(t, mini.Addr(), tls.VersionTLS13)
	encrypted, trusting := redistest.TLS(t, mini.Addr())
	full := redistest.Real(t)
	raw := full.Client(t, func(o *redis.Options) { o.PoolSize = 1 })
	do(t, raw, "CONFIG", "SET", "maxclients", "1")
	untrusting := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}

	for name, c := range map[string]struct {
		addr      string
		set       func(o *redis.Options)
		evidence  store.Evidence
		permanent bool
		says      string
	}{
		"nobody listens": {nobody(t), nil, store.Unreachable, false, "refused"},
		"an unknown host": {"no-such-host..invalid:6379", func(o *redis.Options) {
			o.Dialer = (&net.Dialer{Resolver: &net.Resolver{PreferGo: true}}).DialContext // which asks nobody for what is no name
		}, store.Unreachable, false, "no-such-host..invalid"},
		"an address without port": {"localhost", nil, store.Unclear, true, "missing port"},
		"an unknown port":         {"localhost:none", nil, store.Unclear, true, "none"},
		"no such socket": {"/nowhere/redis.sock", func(o *redis.Options) { o.Network = "unix" },
			store.Unreachable, false, "/nowhere/redis.sock"},
		"nobody answers": {silent(t), nil, store.Silent, false, "HELLO"},
		"TLS to a server without, which waits for more": {silent(t), func(o *redis.Options) { o.TLSConfig = trusting },
			store.Silent, false, "does not speak TLS"},
		"TLS to a server without, which answers": {saying(t, "-ERR unknown command\r\n"), func(o *redis.Options) { o.TLSConfig = trusting },
			store.Unclear, true, "does not speak TLS"},
		"no TLS to a server with": {encrypted, nil, store.Unclear, false, "TLS"},
		"an unknown authority": {encrypted, func(o *redis.Options) { o.TLSConfig = untrusting },
			store.Unclear, true, "certificate"},
		"a server that wants a certificate": {mutual, func(o *redis.Options) { o.TLSConfig = &tls.Config{InsecureSkipVerify: true} },
			store.Unclear, false, "certificate required"},
		"a wrong password": {locked.Addr(), func(o *redis.Options) { o.Password = "wrong" },
			store.Answered, true, "WRONGPASS"},
		"a wrong database": {redistest.Shared(t).Addr(), func(o *redis.Options) { o.DB = 99 },
			store.Answered, true, "DB index is out of range"},
		"too many clients": {full.Addr(), nil, store.Answered, false, "max number of clients"},
		"OnConnect fails": {mini.Addr(), func(o *redis.Options) {
			o.OnConnect = func(context.Context, *redis.Conn) error { return errOdd }
		}, store.Unclear, false, "OnConnect: an odd end"},
		"OnConnect gives up": {mini.Addr(), func(o *redis.Options) {
			o.OnConnect = func(context.Context, *redis.Conn) error { return context.DeadlineExceeded }
		}, store.Unclear, false, "OnConnect"},
		"OnConnect panics": {mini.Addr(), func(o *redis.Options) {
			o.OnConnect = func(context.Context, *redis.Conn) error { panic("odd") }
		}, store.Unclear, false, "odd"},
		"the credentials provider fails": {mini.Addr(), func(o *redis.Options) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) { return "", "", errOdd }
		}, store.Unclear, false, "the credentials provider: an odd end"},
		"the credentials provider is slow": {mini.Addr(), func(o *redis.Options) {
			o.CredentialsProviderContext = func(ctx context.Context) (string, string, error) { <-ctx.Done(); return "", "", ctx.Err() }
		}, store.Unclear, false, "the credentials provider"},
		"the Dialer fails": {mini.Addr(), func(o *redis.Options) {
			o.Dialer = func(context.Context, string, string) (net.Conn, error) { return nil, errOdd }
		}, store.Unclear, false, "an odd end"},
		"the Dialer does not return": {mini.Addr(), func(o *redis.Options) { dialsForEver(t, o) }, store.Silent, false, "dialling"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := c.set
			if set == nil {
				set = func(*redis.Options) {}
			}
			s, err := New(redistest.NewClient(t, c.addr, set), redistest.Prefix(t), "test")
			if err != nil {
				t.Fatal(err)
			}
			p := &probe{t, s}
			defer func() {
				start := time.Now()
				if err := s.Close(); err != nil {
					t.Errorf("Close = %v, want nil", err)
				}
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("Close took %v, want at most %v", took, opTimeout+closeTimeout)
				}
			}()
			for what, ask := range p.questions(p.ref(time.Minute)) {
				e := (*store.Error)(nil)
				if err := ask(); !errors.As(err, &e) {
					t.Fatalf("%s = %v, want an error", what, err)
				}
				if e.Ambiguous || e.Pending || e.Stale || e.Permanent != c.permanent || e.Evidence != c.evidence {
					t.Errorf("%s = %+v, want permanent %v and reach %d, and that nothing was sent", what, e, c.permanent, c.evidence)
				}
				if !strings.Contains(e.Error(), c.says) {
					t.Errorf("%s = %q, want it to say %q", what, e, c.says)
				}
			}
		})
	}
}

// Its time is not the callers': the connection is there for the next.
func TestASlowCredentialsProviderWorks(t *testing.T) {
	slow.Test(t)
	const slow = opTimeout + opTimeout/2
	mini := redistest.Embedded(t)
	mini.RequireUserAuth("worker", "secret")
	var asked atomic.Int32
	answer := func(ctx context.Context) error {
		asked.Add(1)
		select {
		case <-time.After(slow):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for name, set := range map[string]func(o *redis.Options){
		"with a context": func(o *redis.Options) {
			o.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
				return "worker", "secret", answer(ctx)
			}
		},
		"without": func(o *redis.Options) {
			o.CredentialsProvider = func() (string, string) { _ = answer(context.Background()); return "worker", "secret" }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, mini.Client(t, set), redistest.Prefix(t))
			r := p.ref(time.Minute)
			_, err := p.Acquire(t.Context(), store.Request{Ref: r})
			if e := store.AsError(err); err == nil || e.Ambiguous || e.Permanent {
				t.Errorf("Acquire = %+v, want an error that says that nothing was sent", e)
			}
			await.Until(t, "a lock is granted", func() bool {
				a, err := p.Acquire(t.Context(), store.Request{Ref: r})
				return err == nil && a.Granted
			})
			p.hear()
		})
	}
}

// The user's functions get a context that is not a question's, which ends and is used
// again.
func TestOnConnectMayKeepItsContext(t *testing.T) {
	type key struct{}
	kept := make(chan context.Context, 100)
	client := redistest.Embedded(t).Client(t, func(o *redis.Options) {
		o.OnConnect = func(ctx context.Context, _ *redis.Conn) error { kept <- ctx; return nil }
	})
	p := open(t, client, "kit")
	p.release(p.take(), false, store.Freed)
	ctx := await.Receive(t, "OnConnect", kept)
	for range 3 {
		p.release(p.take(), false, store.Freed)
		if v := ctx.Value(key{}); v != nil {
			t.Errorf("Value = %v, want nil", v)
		}
	}
}

// A connection that cannot be set up must not stay open.
func TestNothingIsLeftOfAConnectionThatCannotBeSetUp(t *testing.T) {
	mini := redistest.Embedded(t)
	p := open(t, mini.Client(t, func(o *redis.Options) {
		o.OnConnect = func(context.Context, *redis.Conn) error { return errOdd }
	}), "kit")
	for range 5 {
		_, _ = p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
	}
	await.Until(t, "its connections are closed", func() bool { return mini.CurrentConnectionCount() == 0 })
}

// A reset is a connection that the server has closed before it read all.
type reset struct {
	net.Conn
	says error
}

func (reset) Write([]byte) (int, error)         { return 0, syscall.ECONNRESET }
func (r reset) Read([]byte) (int, error)        { return 0, r.says }
func (reset) SetReadDeadline(_ time.Time) error { return nil }

// In TLS 1.3, a server refuses the client's certificate while the client writes already: the write fails or not, and either way its
// error is that the server refuses.
func TestTheServersAlertIsTheErrorOfAWrite(t *testing.T) {
	alert := &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}
	for says, want := range map[error]error{alert: alert, io.EOF: syscall.ECONNRESET, &net.OpError{Op: "read", Err: errOdd}: syscall.ECONNRESET} {
		p := &preamble{Conn: reset{says: says}, setUp: &setUp{}}
		if _, err := p.Write([]byte("HELLO 2\r\n")); !errors.Is(err, want) {
			t.Errorf("a write that fails, where a read says %q: %v, want %v", says, err, want)
		}
	}
}
