package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// dropsSYN returns an address at which nobody answers who wants to connect: the line
// of those who were not accepted is full, and Linux drops what more of them send.
func dropsSYN(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	for range 10 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("all connections were made")
	return ""
}

// A caller that leaves while a connection is being made is back at once: also if the
// network drops what would make it, or a Dialer of the user does not heed its context.
func TestWhoLeavesWhileAConnectionIsMadeIsBackAtOnce(t *testing.T) {
	const times, within = 40, 800 * time.Millisecond // 20 ms on a quiet machine; a question is given up after 1 s
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	nobody := dropsSYN(t)
	for name, client := range map[string]func() *redis.Client{
		"SYN dropped": func() *redis.Client { return redistest.NewClient(t, nobody) },
		"a Dialer that hangs": func() *redis.Client {
			return redistest.NewClient(t, nobody, func(o *redis.Options) {
				o.Dialer = func(context.Context, string, string) (net.Conn, error) { <-ended; return nil, errors.New("over") }
			})
		},
	} {
		for how, ask := range map[string]func(ctx context.Context, l *lockmw.Locker, i int) error{
			"Acquire": func(ctx context.Context, l *lockmw.Locker, i int) error {
				_, _, err := l.Acquire(ctx, fmt.Sprint(i), lockmw.Policy{})
				return err
			},
			"Acquire that waits": func(ctx context.Context, l *lockmw.Locker, i int) error {
				_, _, err := l.Acquire(ctx, fmt.Sprint(i), lockmw.Policy{Wait: time.Minute})
				return err
			},
			"AcquireAll": func(ctx context.Context, l *lockmw.Locker, i int) error {
				_, _, err := l.AcquireAll(ctx, []string{fmt.Sprint(i), fmt.Sprint(i, "b")}, lockmw.Policy{})
				return err
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				l := testenv.Open(t, client())
				var back []time.Duration
				left := 0
				for i := range times {
					ctx, cancel := context.WithCancel(context.Background())
					at := make(chan time.Time, 1)
					time.AfterFunc(time.Duration(i%20+1)*time.Millisecond, func() { at <- time.Now(); cancel() })
					err := ask(ctx, l, i)
					cancelled := <-at
					now := time.Now()
					back = append(back, max(0, now.Sub(cancelled)-machine.Between(cancelled, now)))
					if errors.Is(err, context.Canceled) {
						left++
					} else if !errors.Is(err, lockmw.ErrUnavailable) { // refused at once, while Redis is known to be away
						t.Errorf("%d: %v", i, err)
					}
				}
				slices.Sort(back)
				t.Logf("%d left; back after %v (median), %v (longest)", left, back[times/2], back[times-1])
				if back[times-1] > within || left == 0 {
					t.Errorf("%d left, the last was back after %v, want %v at most", left, back[times-1], within)
				}
			})
		}
	}
}
