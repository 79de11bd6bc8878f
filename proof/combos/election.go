package combos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
)

// replaceMaster freezes the master until the Sentinels have made its replica the
// master, and lets it go on, as a machine does that had hung. When the user's own
// client has followed, ours and a fresh Locker compete for the same keys: a Locker
// that is still with the old master would hold them a second time.
func (r *round) replaceMaster() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	old, err := r.site.watched.Master(ctx)
	r.check(err)
	r.check(old.Stop())
	var master *redistest.Server
	for master, err = r.site.watched.Master(ctx); ctx.Err() == nil && (err != nil || master == old); master, err = r.site.watched.Master(ctx) {
		time.Sleep(10 * time.Millisecond)
	}
	r.check(old.Cont())
	_, port, _ := strings.Cut(master.Addr(), ":")
	for ctx.Err() == nil && !r.asksPort(ctx, port) {
		time.Sleep(10 * time.Millisecond)
	}
	r.reign = master.Addr() + ", " + r.site.reignOf(ctx, slices.Index(r.site.nodes, master))
	r.mu.Lock()
	r.follows = r.now()
	r.mu.Unlock()
	fresh, err := r.openWitness()
	r.check(err)
	r.contend(fresh, r.now()+followWithin+1500*time.Millisecond)
	short, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r.check(fresh.Close(short))
	old.Kill()
}

// reign names the masters there are: by the Sentinels, and by what the servers say of
// themselves, with the number that a server takes when it becomes one. It is the same
// before and after a time in which no master was replaced. Without Sentinels it is "".
func (s *site) reign() string {
	if s.watched == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	named, err := s.watched.Masters(ctx)
	if err != nil {
		return err.Error()
	}
	for i := range s.nodes {
		if says := s.reignOf(ctx, i); says != "" {
			named = append(named, says)
		}
	}
	return strings.Join(named, ", ")
}

// reignOf is what a server says of itself, "" if it is no master.
func (s *site) reignOf(ctx context.Context, i int) string {
	said := s.admins[i].Info(ctx, "replication").Val()
	if !strings.Contains(said, "role:master") {
		return ""
	}
	_, number, _ := strings.Cut(said, "master_replid:")
	number, _, _ = strings.Cut(number, "\r\n")
	return s.nodes[i].Addr() + " " + number
}

// asksPort says whether the user's own client reaches the server with this port.
func (r *round) asksPort(ctx context.Context, port string) bool {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	client, ok := r.client.(*redis.Client)
	return ok && client.ConfigGet(ctx, "port").Val()["port"] == port
}

// contend has ours and a fresh Locker take turns on keys.
func (r *round) contend(fresh Locker, until time.Duration) {
	var all sync.WaitGroup
	turns := func(locks Locker, by string, keys ...string) {
		all.Go(func() {
			for r.now() < until {
				k := call{by: by, keys: keys, wait: 100 * time.Millisecond}
				p := r.policy()
				p.Wait, p.Retries = k.wait, 0
				r.call(r.whole, locks, k, p, 20*time.Millisecond)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	for i := range 3 {
		turns(r.ours, byOurs, fmt.Sprint("turn", i))
		turns(fresh, byWitness, fmt.Sprint("turn", i))
	}
	turns(fresh, byWitness, "mine")
	all.Wait()
}

// followWithin is how long after the user's own client a Locker may still be with
// the old master.
const followWithin = time.Second

// restore makes the server that was replaced a replica of the new master, and
// waits until the Sentinels see that.
func (r *round) restore() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	master, err := r.site.watched.Master(ctx)
	r.check(err)
	host, port, _ := strings.Cut(master.Addr(), ":")
	for i, node := range r.site.nodes {
		if node == master {
			continue
		}
		r.check(node.Restart())
		r.site.at(i, "REPLICAOF", host, port)
	}
	for i, node := range r.site.nodes {
		for node == master && ctx.Err() == nil && !strings.Contains(r.site.admins[i].Info(ctx, "replication").Val(), "state=online") {
			time.Sleep(20 * time.Millisecond)
		}
	}
	r.check(ctx.Err())
}
