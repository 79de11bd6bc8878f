package redistest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Backend is a Redis that a test can talk to, whichever kind it is.
type Backend interface {
	// Addr returns the address, an IP literal and a port.
	Addr() string

	// Client opens a client as NewClient does.
	Client(tb testing.TB, mutators ...func(*redis.Options)) *redis.Client
}

var (
	_ Backend = (*Server)(nil)
	_ Backend = (*Mini)(nil)
)

// Options returns client options for addr that suit tests: maintenance
// notifications are off, because their handshake would be an additional command
// that fault injection counts and embedded servers do not know. Everything else
// has go-redis's defaults.
func Options(addr string) *redis.Options {
	return &redis.Options{
		Addr:                     addr,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// NewClient opens a client for addr with Options, changed by the mutators in
// order, and closes it when the test ends. The test may close it earlier.
func NewClient(tb testing.TB, addr string, mutators ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	opts := Options(addr)
	for _, mutate := range mutators {
		mutate(opts)
	}
	client := redis.NewClient(opts)
	tb.Cleanup(func() {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			tb.Errorf("close the client of %s: %v", addr, err)
		}
	})
	return client
}

// Real starts a redis-server for this test alone and closes it when the test
// ends; if the test failed, the server's log is shown. It fails the test when
// there is no redis-server or it does not start.
func Real(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s, err := Start(opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("redis-server at %s wrote:\n%s", s.Addr(), s.Log())
		}
		if err := s.Close(); err != nil {
			tb.Errorf("close the server at %s: %v", s.Addr(), err)
		}
	})
	return s
}

// Client opens a client as NewClient does.
func (s *Server) Client(tb testing.TB, mutators ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	return NewClient(tb, s.Addr(), mutators...)
}

// Each runs test twice, as the subtests "embedded" and "redis": with an
// embedded Redis of its own and with the shared real one. As the latter is
// shared, keys belong below Prefix(t).
func Each(t *testing.T, test func(t *testing.T, s Backend)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { test(t, Embedded(t)) })
	t.Run("redis", func(t *testing.T) { test(t, Shared(t)) })
}

var prefixes atomic.Int64

// Prefix returns a beginning for keys and channels that no other call in this
// process returns, such as "TestRelease/redis#3:". It holds letters, digits and
// "_-/#:" only, if the names of tests do.
func Prefix(tb testing.TB) string {
	return fmt.Sprintf("%s#%d:", strings.NewReplacer("{", "(", "}", ")").Replace(tb.Name()), prefixes.Add(1))
}
