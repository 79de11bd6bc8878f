package redisstore

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
)

// The pools of connections (package wire): one for the server, or one for each master of a Cluster.

// unusedFor is how long the pool of a Cluster's node is kept that nobody asks for: the
// node may be no master any more.
const unusedFor = time.Minute

// connsMost is how many connections a Store has to a server for commands. More callers
// than that share one. Listen has one of its own.
const connsMost = 8

// servers has the connections that commands take: a pool for the server, or one for
// each master of a Cluster.
type servers struct {
	dialer *dialer

	mu      sync.Mutex
	all     map[string]*node // by address
	looked  time.Time        // for pools that nobody asks for
	closed  bool
	running sync.WaitGroup // pools that are being closed since nobody asked for them
}

// A node has the pool for one address.
type node struct {
	pool  *wire.Pool
	asked time.Time // for it, last
}

// of returns the pool for the server that o leads to, or nil after close.
func (s *servers) of(o *redis.Options, now time.Time) *wire.Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	at := s.all[o.Addr]
	if at == nil {
		at = &node{pool: s.open(o)}
		if s.all == nil {
			s.all = make(map[string]*node)
		}
		s.all[o.Addr] = at
	}
	at.asked = now
	if now.Sub(s.looked) >= unusedFor {
		s.looked = now
		s.prune(now)
	}
	return at.pool
}

// open returns a pool for the server that o leads to.
func (s *servers) open(o *redis.Options) *wire.Pool {
	network, addr := o.Network, o.Addr
	return wire.New(wire.Options{
		Size:    max(min(connsMost, o.PoolSize), 1),
		Silence: bounded(o.ReadTimeout),
		Dial:    func(ctx context.Context) (net.Conn, error) { return s.dialer.raw(ctx, network, addr) },
	})
}

// prune closes the pools that nobody has asked for and that have nothing under way. The
// caller holds mu.
func (s *servers) prune(now time.Time) {
	for addr, at := range s.all {
		if now.Sub(at.asked) >= unusedFor && at.pool.Open() == 0 {
			delete(s.all, addr)
			s.running.Go(at.pool.Close)
		}
	}
}

// retire has later commands take new connections, see wire.Pool.Retire.
func (s *servers) retire() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.all))
	s.mu.Unlock()
	for _, at := range all {
		at.pool.Retire()
	}
}

// close waits for what is under way, and closes the connections.
func (s *servers) close() {
	s.mu.Lock()
	s.closed = true
	all := s.all
	s.all = nil
	s.mu.Unlock()
	for _, at := range all {
		at.pool.Close()
	}
	s.running.Wait()
}

// raw returns a connection that is set up, for those who speak the protocol themselves.
func (d *dialer) raw(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.connect(ctx, network, addr, nil)
	if err != nil {
		return nil, err
	}
	if ours, ok := c.(*conn); ok {
		ours.raw.Store(true)
	}
	if d.lost.Swap(false) {
		d.anew.Add(1)
	}
	return c, nil
}
