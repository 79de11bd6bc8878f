package combos

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/proof/admin"
)

// ServersEnv names the environment variable with further redis-server programs,
// separated by colons or commas.
const ServersEnv = "REDIS_SERVERS"

// systemServer is what the server is called that the other tests use too.
const systemServer = "redis-server"

// servers returns the programs by the names that reports give them: that of the
// system, and what ServersEnv lists, each called after its folder.
func servers() (names []string, programs map[string]string) {
	names, programs = []string{systemServer}, map[string]string{systemServer: os.Getenv("REDIS_SERVER")}
	for _, path := range strings.FieldsFunc(os.Getenv(ServersEnv), func(r rune) bool { return r == ':' || r == ',' }) {
		name := filepath.Base(filepath.Dir(path))
		names, programs[name] = append(names, name), path
	}
	return names, programs
}

// fillers is how many keys, or lines of its file, a server reads at a reload
// besides locks: so the time that this takes can be set.
const fillers = 5000

// A site is the servers of one group, each behind a proxy, that live for many rounds.
// (A Combination's Site says which kind of client reaches them.)
type site struct {
	tb      testing.TB
	group   string
	nodes   []*redistest.Server
	proxies []*faultproxy.Proxy // one in front of each node
	admins  []*redis.Client     // of each node, past its proxy
	front   *front              // ends TLS in front of the proxy of a single server
	shards  *redistest.Shards
	watched *redistest.Watched
}

func openSite(tb testing.TB, group, server string) *site {
	tb.Helper()
	_, programs := servers()
	program, ok := programs[server]
	if !ok {
		tb.Fatalf("no server is called %q: set %s", server, ServersEnv)
	}
	s := &site{tb: tb, group: group}
	options := []redistest.Option{redistest.Program(program)}
	switch group {
	case Cluster:
		s.shards = redistest.Cluster(tb, append(options, redistest.DownSoon())...)
		s.nodes = s.shards.Nodes
	case Sentinel:
		s.watched = redistest.Sentinel(tb, append(options, redistest.DownSoon())...)
		s.nodes = s.watched.Servers()
	default:
		// Its append-only file keeps the locks over a restart. That a save has failed
		// stops writes only while the fault MISCONF lasts.
		options = append(options, redistest.Args("--appendonly", "yes", "--appendfsync", "no",
			"--stop-writes-on-bgsave-error", "no", "--loading-process-events-interval-bytes", "1024", "--busy-reply-threshold", "1"))
		s.nodes = []*redistest.Server{redistest.Real(tb, options...)}
	}
	for _, node := range s.nodes {
		s.proxies = append(s.proxies, faultproxy.Start(tb, node.Addr()))
	}
	s.admins = admin.Clients(tb, s.nodes)
	if group == Single {
		s.front = startFront(tb, s.proxies[0].Addr())
		s.prepare()
	}
	return s
}

// prepare has a single server ready for LOADING.
func (s *site) prepare() {
	ctx := context.Background()
	pipe := s.admins[0].Pipeline()
	for i := range fillers {
		pipe.Set(ctx, fmt.Sprint("filler:", i), strings.Repeat("x", 100), 0)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		s.tb.Fatal(err)
	}
}

// behind returns the address of the proxy that stands before a node, and addr
// itself where it is none of ours, such as a Sentinel.
func (s *site) behind(addr string) string {
	for i, node := range s.nodes {
		if node.Addr() == addr {
			return s.proxies[i].Addr()
		}
	}
	return addr
}

// client opens a client as an application might, whose connections go through
// the proxies. dial is how long a slow dialer takes, until over is closed.
func (s *site) client(c Combination, dial time.Duration, over <-chan struct{}) redis.UniversalClient {
	var plain net.Dialer
	dialer := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if c.Trait == slowDialer {
			select {
			case <-time.After(dial):
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-over: // go-redis does not wait for those who dial when it is closed
				return nil, net.ErrClosed
			}
		}
		return plain.DialContext(ctx, network, s.behind(addr))
	}
	pool, protocol := 0, 0
	switch c.Trait {
	case poolOfOne:
		pool = 1
	case resp2:
		protocol = 2
	case resp3:
		protocol = 3
	}
	byCtx := c.Trait == timeoutByCtx
	var client redis.UniversalClient
	switch c.Site {
	case clusterSite:
		opts := &redis.ClusterOptions{Dialer: dialer, PoolSize: pool, Protocol: protocol, ContextTimeoutEnabled: byCtx}
		for _, node := range s.nodes {
			opts.Addrs = append(opts.Addrs, node.Addr())
		}
		client = redis.NewClusterClient(opts)
	case sentinelSite:
		opts := &redis.FailoverOptions{Dialer: dialer, PoolSize: pool, Protocol: protocol, ContextTimeoutEnabled: byCtx}
		opts.MasterName, opts.SentinelAddrs = s.watched.Sentinels()
		client = redis.NewFailoverClient(opts)
	case tlsSite:
		opts := &redis.Options{Addr: s.front.addr(), PoolSize: pool, Protocol: protocol, ContextTimeoutEnabled: byCtx, TLSConfig: s.front.client()}
		if c.Trait == slowDialer {
			opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dialer(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return s.front.secure(ctx, conn)
			}
		}
		client = redis.NewClient(opts)
	default:
		client = redis.NewClient(&redis.Options{Addr: s.nodes[0].Addr(), Dialer: dialer, PoolSize: pool, Protocol: protocol, ContextTimeoutEnabled: byCtx})
	}
	if c.Trait == hooked {
		client.AddHook(passing{})
	}
	return client
}

// direct opens a client past the proxies.
func (s *site) direct() redis.UniversalClient {
	switch {
	case s.shards != nil:
		opts := &redis.ClusterOptions{}
		for _, node := range s.nodes {
			opts.Addrs = append(opts.Addrs, node.Addr())
		}
		return redis.NewClusterClient(opts)
	case s.watched != nil:
		opts := &redis.FailoverOptions{}
		opts.MasterName, opts.SentinelAddrs = s.watched.Sentinels()
		return redis.NewFailoverClient(opts)
	}
	return redis.NewClient(&redis.Options{Addr: s.nodes[0].Addr()})
}

// passing is a hook that changes nothing.
type passing struct{}

func (passing) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (passing) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (passing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// heal ends what a fault may have left in the proxies, and the connections that
// lost bytes.
func (s *site) heal() {
	for _, proxy := range s.proxies {
		proxy.Heal()
		proxy.Delay(faultproxy.Both, 0)
		proxy.Refuse(false)
		proxy.DropReplies(0, nil)
		proxy.InBytes(faultproxy.Both, false)
		proxy.Cut()
	}
	if s.front != nil {
		s.front.mute.Store(false)
		s.front.cut()
	}
}

// distance makes a round trip take this long.
func (s *site) distance(d time.Duration) {
	for _, proxy := range s.proxies {
		proxy.Delay(faultproxy.Both, d/2)
	}
}

// hole swallows what takes a way through all proxies.
func (s *site) hole(dir faultproxy.Direction) {
	if s.front != nil {
		s.front.mute.Store(true)
	}
	s.each(func(proxy *faultproxy.Proxy) { proxy.BlackHole(dir) })
}

// fill ends hole.
func (s *site) fill() {
	if s.front != nil {
		s.front.mute.Store(false)
		s.front.cutMute()
	}
	s.each(func(proxy *faultproxy.Proxy) { proxy.Heal() })
}

func (s *site) each(do func(proxy *faultproxy.Proxy)) {
	for _, proxy := range s.proxies {
		do(proxy)
	}
}

// command has every node carry out a command.
func (s *site) command(args ...any) {
	var all sync.WaitGroup
	for i := range s.admins {
		all.Go(func() { s.at(i, args...) })
	}
	all.Wait()
}

// at has one node carry out a command.
func (s *site) at(i int, args ...any) {
	if err := admin.Do(s.admins[i], args...); err != nil {
		s.tb.Errorf("%v at %s: %v", args, s.nodes[i].Addr(), err)
	}
}

// keys returns what is there of a namespace, without the fences.
func (s *site) keys(namespace string) (left []string, err error) {
	for i, client := range s.admins {
		if s.watched != nil && strings.Contains(client.Info(context.Background(), "replication").Val(), "role:slave") {
			continue // its master has the same keys, and tells them
		}
		locks, at := admin.Locks(client, namespace+":*")
		if at != nil {
			return nil, fmt.Errorf("%s: %w", s.nodes[i].Addr(), at)
		}
		left = append(left, locks...)
	}
	return left, nil
}
