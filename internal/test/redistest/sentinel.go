package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// masterName is how Sentinels and clients call what is watched.
const masterName = "main"

// Watched is a master with a replica that three Sentinels watch, of which two
// must agree that it is down. They say so after ten seconds, or sooner with [DownSoon].
type Watched struct {
	servers   []*Server // master and replica, in the order in which they were started
	sentinels []*Server
}

// Sentinel starts a master, its replica and three Sentinels for this test
// alone, and returns once they know each other, which takes two to three
// seconds. They are closed when the test ends. The options are for each of them.
func Sentinel(tb testing.TB, opts ...Option) *Watched {
	tb.Helper()
	data := append(slices.Clone(opts), Args("--repl-diskless-sync", "yes", "--repl-ping-replica-period", "1"))
	master := Real(tb, data...)
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica := Real(tb, append(data, Args("--replicaof", host, port))...)
	w := &Watched{servers: []*Server{master, replica}}
	ctx, cancel := context.WithTimeout(context.Background(), readyTogether)
	defer cancel()
	awaitSaid(ctx, tb, replica, "follows its master", func(client *redis.Client) (string, bool) {
		info := client.Info(ctx, "replication").Val()
		return info, strings.Contains(info, "master_link_status:up")
	})
	for range 3 {
		w.sentinels = append(w.sentinels, Real(tb, append(slices.Clone(opts), sentinel(fmt.Sprintf(
			"sentinel monitor %[1]s %[2]s %[3]s 2\n"+
				"sentinel failover-timeout %[1]s 3000\n", masterName, host, port)))...))
	}
	for _, s := range w.sentinels {
		awaitSaid(ctx, tb, s, "knows the replica and the other Sentinels", func(*redis.Client) (string, bool) {
			client := redis.NewSentinelClient(Options(s.Addr()))
			defer client.Close()
			said := client.Master(ctx, masterName).Val()
			return fmt.Sprint(said), said["num-slaves"] == "1" && said["num-other-sentinels"] == "2" && said["flags"] == "master"
		})
	}
	return w
}

// Sentinels returns what a client needs to find the master: the name that the
// Sentinels call it by, and their addresses.
func (w *Watched) Sentinels() (master string, addrs []string) {
	for _, s := range w.sentinels {
		addrs = append(addrs, s.Addr())
	}
	return masterName, addrs
}

// SentinelServers returns the Sentinels, in the order of their addresses.
func (w *Watched) SentinelServers() []*Server { return w.sentinels }

// Other returns the server that is not this one, whatever the Sentinels have heard.
func (w *Watched) Other(server *Server) *Server {
	if w.servers[0] == server {
		return w.servers[1]
	}
	return w.servers[0]
}

// Servers returns the master and the replica, in the order in which they were
// started.
func (w *Watched) Servers() []*Server { return w.servers }

// Client opens a client that asks the Sentinels for the master, and closes it
// when the test ends.
func (w *Watched) Client(tb testing.TB, mutators ...func(*redis.FailoverOptions)) *redis.Client {
	tb.Helper()
	opts := &redis.FailoverOptions{}
	opts.MasterName, opts.SentinelAddrs = w.Sentinels()
	for _, mutate := range mutators {
		mutate(opts)
	}
	client := redis.NewFailoverClient(opts)
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Errorf("close the client of the Sentinels' master: %v", err)
		}
	})
	return client
}

// Master returns the server that the Sentinels call the master.
func (w *Watched) Master(ctx context.Context) (*Server, error) {
	var addr []string
	var err error
	for _, s := range w.sentinels {
		client := redis.NewSentinelClient(Options(s.Addr()))
		addr, err = client.GetMasterAddrByName(ctx, masterName).Result()
		_ = client.Close()
		if err == nil {
			break
		}
	}
	for _, s := range w.servers {
		if err == nil && s.Addr() == strings.Join(addr, ":") {
			return s, nil
		}
	}
	return nil, fmt.Errorf("redistest: the Sentinels name no master of ours: %q, %w", addr, err)
}

// Masters returns the addresses that the Sentinels name as the master: one, unless some
// of them have not heard of a new one yet.
func (w *Watched) Masters(ctx context.Context) ([]string, error) {
	var all []string
	for _, s := range w.sentinels {
		client := redis.NewSentinelClient(Options(s.Addr()))
		addr, err := client.GetMasterAddrByName(ctx, masterName).Result()
		_ = client.Close()
		if err != nil {
			return nil, fmt.Errorf("redistest: a Sentinel names no master: %w", err)
		}
		all = append(all, strings.Join(addr, ":"))
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// KillMaster ends the master's process. The replica takes over, without what
// had not reached it, once the Sentinels have agreed.
func (w *Watched) KillMaster(ctx context.Context) error {
	master, err := w.Master(ctx)
	if err != nil {
		return err
	}
	master.Kill()
	return nil
}

// Replace has the Sentinels make the replica the master, which works on until then, and
// returns when the old master is the replica. That takes about ten seconds.
func (w *Watched) Replace(ctx context.Context) error {
	old, err := w.Master(ctx)
	if err != nil {
		return err
	}
	client := redis.NewSentinelClient(Options(w.sentinels[0].Addr()))
	defer client.Close()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for asked := false; ; {
		if !asked { // refused while the replica is not seen to be well
			asked = client.Failover(ctx, masterName).Err() == nil
		}
		now, err := w.Masters(ctx)
		if err == nil && len(now) == 1 && now[0] != old.Addr() && w.follows(ctx, old) {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("redistest: the Sentinels name %q, and the master was %s (replaced: %t): %w", now, old.Addr(), asked, ctx.Err())
		}
	}
}

// follows reports whether a server is a replica that has a link to its master.
func (w *Watched) follows(ctx context.Context, s *Server) bool {
	client := redis.NewClient(Options(s.Addr()))
	defer client.Close()
	return strings.Contains(client.Info(ctx, "replication").Val(), "master_link_status:up")
}

// sentinel has a server run as a Sentinel with this configuration. A Sentinel
// wants it in a file, which it rewrites.
func sentinel(conf string) Option {
	return func(s *Server) { s.sentinel = conf }
}

// sentinelArgs writes a Sentinel's file and returns its command line.
func (s *Server) sentinelArgs() ([]string, error) {
	file := filepath.Join(s.dir, "sentinel.conf")
	_, port, _ := strings.Cut(s.Addr(), ":")
	downAfter := 10 * time.Second // a busy machine may stop a master that is well for seconds
	if s.downSoon {
		downAfter = 500 * time.Millisecond
	}
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %q\n%ssentinel down-after-milliseconds %s %d\n",
		port, s.dir, s.sentinel, masterName, downAfter.Milliseconds())
	return []string{file, "--sentinel"}, os.WriteFile(file, []byte(text), 0o600)
}
