package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// A connection that takes long to be set up says nothing about the server, if what
// takes long is a function of the user, or the way: a holder has the lock, and nobody
// runs beside it.
func TestASlowSetUpIsNoOutage(t *testing.T) {
	const slow = 600 * time.Millisecond
	for name, tc := range map[string]struct {
		client func(o *redis.Options)
		away   time.Duration
	}{
		"credentials provider": {client: func(o *redis.Options) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) {
				time.Sleep(slow)
				return "", "", nil
			}
		}},
		"OnConnect": {client: func(o *redis.Options) {
			o.OnConnect = func(context.Context, *redis.Conn) error {
				time.Sleep(slow)
				return nil
			}
		}},
		"far away": {client: func(*redis.Options) {}, away: 120 * time.Millisecond},
	} {
		for _, p := range []lockmw.Policy{
			{FailOpen: true},
			{FailOpen: true, Wait: 200 * time.Millisecond},
			{FailOpen: true, Wait: time.Second},
		} {
			t.Run(name+" Wait "+p.Wait.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *redistest.Mini) {
					near := testenv.Open(t, s.Client(t))
					held := mustAcquire(t, near, "k", lockmw.Policy{})
					proxy := faultproxy.InMemory(s.DialInMemory)
					defer proxy.Close()
					proxy.Delay(faultproxy.ToServer, tc.away)
					l := testenv.Open(t, redistest.NewClient(t, proxy.Addr(), func(o *redis.Options) { o.Dialer = proxy.Dial }, tc.client))
					for range 5 {
						after, lease, err := took(l, "k", p)
						if err == nil {
							t.Errorf("ran without the lock after %v", after)
							mustRelease(t, lease)
						}
					}
					mustRelease(t, held)
					mustRelease(t, mustAcquire(t, l, "k", p))
				})
			})
		}
	}
}

// Whoever has slower credentials than a lock waits for gets a connection all the same.
func TestSlowCredentialsWorkInTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redistest.Mini) {
		l := testenv.Open(t, s.Client(t, func(o *redis.Options) {
			o.CredentialsProviderContext = func(context.Context) (string, string, error) {
				time.Sleep(3 * time.Second)
				return "", "", nil
			}
		}))
		for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			_, lease, err := l.Acquire(context.Background(), "k", lockmw.Policy{Wait: 2 * time.Second})
			if err == nil {
				_ = lease.Release(context.Background()) // may go over another connection, which is as slow
				return
			}
			if time.Since(began) > 10*time.Second {
				t.Fatal(err)
			}
		}
	})
}

// A Dialer of the user that fails for a reason of its own says nothing about Redis.
func TestADialerThatDoesNotDialIsNoOutage(t *testing.T) {
	s := redistest.Embedded(t)
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
		"a file is missing": func(context.Context, string, string) (net.Conn, error) {
			_, err := os.ReadFile(filepath.Join(t.TempDir(), "certificate"))
			return nil, fmt.Errorf("client certificate: %w", err)
		},
		"no connection": func(context.Context, string, string) (net.Conn, error) { return nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			l := testenv.Open(t, s.Client(t, func(o *redis.Options) { o.Dialer = dial }))
			for range 3 {
				_, lease, err := l.Acquire(context.Background(), "k", lockmw.Policy{FailOpen: true})
				if !errors.Is(err, lockmw.ErrUnavailable) {
					t.Errorf("err = %v, want ErrUnavailable", err)
				}
				if lease != nil {
					mustRelease(t, lease)
				}
			}
		})
	}
}

// Who leaves while a connection is being made has sent nothing: there is nothing to
// clean up, and Close has nothing to wait for or to tell.
func TestWhoLeavesBeforeThereIsAConnectionHasLeftNothing(t *testing.T) {
	for name, ask := range map[string]func(ctx context.Context, l *lockmw.Locker, i int) error{
		"Acquire": func(ctx context.Context, l *lockmw.Locker, i int) error {
			_, _, err := l.Acquire(ctx, fmt.Sprint("k", i), lockmw.Policy{Wait: time.Minute})
			return err
		},
		"AcquireAll": func(ctx context.Context, l *lockmw.Locker, i int) error {
			_, _, err := l.AcquireAll(ctx, []string{fmt.Sprint("k", i), fmt.Sprint("l", i)}, lockmw.Policy{Wait: time.Minute})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *redistest.Mini) {
				l := testenv.Open(t, s.Client(t, func(o *redis.Options) {
					o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
				}))
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
				defer cancel()
				for i := range 50 {
					if ask(ctx, l, i) == nil {
						t.Error("locked without a connection")
					}
				}
				if err := l.Close(context.Background()); err != nil {
					t.Errorf("Close = %v, want nil", err)
				}
			})
		})
	}
}
