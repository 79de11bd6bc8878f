package redisstore

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// Ping, by which the engine finds out in an outage whether a server can be reached, on connections that nothing else uses.

// Server implements store.Store: in a Cluster it is the address of the master
// that has key's slot, by the topology that was read last.
func (s *Store) Server(key string) string {
	if !s.cluster {
		return ""
	}
	master, err := s.serverOf(ended, key)
	if err != nil {
		return ""
	}
	return master.Addr
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
		if slots := s.client.(*redis.ClusterClient).Options().ClusterSlots; slots != nil {
			p.Waits(false) // for the user's function first, which may ask Sentinels; a connection to a node says so when it is made
		}
		return s.unreached(s.client.Exists(ctx, s.keys(key)[0]).Err())
	}
	if s.cluster {
		return s.pingMaster(ctx, key, p)
	}
	return s.pingServer(ctx, key, p)
}

// pingMaster asks the master of a Cluster that has key. One that does not answer soon, or cannot be reached, may be the master no
// longer: another one answers for key where the Cluster says so, and the one that was asked says nothing of key's lock any more.
func (s *Store) pingMaster(ctx context.Context, key string, p *pinging) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	another, looked := false, make(chan struct{})
	look := func() {
		defer close(looked)
		if another = s.anotherMaster(ctx, key, p.addr); another {
			cancel() // nobody waits for the old one
		}
	}
	soon := time.AfterFunc(lookAfter, look)
	err := s.pingServer(ctx, key, p)
	if err == nil {
		cancel()
	}
	switch {
	case !soon.Stop():
		<-looked
	case err != nil:
		look()
	}
	if another {
		return nil
	}
	return err
}

const (
	// lookAfter is how long the master of a Cluster need not answer a ping until it is looked for another one.
	lookAfter = 50 * time.Millisecond

	// lookFor is how long that may take. A server that does not answer counts as silent
	// after some 300 ms, and is not to be taken for it where another has its place.
	lookFor = 200 * time.Millisecond

	// lookers is how many nodes are asked at the same time, by all pings together. go-redis asks one after the other, the first by
	// chance, and that may be one that hangs.
	lookers = 3
)

// anotherMaster has the topology of a Cluster be read anew, and reports whether another master than the one at addr has key
// then. It returns after lookFor, or when ctx ends; the reading may go on.
func (s *Store) anotherMaster(ctx context.Context, key, addr string) bool {
	c, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	read := make(chan struct{}, lookers)
	for range lookers {
		select {
		case s.pings.looking <- struct{}{}:
		default: // one that has not ended yet: the user's ClusterSlots may not heed ctx
			continue
		}
		if err := s.dialer.goes(func() {
			defer func() { <-s.pings.looking }()
			// It reads the topology before anything else, and waits for that, which ReloadState does not.
			_ = c.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil })
			read <- struct{}{}
		}); err != nil {
			<-s.pings.looking
			return false
		}
	}
	for range lookers {
		select {
		case <-read:
		case <-ctx.Done():
			return s.Server(key) != addr
		}
		if s.Server(key) != addr {
			return true
		}
	}
	return false
}

// pingServer asks the server that has key over a connection that nothing else uses; where none can be made, over those of commands.
func (s *Store) pingServer(ctx context.Context, key string, p *pinging) error {
	err := s.pingApart(ctx, key, p)
	if failed, unconnected := errors.AsType[*setUpError](err); unconnected && s.pingAmong(ctx, key, p, failed.at) {
		return nil
	}
	return s.unreached(err)
}

// pingApart asks over a connection that nothing else uses.
func (s *Store) pingApart(ctx context.Context, key string, p *pinging) error {
	at, err := s.serverOf(ended, key)
	if err != nil {
		return err
	}
	client := s.pings.take(s.apart(at), s.dialer)
	client.ping.Store(p)
	// go-redis does not let a cancelled context interrupt a command.
	stop := context.AfterFunc(ctx, func() { _ = client.Close() })
	err = client.Exists(ctx, s.keys(key)[0]).Err()
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
// something in between refuses these because the server seemed ill to it for a moment. The ping could not make
// a connection by itself, at the stage failed, and one that is just being made may wait for the same.
func (s *Store) pingAmong(ctx context.Context, key string, p *pinging, failed stage) bool {
	pool := s.pool(key)
	if pool == nil || pool.Connections()+pool.Dials() == 0 {
		return false
	}
	p.Waits(pool.Connections() > 0 || failed.waitsForServer())
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

// pingClients has what pings share. It keeps the client of the last ping that was answered, for each
// server. A client that was not answered is closed: a connection may hang
// where the next one does not, and go-redis does not dial for a second
// where a pool's dials have failed.
type pingClients struct {
	looking chan struct{} // has one for each goroutine that looks for another master

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
		_ = client.Close() // without the mutex, which is not held across I/O
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
