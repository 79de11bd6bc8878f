package dbtest

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

// A pair is a Redis and its replica, behind one address, as a Kubernetes Service has it. It keeps nothing on a disk.
type pair struct {
	*faultproxy.Proxy
	master, replica *redistest.Server
}

func newPair(t *testing.T, opts ...redistest.Option) *pair {
	t.Helper()
	opts = append(opts, redistest.Args("--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"))
	p := &pair{master: redistest.Real(t, opts...), replica: redistest.Real(t, opts...)}
	p.Proxy = faultproxy.Start(t, p.master.Addr())
	p.follow(t)
	return p
}

// follow has the replica follow the master, and returns when it has all that the master has.
func (p *pair) follow(t *testing.T) {
	t.Helper()
	host, port, err := net.SplitHostPort(p.master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := p.replica.Client(t)
	if err := replica.ReplicaOf(context.Background(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	await.Within(t, patient, "the replica follows", func() bool {
		return strings.Contains(replica.Info(context.Background(), "replication").Val(), "master_link_status:up")
	})
}

// flush has the master forget everything.
func (p *pair) flush(t *testing.T) {
	t.Helper()
	if err := p.master.Client(t).FlushAll(context.Background()).Err(); err != nil {
		t.Error(err)
	}
}

// restart has the master end and begin again, with nothing.
func (p *pair) restart(t *testing.T) {
	t.Helper()
	if err := p.master.Restart(); err != nil {
		t.Fatal(err)
	}
}

// failOver has the master die, and the replica take its place when that is so far behind that it has none of the locks that are held.
func (p *pair) failOver(t *testing.T) {
	t.Helper()
	replica := p.replica.Client(t)
	if err := replica.ReplicaOf(context.Background(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	await.Within(t, patient, "the replica is behind", func() bool {
		keys, err := replica.Keys(context.Background(), "lock:{*}").Result()
		return err == nil && len(keys) == 0
	})
	p.LeadTo(p.replica.Addr())
	p.master.Kill()
	p.master, p.replica = p.replica, p.master
	if err := p.replica.Restart(); err != nil {
		t.Fatal(err)
	}
	p.follow(t)
}
