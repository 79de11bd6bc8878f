// Package redisstore keeps locks in one Redis: a single server, a master that
// Sentinels watch, or a Cluster.
//
// Each Lua script (lua/) is atomic, and one round trip. A mutex that is probably free is first
// asked for by four plain commands in one write (set.go); only where these do not decide is
// acquire.lua sent. A lock that they took is given back by give.lua, or, if that finds more than
// the token alone, by release.lua behind it.
//
// What to read, in this order:
//
//   - how a command is made and sent: ops.go (what each method sends), set.go, command.go (the
//     bytes of a command), exchange.go (how it is sent, and what its errors mean),
//     servers.go (the pool that it takes), package wire (the connections of a pool),
//     replies.go (how replies and messages are read)
//   - what lies in Redis: lua/README.md and lua/lock.lua (the keys), then enter.lua, queue.lua,
//     acquire.lua, release.lua, releaseto.lua and renew.lua
//   - where connections come from: dial.go, setup.go, master.go,
//     and rotation.go for credentials that change
//   - whether a server suits: check.go
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// Store is a store.Store over one Redis.
type Store struct {
	client   redis.UniversalClient // It is the Store's own, made from the user's (client.go).
	dialer   *dialer               // It makes all connections, also those of client.
	cluster  bool                  // The client is one for a Cluster.
	ns       string                // All keys and channels begin with it.
	process  string                // It names this Store in tokens and channels.
	channels string                // It is what the channels on which processes hear of grants begin with.

	polls, unseen, visible string // A script is told one of them: how this process hears of grants (hears).

	suits      atomic.Bool                    // The server was found to suit (check).
	moved      atomic.Bool                    // A client for a single server leads to a node of a Cluster.
	subscribed atomic.Bool                    // Listen hears messages at present.
	listener   atomic.Pointer[store.Listener] // It is told of grants while Listen runs.

	replicas int                   // So many replicas have to confirm a grant; 0: none is asked (confirm.go).
	within   time.Duration         // They have so long to confirm it.
	waits    redis.UniversalClient // It is client, with the patience for that.

	pings pingClients // They are for Ping, which takes no connection from others.

	scripted bool         // A free lock is taken by a script, too. Only tests set it.
	clock    atomic.Int64 // The server's clock showed this when this process started, in µs; 0: not known.

	servers servers        // They have the connections that commands take.
	single  *wire.Pool     // It is the only server's; nil for a Cluster.
	spare   sync.Pool      // It keeps each *command that is not in use.
	running sync.WaitGroup // It counts the commands that go-redis sends (aside).
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Relay   = (*Store)(nil)
	_ store.Bundler = (*Store)(nil)
)

// New returns a Store that reaches the Redis of client over connections of
// its own. Keys and channels begin with namespace, and the process is called name, to
// which digits are added that no other has. It does no I/O.
func New(client redis.UniversalClient, namespace, name string) (*Store, error) {
	own, d, err := ownClient(client)
	if err != nil {
		return nil, err
	}
	s := &Store{
		client:  own,
		dialer:  d,
		ns:      namespace,
		servers: servers{dialer: d},
		process: newProcess(name),
	}
	d.retire = s.servers.retire
	s.channels = s.ns + ":grants:"
	s.polls, s.unseen, s.visible = "p"+s.channels, "u"+s.channels, "v"+s.channels
	_, s.cluster = own.(*redis.ClusterClient)
	if c, ok := own.(*redis.Client); ok {
		s.single = s.servers.of(c.Options(), time.Now())
	}
	return s, nil
}

// Addr returns where the Redis is: its address, or a Cluster's with commas
// between them. It is empty for a master that Sentinels name.
func (s *Store) Addr() string {
	switch c := s.client.(type) {
	case *redis.Client:
		if addr := c.Options().Addr; addr != failoverAddr {
			return addr
		}
	case *redis.ClusterClient:
		return strings.Join(c.Options().Addrs, ",")
	}
	return ""
}

// failoverAddr is what go-redis has for an address behind Sentinels.
const failoverAddr = "FailoverClient"

// NewToken implements store.Store.
func (s *Store) NewToken(note string) string { return newToken(s.process, note) }

// Close waits for the commands under way, each of which is bounded by its
// timeout, and closes the Store's connections. One that is being set up is given
// up. The user's client stays open.
func (s *Store) Close() error {
	s.dialer.stop()
	s.servers.close()
	s.running.Wait()
	err := errors.Join(s.pings.close(), s.client.Close())
	s.dialer.close()
	return err
}

// EvictionPolicy returns the server's maxmemory-policy, which decides whether
// it may throw away a held lock to make room. ctx bounds the command.
func (s *Store) EvictionPolicy(ctx context.Context) (string, error) {
	info, err := s.section(ctx, "memory")
	if err != nil {
		return "", err
	}
	if policy := infoField(info, "maxmemory_policy"); policy != "" {
		return policy, nil
	}
	return "", fmt.Errorf("INFO memory names no maxmemory_policy")
}

// section returns a section of INFO. A Cluster's nodes are configured alike: one tells.
func (s *Store) section(ctx context.Context, name string) (string, error) {
	if s.single == nil {
		return s.client.Info(ctx, name).Result()
	}
	call := &wire.Call{Commands: appendArgs(nil, []any{"info", name}), Replies: 1, Deadline: deadline(ctx)}
	if _, err := s.single.Do(ctx, call); err != nil {
		return "", s.unanswered(ctx, err)
	}
	value, err := s.reply(ctx, call.Reply, nil)
	text, _ := value.(string)
	return text, err
}

// terms writes what r asks for in the words of lock.lua.
func terms(r store.Ref) string {
	if r.Kind == (store.Kind{}) && r.Least == 0 {
		return strconv.FormatInt(millis(r.TTL), 10)
	}
	kind := ""
	switch {
	case r.Kind.Permits > 0:
		kind = "p" + strconv.Itoa(r.Kind.Permits)
	case r.Kind.Shared:
		kind = "s"
	}
	return fmt.Sprintf("%d:%s:%d", millis(r.TTL), kind, millis(r.Least))
}

// millis rounds up: Redis must not forget a lock before we do.
func millis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}
