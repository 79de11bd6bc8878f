// Package redisstore keeps locks in one Redis: a single server, a master that
// Sentinels watch, or a Cluster.
//
// Each Lua script (lua/) is atomic, and one round trip. A mutex that is probably free is first
// asked for by four plain commands in one write (set.go); only where these do not decide is
// acquire.lua sent. A lock that they took is given back by give.lua, or, if that finds more than
// the token alone, by release.lua behind it.
//
// A locker, here and in the scripts, is the Locker whose Store this is: its name is a part of each
// token that it makes, and scripts tell it of its locks over a channel of its own. Two Lockers of
// one program are two lockers.
//
// Which file to open:
//
//   - what is sent: ops.go (Acquire, the releases, AcquireAll, Inspect), posted.go (a release that
//     nobody awaits), set.go (a free lock without a script), batch.go (Renew and Remove), list.go (Names, Begun), settings.go (Settings, Set)
//   - how it is sent: command.go (the bytes of a command), scripts.go (the scripts, and how they
//     are put together), exchange.go (a command goes out, and what its errors mean), redirect.go
//     (where to, in a Cluster), onekey.go (while a Cluster moves a lock's keys), confirm.go (WAIT,
//     for replicas), servers.go (the pools of connections), package wire (the connections of a pool)
//   - what comes back: replies.go (replies and messages), holders.go (what the values mean that lie
//     in Redis), token.go (tokens), listen.go (the subscription to messages), errors.go (what an
//     error tells of the command and of the server), explain.go (what it means for people)
//   - what lies in Redis: lua/README.md and lua/lock.lua (the keys), then enter.lua, queue.lua,
//     acquire.lua, release.lua, releaseto.lua and renew.lua
//   - where connections come from: client.go (the Store's own client, made from the user's),
//     dial.go, setup.go and setuperror.go (what may go wrong), conn.go (a connection), master.go
//     (which server is the master), rotation.go (credentials that change)
//   - whether a server suits, is there, and keeps answers well: check.go, ping.go, answers.go
package redisstore

import (
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
	client  redis.UniversalClient // the Store's own client, made from the user's (client.go)
	dialer  *dialer               // makes all connections, also those of client
	cluster bool                  // whether client is one for a Cluster
	ns      string                // the beginning of all keys and channels: the namespace
	locker  string                // the name of this Store in tokens and channels
	suits   atomic.Bool           // the server was found to suit (check.go)
	moved   atomic.Bool           // client is for a single server, and leads to a node of a Cluster
	hearing                       // how the Store hears of grants (listen.go)
	acks                          // by replicas (confirm.go)

	pings pingClients // the clients of Ping, which takes no connection from others

	withoutScript       // how free locks are taken (set.go)
	posts         posts // releases that nobody awaits (posted.go)

	shadowed string                 // in a store of Shadow the namespace of the locks that it is beside; otherwise empty
	shadow   func() (*Store, error) // Shadow, of any other

	servers servers        // the connections that commands take
	single  *wire.Pool     // the pool of the only server; nil for a Cluster
	spare   sync.Pool      // of *command: those that are not in use
	running sync.WaitGroup // what goes on when its caller leaves (aside)
}

var _ store.Store = (*Store)(nil)

// New returns a Store that reaches the Redis of client over connections of
// its own. Keys and channels begin with namespace, and the locker is called name, to
// which digits are added that no other has. It does no I/O.
func New(client redis.UniversalClient, namespace, name string) (*Store, error) {
	s, err := storeOf(client, namespace, namespace, name)
	if err != nil {
		return nil, err
	}
	s.shadow = func() (*Store, error) {
		beside, err := storeOf(client, namespace+ShadowEnd, namespace, name)
		if err == nil {
			beside.shadowed = namespace
		}
		return beside, err
	}
	return s, nil
}

// storeOf is New. Channels begin with channels.
func storeOf(client redis.UniversalClient, namespace, channels, name string) (*Store, error) {
	own, d, err := ownClient(client)
	if err != nil {
		return nil, err
	}
	s := &Store{
		client:  own,
		dialer:  d,
		ns:      namespace,
		servers: servers{dialer: d},
		pings:   pingClients{looking: make(chan struct{}, lookers)},
		locker:  newName(name),
	}
	d.retire = s.servers.retire
	s.channels = channels + ":grants:"
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

// NewToken implements store.Store.
func (s *Store) NewToken(note string) string { return newToken(s.locker, note) }

// Close waits for the commands under way, each of which is bounded by its
// timeout, and closes the Store's connections. One that is being set up is given
// up. The user's client stays open.
func (s *Store) Close() error {
	s.dialer.stop()
	s.running.Wait() // before the connections that it uses
	s.servers.close()
	err := errors.Join(s.pings.close(), s.client.Close())
	s.dialer.close()
	return err
}

// Queues implements store.Store.
func (s *Store) Queues() bool { return true }

// terms writes what r asks for in the words of lock.lua.
func terms(r store.Ref) string {
	if r.Kind == (store.Kind{}) && r.Least == 0 {
		return strconv.FormatInt(millis(r.TTL), 10)
	}
	return fmt.Sprintf("%d:%s:%d", millis(r.TTL), kindOf(r.Kind), millis(r.Least))
}

// kindOf writes a kind in the words of lock.lua.
func kindOf(k store.Kind) string {
	switch {
	case k.Permits > 0:
		return "p" + strconv.Itoa(k.Permits)
	case k.Shared:
		return "s"
	}
	return ""
}

// kindIn reads the kind in what terms writes.
func kindIn(terms string) (k store.Kind, ok bool) {
	_, rest, _ := strings.Cut(terms, ":")
	kind, _, _ := strings.Cut(rest, ":")
	if permits, some := strings.CutPrefix(kind, "p"); some {
		n, err := strconv.Atoi(permits)
		return store.Kind{Permits: n}, err == nil && n > 0
	}
	k.Shared = kind == "s"
	return k, kind == kindOf(k)
}

// millis rounds up: Redis must not forget a lock before we do.
func millis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}
