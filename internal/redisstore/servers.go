package redisstore

import (
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
)

// connsMost is how many connections a Store has to a server for commands. More callers
// than that share one. Listen has one of its own.
const connsMost = 8

// servers has the connections that commands take: a pool for the server, or one for
// each master of a Cluster.
type servers struct {
	dialer *dialer

	mu     sync.Mutex
	pools  map[string]*wire.Pool // by address
	closed bool
}

// of returns the pool for the server that o leads to, or nil after close.
func (s *servers) of(o *redis.Options) *wire.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pools[o.Addr]; p != nil || s.closed {
		return p
	}
	network, addr := o.Network, o.Addr
	p := wire.New(wire.Options{
		Size:    max(min(connsMost, o.PoolSize), 1),
		Silence: bounded(o.ReadTimeout),
		Dial:    func(ctx context.Context) (net.Conn, error) { return s.dialer.raw(ctx, network, addr) },
	})
	if s.pools == nil {
		s.pools = make(map[string]*wire.Pool)
	}
	s.pools[addr] = p
	return p
}

// close waits for what is under way, and closes the connections.
func (s *servers) close() {
	s.mu.Lock()
	s.closed = true
	pools := s.pools
	s.pools = nil
	s.mu.Unlock()
	for _, p := range pools {
		p.Close()
	}
}

// pool returns the pool for the lock called name. In a Cluster that is the pool of the
// master that has its slot, by the topology that was read last; it is nil while
// nothing is known of the Cluster.
func (s *Store) pool(name string) *wire.Pool {
	if s.single != nil {
		return s.single
	}
	c, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	master, err := c.MasterForKey(ended, name) // name is the hash tag of its lock's keys, so they share its slot
	if err != nil {
		return nil
	}
	return s.servers.of(master.Options())
}

// raw returns a connection that is set up, for those who speak the protocol themselves.
func (d *dialer) raw(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.connect(ctx, network, addr, nil)
	if err != nil {
		return nil, err
	}
	if ours, ok := c.(*conn); ok {
		ours.greeted = finished // no client of go-redis's will greet
	}
	return c, nil
}
