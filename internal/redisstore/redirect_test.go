package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

// A namer is a node of a Cluster that names another one in the place of an answer.
type namer struct {
	*redistest.Mini
	mu    sync.Mutex
	says  string   // what it answers about locks; empty: it carries commands out
	heard []string // calls of scripts; one that ASKING preceded on its connection has it in front
	asked map[*server.Peer]bool
}

func newNamer(t *testing.T) *namer {
	t.Helper()
	n := &namer{Mini: redistest.Embedded(t), asked: make(map[*server.Peer]bool)}
	n.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		switch cmd {
		case "ASKING":
			n.asked[c] = true
			c.WriteOK()
			return true
		case "EVAL", "EVALSHA", "SET", "EXISTS", "TIME", "GET":
			if strings.HasPrefix(cmd, "EVAL") { // the others are also what scripts call
				if n.asked[c] {
					cmd = "ASKING " + cmd
				}
				n.heard = append(n.heard, cmd)
			}
			delete(n.asked, c)
			if n.says != "" {
				c.WriteError(n.says)
				return true
			}
		}
		return false
	})
	return n
}

func (n *namer) say(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.says, n.heard = text, nil
}

func (n *namer) has() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.heard
}

// twoNodes returns two nodes of a Cluster, of which all believe that the first has every slot, and a
// probe of that Cluster.
func twoNodes(t *testing.T) (first, second *namer, p *probe) {
	t.Helper()
	first, second = newNamer(t), newNamer(t)
	addr := first.Addr()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
		MaintNotificationsConfig: noMaintNotifications(),
	})
	t.Cleanup(func() { _ = client.Close() })
	return first, second, open(t, client, "kit")
}

// Every command goes to the node that another one names.
func TestACommandGoesWhereANodeSays(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]func(to string) string{
		"MOVED": func(to string) string { return "MOVED 5 " + to },
		"MOVED, without a host": func(to string) string {
			_, port, _ := net.SplitHostPort(to)
			return "MOVED 5 :" + port
		},
		"MOVED, of an unknown host": func(to string) string {
			_, port, _ := net.SplitHostPort(to)
			return "MOVED 5 ?:" + port
		},
		"ASK": func(to string) string { return "ASK 5 " + to },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second, p := twoNodes(t)
			first.say(says(second.Addr()))
			asks := strings.HasPrefix(name, "ASK")
			for _, scripted := range []bool{true, false} {
				p.scripted = scripted
				var refs []store.Ref
				for i := range 3 {
					r := p.ref(time.Minute)
					r.Key = fmt.Sprint("k", i)
					noteGrant(&r, p.get(r, store.Wait))
					refs = append(refs, r)
				}
				if len(second.Keys()) != 3 || len(first.Keys()) != 0 {
					t.Fatalf("%v lie at the first node, %v at the second, want three locks there", first.Keys(), second.Keys())
				}
				batch := []store.Renewal{{Ref: refs[0]}, {Ref: refs[1]}, {Ref: refs[2]}}
				p.Renew(t.Context(), batch)
				for _, r := range batch {
					if !r.Held || r.Err != nil {
						t.Errorf("Renew = %v, %v, want true, nil", r.Held, r.Err)
					}
				}
				if scripted {
					p.release(refs[0], false, store.Freed)
				} else if got := await.Receive(t, "the end of an asynchronous release", p.post(store.Give{Ref: refs[0]}, false)); got.did != store.Freed || got.err != nil {
					t.Errorf("told %v, %v, want %v", got.did, got.err, store.Freed)
				}
				removals := []store.Removal{{Ref: refs[1]}, {Ref: refs[2]}}
				p.Remove(t.Context(), removals)
				for _, r := range removals {
					if r.Err != nil {
						t.Errorf("Remove = %v, want nil", r.Err)
					}
				}
				if left := second.Keys(); len(left) > 0 {
					t.Errorf("%v are left", left)
				}
			}
			for _, heard := range second.has() {
				if strings.HasPrefix(heard, "ASKING ") != asks {
					t.Fatalf("the second node heard %q, want ASKING before each: %v", second.has(), asks)
				}
			}
		})
	}
}

// A user's NewClient may reach nodes elsewhere than where they say that they are, as through a tunnel: also one that
// another node names.
func TestANodeIsReachedWhereTheUsersNewClientSays(t *testing.T) {
	t.Parallel()
	first, second := newNamer(t), newNamer(t)
	addr, tunnel := first.Addr(), second.Addr()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		NewClient: func(o *redis.Options) *redis.Client {
			if o.Addr == "10.1.2.3:6379" {
				o.Addr = tunnel
			}
			return redis.NewClient(o)
		},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
		MaintNotificationsConfig: noMaintNotifications(),
	})
	t.Cleanup(func() { _ = client.Close() })
	p := open(t, client, "kit")
	first.say("MOVED 5 10.1.2.3:6379")
	held := p.take()
	if len(second.Keys()) != 1 {
		t.Errorf("%v lie at the second node, want the lock", second.Keys())
	}
	p.release(held, false, store.Freed)
}

// A user without the right to ASKING has the lock all the same where the slot has arrived meanwhile.
func TestAskingIsRefused(t *testing.T) {
	t.Parallel()
	first, second, p := twoNodes(t)
	p.release(p.take(), false, store.Freed) // the server suits
	first.say("ASK 5 " + second.Addr())
	second.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd == "ASKING" {
			c.WriteError("NOPERM this user has no permissions to run the 'asking' command")
		}
		return cmd == "ASKING"
	})
	p.release(p.take(), false, store.Freed)
}

// Nodes that name each other without end are left.
func TestNodesThatNameEachOther(t *testing.T) {
	t.Parallel()
	first, second, p := twoNodes(t)
	p.release(p.take(), false, store.Freed) // the server suits
	p.scripted = true
	first.say("MOVED 5 " + second.Addr())
	second.say("MOVED 5 " + first.Addr())
	_, err := p.Acquire(t.Context(), store.Request{Ref: p.ref(time.Minute)})
	if e := store.AsError(err); err == nil || !strings.Contains(err.Error(), "MOVED") || e.Permanent || e.Ambiguous || e.Evidence != store.Answered {
		t.Errorf("Acquire = %+v, want what the last node said, and that nothing was carried out", e)
	}
	if asked := len(first.has()) + len(second.has()); asked != 1+namedMost {
		t.Errorf("%d commands, want one and %d more", asked, namedMost)
	}
}

// A Cluster of which nothing is known is asked for; whoever leaves meanwhile is back at once, and
// nothing is sent for it.
func TestAClusterOfWhichNothingIsKnownYet(t *testing.T) {
	t.Parallel()
	addr := redistest.Embedded(t).Addr()
	inTime(t, "Acquire whose context has ended", soon, func() time.Duration { return leavesAnUnknownCluster(t, addr) })
}

// leavesAnUnknownCluster returns how long a caller took to leave.
func leavesAnUnknownCluster(t *testing.T, addr string) time.Duration {
	t.Helper()
	asked, tells := make(chan struct{}, 10), make(chan struct{})
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
			asked <- struct{}{}
			select {
			case <-tells:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
		MaintNotificationsConfig: noMaintNotifications(),
	})
	t.Cleanup(func() { _ = client.Close() })
	p := open(t, client, "kit")
	ctx, cancel := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute)})
		left <- err
	}()
	<-asked
	at := time.Now()
	cancel(errGaveUp)
	err := <-left
	took := time.Since(at)
	if e := store.AsError(err); !errors.Is(err, errGaveUp) || e.Pending || e.Ambiguous {
		t.Errorf("Acquire = %+v, want its cause, and that nothing was sent", e)
	}
	close(tells)
	p.release(p.take(), false, store.Freed)
	return took
}

// A node that hangs while a slot is in migration is silent, and whoever asked it has an answer. Nothing comes late.
func TestAMigrationInWhichANodeHangs(t *testing.T) {
	t.Parallel()
	first, _, p := twoNodes(t)
	p.release(p.take(), false, store.Freed) // the server suits
	p.scripted = true
	hangs := make(chan struct{})
	t.Cleanup(func() { close(hangs) })
	first.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if strings.HasPrefix(cmd, "EVAL") && args[1] != "1" {
			c.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
			return true
		}
		<-hangs
		return false
	})
	late := make(chan error, 1)
	_, err := p.Acquire(t.Context(), store.Request{
		Ref: p.ref(time.Minute), Until: time.Now().Add(brief), Late: func(_ store.Answer, err error) { late <- err },
	})
	if e := store.AsError(err); err == nil || e.Pending || !e.Ambiguous || e.Evidence != store.Silent {
		t.Errorf("Acquire = %+v, want silence, and nothing pending", e)
	}
	p.running.Wait()
	select {
	case err := <-late:
		t.Errorf("Late was called, with %v", err)
	default:
	}
}

// The cause with which a caller leaves may be what a server said to another program's command. It is no
// reply to the Store.
func TestACauseIsNoReply(t *testing.T) {
	t.Parallel()
	for _, says := range []string{"MOVED 5 10.0.0.1:6379", "LOADING Redis is loading", "NOSCRIPT No matching script", "TRYAGAIN"} {
		proxy, p, _ := proxied(t, redistest.Embedded(t))
		p.release(p.take(), false, store.Freed)
		for _, scripted := range []bool{true, false} {
			p.scripted = scripted
			eras := p.dialer.eras.Load()
			ctx, cancel := context.WithCancelCause(t.Context())
			proxy.Stall(faultproxy.Both)
			go func() { // once the command is under way
				for p.single.Open() == 0 && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				cancel(wire.Refusal(says))
			}()
			late := make(chan struct{})
			_, err := p.Acquire(ctx, store.Request{Ref: p.ref(time.Minute), Late: func(store.Answer, error) { close(late) }})
			if e := store.AsError(err); !e.Pending {
				t.Errorf("%s: Acquire = %+v, want it pending", says, e)
			}
			proxy.Heal()
			await.Receive(t, "Late", late)
			if p.moved.Load() || p.dialer.eras.Load() != eras {
				t.Errorf("%s: moved %v, %d masters left, want that the Store goes on as before", says, p.moved.Load(), p.dialer.eras.Load()-eras)
			}
			p.idle()
			_ = p.ForceRelease(t.Context(), "k", store.Intervention{})
		}
	}
}

func TestTheAddressThatANodeNames(t *testing.T) {
	for says, want := range map[string]string{
		"MOVED 3999 10.0.0.2:6381":      "10.0.0.2:6381",
		"ASK 3999 redis-2.example:6381": "redis-2.example:6381",
		"MOVED 3999 :6381":              "10.0.0.1:6381",
		"MOVED 3999 ?:6381":             "10.0.0.1:6381",
		"MOVED 3999 fd00::2:6381":       "[fd00::2]:6381",
		"MOVED 3999 [fd00::2]:6381":     "[fd00::2]:6381",
		"MOVED 3999":                    "",
		"MOVED 3999 here":               "",
		"MOVED 3999 10.0.0.2:":          "",
		"MOVED 3999 10.0.0.2:1 x":       "",
	} {
		if got, ok := addrIn(errors.New(says), "10.0.0.1:6379"); got != want && ok || ok != (want != "") {
			t.Errorf("%q names %q, %v, want %q", says, got, ok, want)
		}
	}
}
