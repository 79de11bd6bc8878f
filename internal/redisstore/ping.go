package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// Ping, by which the engine finds out in an outage whether a server can be reached, on connections that nothing else uses.

// Server implements store.Store: in a Cluster it is the address of the master
// that has key's slot, by the topology that was read last.
func (s *Store) Server(key string) string {
	c, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	master, err := c.MasterForKey(ended, key) // key is the hash tag of its lock's keys, so they share its slot
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

// A pinging is a ping that is under way.
type pinging struct {
	store.Progress
	addr   string // of the node of a Cluster that it asks; empty: what any server says is news of it
	shares bool   // it has no connection of its own, but takes those that others use, too
}

// Ping implements store.Store. It asks whether the lock of key exists: unlike a
// PING, that is refused by a Cluster's node that is there and does not serve.
func (s *Store) Ping(ctx context.Context, key string, progress store.Progress) error {
	p := &pinging{Progress: progress, addr: s.Server(key)}
	p.shares = s.cluster && p.addr == "" // nothing is known of the Cluster yet: any of its nodes may tell
	defer s.dialer.tells(p)()
	if p.shares {
		return s.unreached(s.client.Exists(ctx, s.keys(key)[0]).Err())
	}
	err := s.pingApart(ctx, key, p)
	if _, unconnected := errors.AsType[*setUpError](err); unconnected && s.pingAmong(ctx, key, p) {
		return nil
	}
	return s.unreached(err)
}

// pingApart asks over a connection that nothing else uses.
func (s *Store) pingApart(ctx context.Context, key string, p *pinging) error {
	var at *redis.Options
	switch c := s.client.(type) {
	case *redis.Client:
		at = c.Options()
	case *redis.ClusterClient:
		master, err := c.MasterForKey(ended, key)
		if err != nil {
			return err
		}
		at = master.Options()
	}
	at = singleOptions(at, s.dialer)
	at.PoolSize = 1
	client := s.pings.take(at, s.dialer)
	client.ping.Store(p)
	// go-redis does not let a cancelled context interrupt a command.
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	err := client.Exists(ctx, s.keys(key)[0]).Err()
	if stop() && s.unreached(err) == nil {
		s.pings.put(client)
		return nil
	}
	_ = client.Close()
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) &&
		(s.failed(err).Ambiguous || errors.Is(err, redis.ErrClosed)) {
		// The ping was sent, or was about to be, and ctx's end has closed its client:
		// what err says comes from that.
		return &store.Error{Err: ctx.Err(), Evidence: store.Silent}
	}
	return err
}

// pingAmong asks over the connections that commands take, also one that is just being made, and
// reports whether it was answered. A server may go on with them that takes no new ones, as where
// something in between refuses these because the server seemed ill to it for a moment.
func (s *Store) pingAmong(ctx context.Context, key string, p *pinging) bool {
	pool := s.pool(key)
	if pool == nil || pool.Connections()+pool.Dials() == 0 {
		return false
	}
	p.Waits(true)
	lock := s.redisKeys(key)[0]
	call := &wire.Call{Commands: appendArgs(nil, []any{"exists", &lock}), Replies: 1, Deadline: deadline(ctx), Urgent: true}
	if _, err := pool.Do(ctx, call); err != nil {
		return false
	}
	_, err := s.reply(ctx, call.Reply, nil)
	return s.unreached(err) == nil
}

// unreached describes err, unless it is nil or the reply of a server that can be
// reached: then it returns nil.
func (s *Store) unreached(err error) error {
	if err == nil {
		return nil
	}
	if fault := store.AsError(s.failed(err)); fault.Evidence != store.Answered {
		return fault
	}
	return nil
}

// pingClients keeps the client of the last ping that was answered, for each
// server. A client that was not answered is closed: a connection may hang
// where the next one does not, and go-redis does not dial for a second
// where a pool's dials have failed.
type pingClients struct {
	mu     sync.Mutex
	idle   map[string]*pingClient // by address
	closed bool
}

// A pingClient is a client for one ping after the other.
type pingClient struct {
	*redis.Client
	addr string
	ping atomic.Pointer[pinging] // the present one
}

// take returns a client for o, which nobody else uses. Its connections come from d.
func (p *pingClients) take(o *redis.Options, d *dialer) *pingClient {
	p.mu.Lock()
	defer p.mu.Unlock()
	if client := p.idle[o.Addr]; client != nil {
		delete(p.idle, o.Addr)
		return client
	}
	client := &pingClient{addr: o.Addr}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return d.dialFor(ctx, network, addr, client.ping.Load())
	}
	client.Client = redis.NewClient(o)
	return client
}

// put keeps a client for the next ping, or closes it if there is one already.
func (p *pingClients) put(client *pingClient) {
	if !p.keep(client) {
		_ = client.Close() // without the mutex: a connection of the user's Dialer may take its time
	}
}

func (p *pingClients) keep(client *pingClient) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.idle[client.addr] != nil {
		return false
	}
	if p.idle == nil {
		p.idle = make(map[string]*pingClient)
	}
	p.idle[client.addr] = client
	return true
}

// close closes what is kept.
func (p *pingClients) close() (err error) {
	p.mu.Lock()
	idle := p.idle
	p.closed, p.idle = true, nil
	p.mu.Unlock()
	for _, client := range idle {
		err = errors.Join(err, client.Close())
	}
	return err
}
