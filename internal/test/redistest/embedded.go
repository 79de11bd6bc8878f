package redistest

import (
	"context"
	"net"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/memnet"
)

// Mini is an embedded Redis.
type Mini struct {
	*miniredis.Miniredis
	inMemory bool
}

// Embedded starts an embedded Redis on a loopback port, whose keys expire by
// the wall clock, and closes it when the test ends.
func Embedded(tb testing.TB) *Mini {
	tb.Helper()
	m := &Mini{Miniredis: miniredis.NewMiniRedis()}
	m.ClockTTL(true)
	if err := m.Start(); err != nil {
		tb.Fatalf("redistest: start an embedded Redis: %v", err)
	}
	tb.Cleanup(m.Close)
	return m
}

// InMemory is Embedded without a socket, for a synctest bubble: sockets keep a
// bubble's clock from moving. Call it and its Client inside the bubble. Only
// clients from Client reach it.
func InMemory(tb testing.TB) *Mini {
	tb.Helper()
	m := &Mini{Miniredis: miniredis.NewMiniRedis(), inMemory: true}
	m.ClockTTL(true)
	tb.Cleanup(m.Close)
	return m
}

// Addr returns the address; one from InMemory has a name that looks like one.
func (m *Mini) Addr() string {
	if m.inMemory {
		return "127.0.0.1:0"
	}
	return m.Miniredis.Addr()
}

// Client opens a client as NewClient does.
func (m *Mini) Client(tb testing.TB, mutators ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	if !m.inMemory {
		return NewClient(tb, m.Addr(), mutators...)
	}
	dial := func(o *redis.Options) { o.Dialer = m.DialInMemory }
	return NewClient(tb, m.Addr(), append([]func(*redis.Options){dial}, mutators...)...)
}

// InMemory tells that it has no socket.
func (m *Mini) InMemory() bool { return m.inMemory }

// DialInMemory opens a connection without a socket. Network and address are
// ignored.
func (m *Mini) DialInMemory(context.Context, string, string) (net.Conn, error) {
	conn, err := m.Dial()
	if err != nil {
		return nil, err
	}
	return memnet.Buffered(conn), nil
}
