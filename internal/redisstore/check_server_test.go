package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// wantNoLock wants every way to a lock refused, for good and for the same reason,
// also where questions go together; nothing may be left on the server.
func (p *probe) wantNoLock(says ...string) {
	p.Helper()
	refuse := func(what string, err error) {
		p.Helper()
		e := store.AsError(err)
		if err == nil || !e.Permanent || e.Ambiguous || e.Evidence != store.Answered {
			p.Errorf("%s = %v: %+v, want a permanent refusal of a server that answered", what, err, *e)
			return
		}
		for _, part := range says {
			if !strings.Contains(err.Error(), part) {
				p.Errorf("%s = %q, want it to say %q", what, err, part)
			}
		}
	}
	var asks []func()
	for i := range 3 { // first, since a Store that has found a Cluster asks no more
		r := store.Ref{Key: fmt.Sprint("crowd", i), Token: p.NewToken(""), TTL: time.Minute}
		asks = append(asks, func() {
			_, err := p.Acquire(p.Context(), store.Request{Ref: r})
			refuse("Acquire in a crowd", err)
		})
	}
	for _, ask := range asks {
		ask()
	}
	for i := range 6 {
		r := store.Ref{Key: fmt.Sprint("k", i), Token: p.NewToken(""), TTL: time.Minute}
		switch i % 3 {
		case 1:
			r.Kind.Shared = true
		case 2:
			r.Kind.Permits = 2
		}
		_, err := p.Acquire(p.Context(), store.Request{Ref: r})
		refuse(fmt.Sprintf("Acquire(%+v)", r.Kind), err)
	}
	_, err := p.AcquireAll(p.Context(), []store.Ref{p.ref(time.Minute)}, time.Time{}, nil)
	refuse("AcquireAll", err)
}

// Without a look at the server, the keys that this node happens to keep can be locked.
func TestAClustersNodeIsRefusedForEveryKey(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	for _, node := range shards.Nodes {
		p := open(t, node.Client(t), "kit")
		p.wantNoLock(node.Addr(), "redis.NewClusterClient")
		if keys := node.Client(t).Keys(t.Context(), "*").Val(); len(keys) > 0 {
			t.Errorf("left: %q", keys)
		}
	}
}

// A Cluster that could not be told from a single server shows at its first MOVED.
// What is held already is kept and given back.
func TestTheFirstRedirectionEndsAllFurtherLocks(t *testing.T) {
	s := redistest.Embedded(t)
	p := open(t, s.Client(t), "kit")
	held := p.take()
	s.SetError("MOVED 3999 127.0.0.1:6381")
	_, err := p.Acquire(t.Context(), store.Request{Ref: store.Ref{Key: "other", Token: p.NewToken(""), TTL: time.Minute}})
	wantVerdict(t, "Acquire", err, lasting, "redis.NewClusterClient")
	s.SetError("")
	_, err = p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
	wantVerdict(t, "Acquire of a key that is there", err, lasting, "redis.NewClusterClient")
	_, err = p.AcquireAll(t.Context(), []store.Ref{p.ref(time.Minute)}, time.Time{}, nil)
	wantVerdict(t, "AcquireAll", err, lasting, "redis.NewClusterClient")
	p.renew(held, true)
	p.release(held, false, store.Freed)
}

// old has an embedded Redis answer as one before 7.0 does, for which the Redis under
// test is too new.
func old(s *redistest.Mini) {
	s.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		switch {
		case cmd == "PEXPIRE" && len(args) > 2:
			c.WriteError("ERR wrong number of arguments for 'pexpire' command")
		case cmd == "SET" && strings.Contains(strings.Join(args, " "), " NX GET"):
			c.WriteError("ERR syntax error")
		case cmd == "INFO":
			c.WriteBulk("# Server\r\nredis_version:6.0.16\r\nredis_mode:standalone\r\n")
		default:
			return false
		}
		return true
	})
}

func TestAServerThatIsTooOldIsRefused(t *testing.T) {
	s := redistest.Embedded(t)
	old(s)
	p := open(t, s.Client(t), "kit")
	p.wantNoLock("Redis 6.0.16", "Redis 7.0 or newer")
	if keys := s.Keys(); len(keys) > 0 {
		t.Errorf("left: %q", keys)
	}
	s.Server().SetPreHook(nil) // it is replaced by a newer one
	p.release(p.take(), false, store.Freed)
}

// The look at the server is one exchange, before the first question of a Store.
func TestAServerIsLookedAtOnce(t *testing.T) {
	proxy, p, _ := proxied(t, redistest.Shared(t))
	p.release(p.take(), false, store.Freed)
	proxy.ResetCommands()
	for range 10 {
		p.release(p.take(), false, store.Freed)
	}
	if got := proxy.Commands(); got["EVALSHA"] != 20 || got["EVAL"] != 0 || got["INFO"] != 0 {
		t.Errorf("10 turns sent %v, want 20 EVALSHA alone", got)
	}
}

// A look that was not answered is the question's own failure, and was not sent.
func TestALookThatFailsLeavesNothingOpen(t *testing.T) {
	s := redistest.Shared(t)
	proxy := faultproxy.Start(t, s.Addr())
	p := open(t, redistest.NewClient(t, proxy.Addr()), redistest.Prefix(t))
	proxy.DropReplies(1, faultproxy.Match("EVAL"))
	_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
	if e := store.AsError(err); err == nil || e.Ambiguous || e.Permanent || !e.Stale {
		t.Errorf("Acquire = %+v, want an error that leaves nothing open", e)
	}
	p.release(p.take(), false, store.Freed)
}

// Commands that locks need, by the name that redis.conf can change.
func TestARenamedCommandIsNamed(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"TIME", "PEXPIRE", "ZADD", "HGETALL", "PUBLISH", "EVALSHA", "EVAL"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := redistest.Real(t, redistest.Args("--rename-command", command, ""))
			p := open(t, s.Client(t), "kit")
			p.wantNoLock(command, "does not know", "renamed")
		})
	}
}

// Without PUBSUB nobody can tell who listens: a release with a waiter elsewhere
// failed for ever.
func TestLocksWorkWithoutPubsub(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t, redistest.Args("--rename-command", "PUBSUB", ""))
	p, q := open(t, s.Client(t), "kit"), open(t, s.Client(t), "kit")
	e := q.hear()
	held, waits := p.take(), q.ref(time.Minute)
	q.refused(waits, store.Wait)
	p.release(held, false, store.HandedOver)
	await.Receive(t, "the grant", e.grants)
	q.renew(waits, true)
	q.release(waits, true, store.Freed)
}

// A replica is refused with what to do, as long as it is one.
func TestAReplicaSaysWhatToDo(t *testing.T) {
	t.Parallel()
	s := redistest.Real(t)
	do(t, s.Client(t), "REPLICAOF", "127.0.0.1", "1")
	for _, stale := range []string{"yes", "no"} {
		do(t, s.Client(t), "CONFIG", "SET", "replica-serve-stale-data", stale)
		p := open(t, s.Client(t), "kit")
		_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
		e := store.AsError(err)
		if err == nil || e.Permanent || e.Evidence != store.Answered || !strings.Contains(err.Error(), "is a replica") || !strings.Contains(err.Error(), "master") {
			t.Errorf("Acquire = %v: %+v, want what to do about a replica", err, *e)
		}
	}
}

// What NewFailoverClusterClient makes is a client whose slots somebody else names.
func TestAClientThatReadsFromReplicasIsRefused(t *testing.T) {
	for name, set := range map[string]func(*redis.FailoverOptions){
		"ReplicaOnly":    func(o *redis.FailoverOptions) { o.ReplicaOnly = true },
		"RouteByLatency": func(o *redis.FailoverOptions) { o.RouteByLatency = true },
		"RouteRandomly":  func(o *redis.FailoverOptions) { o.RouteRandomly = true },
		"neither":        func(*redis.FailoverOptions) {},
	} {
		o := &redis.FailoverOptions{MasterName: "main", SentinelAddrs: []string{"127.0.0.1:1"}}
		set(o)
		client := redis.NewFailoverClusterClient(o)
		s, err := New(client, "kit", "test")
		if refused := err != nil && strings.Contains(err.Error(), "replicas"); refused != (name != "neither") {
			t.Errorf("%s: New = %v", name, err)
		}
		if s != nil {
			_ = s.Close()
		}
		_ = client.Close()
	}
}

// A proxy may answer INFO with what all servers say, one after the other: then every reply is the same.
func TestOneReplyMayTellOfSeveralServers(t *testing.T) {
	m := redistest.Embedded(t)
	s := newStore(t, m.Client(t))
	for info, want := range map[string]error{
		"# Server\r\nrun_id:a\r\n# Server\r\nrun_id:a\r\n": nil,
		"# Server\r\nrun_id:a\r\n# Server\r\nrun_id:b\r\n": errSeveral,
		"# Server\r\nredis_version:7.0.0\r\n":              nil,
	} {
		m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd != "INFO" {
				return false
			}
			c.WriteBulk(info)
			return true
		})
		if err := s.oneServer(t.Context()); !errors.Is(err, want) {
			t.Errorf("where INFO says %q: %v, want %v", info, err, want)
		}
	}
}
