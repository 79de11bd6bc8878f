package redisstore

import (
	"context"
	"net"
	"reflect"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// Which server a command goes to: the only one, or in a Cluster the master that has the lock's
// slot by the topology that was read last, and whichever node that one names (MOVED, ASK).

// A way is where a command goes, and how.
type way struct {
	pool   *wire.Pool
	node   *redis.Options // of the node of a Cluster that the pool leads to
	byText bool           // the script goes along as its text, since the server does not know its hash
	asking bool           // the slot is on its way to the node: ASKING goes before the command, in one write with it
	again  bool           // the server may be another than before, behind the same address
	named  int            // how many nodes have named another one
}

// namedMost is how many nodes may name another one: as many as go-redis lets by default, whatever
// ClusterOptions.MaxRedirects says.
const namedMost = 3

// wayTo returns the way to the lock called name. Of a Cluster of which nothing is known yet it
// asks for the topology, and returns when ctx ends, or at until.
func (s *Store) wayTo(ctx context.Context, until time.Time, name string) (way, error) {
	if s.single != nil {
		return way{pool: s.single}, nil
	}
	node, err := s.findServer(ctx, until, name)
	if err != nil {
		return way{}, err
	}
	return s.over(way{}, node)
}

// over is at to another node.
func (s *Store) over(at way, node *redis.Options) (way, error) {
	at.pool, at.node = s.servers.of(node, time.Now()), node
	if at.pool == nil {
		return way{}, &store.Error{Err: errStoreClosed, Permanent: true}
	}
	return at, nil
}

// pool returns the pool for the lock called name, or nil while nothing is known of a Cluster.
func (s *Store) pool(name string) *wire.Pool {
	if s.single != nil {
		return s.single
	}
	node, err := s.serverOf(ended, name)
	if err != nil {
		return nil
	}
	return s.servers.of(node, time.Now())
}

// serverOf returns how to reach the server that keeps the lock called name: the only one, or in a Cluster the master
// that has its slot, by the topology that was read last. If nothing is known that is asked for, within ctx.
func (s *Store) serverOf(ctx context.Context, name string) (*redis.Options, error) {
	switch c := s.client.(type) {
	case *redis.Client:
		return c.Options(), nil
	case *redis.ClusterClient:
		master, err := c.MasterForKey(ctx, name) // name is the hash tag of its lock's keys, so they share its slot
		if err != nil {
			return nil, err
		}
		return master.Options(), nil
	}
	return nil, errReply // ownClient makes no other client
}

// findServer is serverOf, and asks for the topology of a Cluster of which nothing is known yet. It returns when ctx ends, or at
// until. No command was sent where it fails.
func (s *Store) findServer(ctx context.Context, until time.Time, name string) (*redis.Options, error) {
	node, err := s.serverOf(ended, name)
	if err == nil {
		return node, nil
	}
	answered := make(chan struct{})
	if err := s.dialer.goes(func() {
		defer close(answered)
		bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
		defer cancel()
		node, err = s.serverOf(bounded, name)
	}); err != nil {
		return nil, err
	}
	timeout := time.NewTimer(time.Until(until) + lastWord)
	defer timeout.Stop()
	select {
	case <-answered:
		if err != nil {
			e := s.failed(err)
			e.Ambiguous = false
			return nil, e
		}
		return node, nil
	case <-timeout.C:
		return nil, s.dialer.late(errNoConnection)
	case <-ctx.Done():
		return nil, &store.Error{Err: context.Cause(ctx)}
	}
}

// next returns the way on which a command is to be sent once more that met err on another one, if
// it is. Nothing was carried out then. eras is how many the dialer had ended when the command was
// sent first.
func (s *Store) next(at way, err error, eras int64) (way, bool) {
	switch code := codeOfReply(err); {
	case unknownScript(err) && !at.byText:
		at.byText = true
		return at, true
	case !at.again && s.mayBeElsewhere(err, eras):
		at.again, at.byText = true, true // a new master may not know the script
		return at, true
	case at.node != nil && at.named < namedMost && (code == "MOVED" || code == "ASK"):
		node := at.node
		addr, ok := addrIn(err, node.Addr)
		if !ok {
			return way{}, false
		}
		at.named++
		at.asking = code == "ASK"
		if !at.asking {
			s.reload()
		}
		at, err := s.over(at, s.nodeAt(addr, node))
		return at, err == nil
	}
	return way{}, false
}

// nodeAt returns how to reach the node at addr, of the same Cluster as like.
func (s *Store) nodeAt(addr string, like *redis.Options) *redis.Options {
	node := *like
	node.Addr = addr
	c, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return &node
	}
	if newClient := c.Options().NewClient; reflect.ValueOf(newClient).Pointer() != reflect.ValueOf(redis.NewClient).Pointer() {
		client := newClient(&node) // may reach the node elsewhere, as through a tunnel
		node = *client.Options()
		_ = client.Close()
	}
	return &node
}

// addrIn returns the address of the node that one at from names in err: "MOVED 3999 host:port". A node that does
// not know by which name clients reach the others leaves the host out, and means that it is its own
// (cluster-preferred-endpoint-type unknown-endpoint); so is "?" taken, which says that there is no name.
func addrIn(err error, from string) (addr string, ok bool) {
	words := strings.Fields(err.Error())
	if len(words) != 3 {
		return "", false
	}
	host, port, err := net.SplitHostPort(words[2])
	if err != nil {
		// Redis writes an IPv6 address without brackets.
		colon := strings.LastIndexByte(words[2], ':')
		if colon < 0 {
			return "", false
		}
		host, port = words[2][:colon], words[2][colon+1:]
	}
	if host == "" || host == "?" {
		if host, _, err = net.SplitHostPort(from); err != nil {
			return "", false
		}
	}
	return net.JoinHostPort(host, port), port != ""
}

// redirected reports whether a Cluster's node leaves it to others to answer.
func redirected(err error) bool {
	switch codeOfReply(err) {
	case "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", unserved:
		return true
	}
	return false
}

// mayBeElsewhere reports whether a command that met err is to be sent once more, over a new
// connection: the server says that it is a replica, or becomes one (LOADING), and another may
// be the master behind the same address by now. eras is how many the dialer had ended before
// the command was sent. Nothing was written by then, see codes. Behind Sentinels, and in a
// Cluster, others tell who the master is.
func (s *Store) mayBeElsewhere(err error, eras int64) bool {
	if s.cluster || s.dialer.watch != nil {
		return false
	}
	switch codeOfReply(err) {
	case "READONLY", "MASTERDOWN", "LOADING":
		return s.dialer.leaveReplica(eras)
	}
	return false
}

// lastWord is how much longer than its deadline something aside is waited for: if there was no
// connection, nothing was sent.
const lastWord = 100 * time.Millisecond

// ended is a context that has ended. MasterForKey is given it so that it answers from
// the topology that was read last, and sends nothing.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
