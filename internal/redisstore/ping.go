package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// Ping, by which the engine finds out in an outage whether a server can be reached, on connections that nothing else uses.

var _ store.Pinger = (*Store)(nil)

// ended is a context that has ended. MasterForKey is given it so that it answers from
// the topology that was read last, and sends nothing.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Server implements store.Pinger: in a Cluster it is the address of the master
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

// Ping implements store.Pinger. It asks whether the lock of key exists: unlike a
// PING, that is refused by a Cluster's node that is there and does not serve.
func (s *Store) Ping(ctx context.Context, key string, waits func(server bool)) error {
	lock := s.keys(key)[0]
	var at *redis.Options
	switch c := s.client.(type) {
	case *redis.Client:
		at = c.Options()
	case *redis.ClusterClient:
		master, err := c.MasterForKey(ended, key)
		if err != nil { // nothing is known of the Cluster yet: any of its nodes may tell
			defer s.dialer.tells(&waits)()
			return s.unreached(c.Exists(ctx, lock).Err())
		}
		at = master.Options()
	}
	at = singleOptions(at, s.dialer)
	at.PoolSize = 1
	client := s.pings.take(at, s.dialer)
	client.waits.Store(&waits)
	// go-redis does not let a cancelled context interrupt a command.
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	err := s.unreached(client.Exists(ctx, lock).Err())
	switch {
	case stop() && err == nil:
		s.pings.put(client)
		return nil
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) &&
		(store.AsError(err).Ambiguous || errors.Is(err, redis.ErrClosed)):
		// The ping was sent, or was about to be, and ctx's end has closed its client:
		// what err says comes from that.
		err = &store.Error{Err: ctx.Err(), Reach: store.Silent}
	}
	_ = client.Close()
	return err
}

// unreached describes err, unless it is nil or the reply of a server that can be
// reached: then it returns nil.
func (s *Store) unreached(err error) error {
	if err == nil {
		return nil
	}
	if fault := store.AsError(s.failed(err)); fault.Reach != store.Answered {
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
	addr  string
	waits atomic.Pointer[func(server bool)] // of the present ping
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
		return d.dialFor(ctx, network, addr, *client.waits.Load())
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
