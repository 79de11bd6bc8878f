// Package commands holds down what is sent to Redis: the commands of fixed scenarios, one
// after the other, with their arguments. A change that should leave behaviour as it is (a
// rename, a move, an inner type) leaves them as they are. One that should not shows in
// testdata what it does to Redis, and so to processes of an earlier version beside it.
//
//	go test ./internal/check/commands -update    # writes testdata anew
//
// It uses what users have, and nothing of the packages below lockmw but the scripts' texts:
// so the same files run at an earlier commit, with testdata as it is now or then.
package commands

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/golden"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// The policies' times are such that nothing is renewed or asked again within a scenario.
var (
	once  = lockmw.Policy{TTL: time.Minute}
	waits = lockmw.Policy{TTL: time.Minute, Retries: lockmw.Forever, RetryInterval: 40 * time.Second}
)

// with returns waits, changed.
func with(change func(p *lockmw.Policy)) lockmw.Policy {
	p := waits
	change(&p)
	return p
}

// A scenario has a server, or three of a quorum.
var scenarios = []struct {
	name    string
	servers int
	fresh   bool // the servers know no script
	run     func(s *scene)
}{
	{"first", 1, true, first},
	{"free", 1, false, free},
	{"wait", 1, false, wait},
	{"handover_in_process", 1, false, handOverInProcess},
	{"handover_between_processes", 1, false, handOverBetweenProcesses},
	{"renewal", 1, false, renewal},
	{"acquire_in_doubt", 1, false, acquireInDoubt},
	{"release_in_doubt", 1, false, releaseInDoubt},
	{"cancel", 1, false, cancelled},
	{"shared", 1, false, shared},
	{"reentrant", 1, false, reentrant},
	{"permits", 1, false, permits},
	{"fence", 1, false, fence},
	{"all", 1, false, all},
	{"quorum", 3, false, quorum},
	{"once", 1, false, onlyOnce},
	{"min_hold", 1, false, minHold},
	{"leader", 1, false, leader},
	{"operators", 1, false, operators},
	{"forced", 1, false, forced},
}

func TestTheCommandsOfScenarios(t *testing.T) {
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, scenario.servers, scenario.fresh)
			scenario.run(s)
			golden.Check(t, filepath.Join("testdata", scenario.name+".txt"), s.all.String())
		})
	}
}

// closing is the last step of a scenario: what comes late stands there.
func closing(s *scene, all ...*process) {
	s.Helper()
	s.step("close", func() {
		for _, p := range all {
			if err := p.Close(s.Context()); err != nil {
				s.Errorf("close %s: %v", p.name, err)
			}
		}
	})
}

func first(s *scene) {
	var a *process
	s.step("a: New", func() { a = s.process("a") })
	var lease *lockmw.Lease
	s.anyOrder("a: Acquire k, on a server that knows no script", 4, func() { lease = s.acquire(a, "k", once) })
	s.step("a: Release", func() { s.release(lease) })
	closing(s, a)
}

func free(s *scene) {
	a := s.used("a")
	var lease *lockmw.Lease
	s.step("a: Acquire k", func() { lease = s.acquire(a, "k", once) })
	s.step("a: Release", func() { s.release(lease) })
	s.step("a: Acquire k, and would wait", func() { lease = s.acquire(a, "k", waits) })
	s.step("a: Release", func() { s.release(lease) })
	closing(s, a)
}

func wait(s *scene) {
	a, b := s.used("a"), s.used("b")
	var lease *lockmw.Lease
	s.step("a: Acquire k", func() { lease = s.acquire(a, "k", once) })
	s.step("b: Acquire k, once", func() {
		if _, _, err := b.Acquire(s.Context(), "k", once); !errors.Is(err, lockmw.ErrNotAcquired) {
			s.Errorf("Acquire = %v, want ErrNotAcquired", err)
		}
	})
	s.step("b: Acquire k, for 300 ms", func() {
		p := lockmw.Policy{TTL: time.Minute, Wait: 300 * time.Millisecond, RetryInterval: 40 * time.Second}
		if _, _, err := b.Acquire(s.Context(), "k", p); !errors.Is(err, lockmw.ErrNotAcquired) {
			s.Errorf("Acquire = %v, want ErrNotAcquired", err)
		}
	})
	s.step("a: Release", func() { s.release(lease) })
	closing(s, a, b)
}

func handOverInProcess(s *scene) {
	a := s.used("a")
	var leases [3]*lockmw.Lease
	s.step("a: Acquire k", func() { leases[0] = s.acquire(a, "k", waits) })
	second := s.begin("a: a second Acquire k", a.queued("k", 1), func() { leases[1] = s.acquire(a, "k", waits) })
	third := s.begin("a: a third Acquire k", a.queued("k", 2), func() { leases[2] = s.acquire(a, "k", waits) })
	s.step("a: Release, the second has it", func() { s.release(leases[0]); second() })
	s.step("a: Release, the third has it", func() { s.release(leases[1]); third() })
	s.step("a: Release", func() { s.release(leases[2]) })
	closing(s, a)
}

func handOverBetweenProcesses(s *scene) {
	a, b := s.used("a"), s.used("b")
	var ofA, ofB *lockmw.Lease
	s.step("a: Acquire k", func() { ofA = s.acquire(a, "k", waits) })
	waited := s.begin("b: Acquire k", b.queued("k", 1), func() { ofB = s.acquire(b, "k", waits) })
	s.step("a: Release, b has it and confirms that", func() {
		s.release(ofA)
		waited()
		s.confirmed(ofB)
	})
	s.step("b: Release", func() { s.release(ofB) })
	closing(s, a, b)
}

func renewal(s *scene) {
	a := s.used("a")
	var lease *lockmw.Lease
	s.step("a: Acquire k", func() { lease = s.acquire(a, "k", lockmw.Policy{TTL: 3 * time.Second}) })
	s.step("a: the watchdog, once", func() { await.Until(s, "renewed", s.sends(1)) })
	s.step("a: Release", func() { s.release(lease) })
	closing(s, a)
}

func acquireInDoubt(s *scene) {
	a := s.used("a")
	var lease *lockmw.Lease
	s.step("a: Acquire k, the reply to SET is lost", func() {
		a.proxies[0].DropReplies(1, faultproxy.Match("SET"))
		lease = s.acquire(a, "k", waits)
	})
	s.step("a: Release and Close, which makes sure that the first SET comes no more", func() {
		s.release(lease)
		await.Until(s, "it has made sure", s.sends(5)) // on a machine that is busy Close may give up before
		if err := a.Close(s.Context()); err != nil {
			s.Error(err)
		}
	})
}

func releaseInDoubt(s *scene) {
	a := s.used("a")
	var lease *lockmw.Lease
	s.step("a: Acquire k", func() { lease = s.acquire(a, "k", once) })
	s.step("a: Release, the reply is lost; the second give says 0, and release asks whether the token has anything else", func() {
		a.proxies[0].DropReplies(1, faultproxy.MatchScript(redisstore.Scripts()["give"]))
		s.release(lease)
	})
	closing(s, a)
}

func cancelled(s *scene) {
	a, b := s.used("a"), s.used("b")
	var lease *lockmw.Lease
	s.step("a: Acquire k", func() { lease = s.acquire(a, "k", waits) })
	ctx, cancel := context.WithCancel(s.Context())
	waited := s.begin("b: Acquire k", b.queued("k", 1), func() {
		if _, _, err := b.Acquire(ctx, "k", waits); !errors.Is(err, context.Canceled) {
			s.Errorf("Acquire = %v, want context.Canceled", err)
		}
	})
	s.step("b: its context ends", func() {
		cancel()
		waited()
		await.Until(s, "what it left is removed", s.sends(1))
	})
	s.step("a: Release", func() { s.release(lease) })
	closing(s, a, b)
}

func shared(s *scene) {
	a, b := s.used("a"), s.used("b")
	reads := with(func(p *lockmw.Policy) { p.Mode = lockmw.Shared })
	var ofA, ofB, writes *lockmw.Lease
	s.step("a: Acquire k, Shared", func() { ofA = s.acquire(a, "k", reads) })
	s.step("b: Acquire k, Shared", func() { ofB = s.acquire(b, "k", reads) })
	waited := s.begin("a: Acquire k, Exclusive", a.queued("k", 1), func() { writes = s.acquire(a, "k", waits) })
	s.step("a: Release of the reader, and the writer asks again", func() {
		s.release(ofA)
		await.Until(s, "asked again", s.sends(2))
	})
	s.step("b: Release of the reader, the writer has it and confirms that", func() {
		s.release(ofB)
		waited()
		s.confirmed(writes)
	})
	s.step("a: Release of the writer", func() { s.release(writes) })
	closing(s, a, b)
}

func reentrant(s *scene) {
	a := s.used("a")
	p := with(func(p *lockmw.Policy) { p.Reentrant = true })
	ctx, outer, err := a.Acquire(s.Context(), "k", p)
	if err != nil {
		s.Fatal(err)
	}
	s.step("a: Acquire k", func() {})
	var inner *lockmw.Lease
	s.step("a: Acquire k within", func() {
		if _, inner, err = a.Acquire(ctx, "k", p); err != nil {
			s.Fatal(err)
		}
	})
	s.step("a: Release of the inner", func() { s.release(inner) })
	s.step("a: Release of the outer", func() { s.release(outer) })
	closing(s, a)
}

func permits(s *scene) {
	a, b := s.used("a"), s.used("b")
	two := with(func(p *lockmw.Policy) { p.Permits = 2 })
	var leases [3]*lockmw.Lease
	s.step("a: Acquire k, of two permits", func() { leases[0] = s.acquire(a, "k", two) })
	s.step("b: Acquire k", func() { leases[1] = s.acquire(b, "k", two) })
	waited := s.begin("b: Acquire k, the third", b.queued("k", 1), func() { leases[2] = s.acquire(b, "k", two) })
	s.step("a: Release, the third has it and confirms that", func() {
		s.release(leases[0])
		waited()
		s.confirmed(leases[2])
	})
	s.step("b: Release of both", func() { s.release(leases[1]); s.release(leases[2]) })
	closing(s, a, b)
}

func fence(s *scene) {
	a, b := s.used("a"), s.used("b")
	client := s.servers[0].Client(s)
	var lease *lockmw.Lease
	s.step("a: Acquire k", func() { lease = s.acquire(a, "k", once) })
	s.step("a: Release, with a fence kept beside the lock", func() {
		const later = 40_000 // ms; its value is below each new fence
		if err := client.Set(s.Context(), "lock:{k}:fence", lease.Fence(), later*time.Millisecond).Err(); err != nil {
			s.Fatal(err)
		}
		s.release(lease)
	})
	s.step("b: Acquire k", func() {
		before := lease.Fence()
		if lease = s.acquire(b, "k", once); lease.Fence() <= before {
			s.Errorf("the fence %d does not exceed %d", lease.Fence(), before)
		}
	})
	s.step("b: Release", func() { s.release(lease) })
	closing(s, a, b)
}

func all(s *scene) {
	a, b := s.used("a"), s.used("b")
	several := func(p *process, keys []string, policy lockmw.Policy) (*lockmw.Lease, error) {
		_, lease, err := p.AcquireAll(s.Context(), keys, policy)
		return lease, err
	}
	var lease, other *lockmw.Lease
	var err error
	s.step("a: AcquireAll k2, k1, k2", func() {
		if lease, err = several(a, []string{"k2", "k1", "k2"}, once); err != nil {
			s.Fatal(err)
		}
	})
	s.anyOrder("a: Release", 2, func() { s.release(lease) })
	s.step("b: Acquire k2", func() { other = s.acquire(b, "k2", once) })
	s.step("a: AcquireAll k1, k2, once", func() {
		if _, err := several(a, []string{"k1", "k2"}, once); !errors.Is(err, lockmw.ErrNotAcquired) {
			s.Errorf("AcquireAll = %v, want ErrNotAcquired", err)
		}
		await.Until(s, "k1 is given back", s.sends(11))
	})
	s.step("b: Release", func() { s.release(other) })
	closing(s, a, b)
}

// Who is refused by a quorum does not wait for the last of its nodes, so that what it sends
// there depends on the moment; that is why nobody is refused here.
func quorum(s *scene) {
	a := s.used("a")
	var lease *lockmw.Lease
	s.step("a: Acquire k", func() {
		lease = s.acquire(a, "k", once)
		await.Until(s, "asked at all nodes", s.sends(3*4))
	})
	s.step("a: Release", func() {
		s.release(lease)
		await.Until(s, "given back at all nodes", s.sends(3))
	})
	closing(s, a)
}

func onlyOnce(s *scene) {
	a, b := s.used("a"), s.used("b")
	job := lockmw.Policy{TTL: time.Minute, MinHold: 50 * time.Second}
	try := func(p *process, want bool) {
		ran, err := p.Once(s.Context(), "job", job, func(context.Context) error { return nil })
		if ran != want || err != nil {
			s.Errorf("Once = %v, %v, want %v and no error", ran, err, want)
		}
	}
	s.step("a: Once", func() { try(a, true) })
	s.step("b: Once", func() { try(b, false) })
	closing(s, a, b)
}

func minHold(s *scene) {
	a := s.used("a")
	p := lockmw.Policy{TTL: time.Minute, MinHold: 50 * time.Second}
	var lease *lockmw.Lease
	s.step("a: Acquire k", func() { lease = s.acquire(a, "k", p) })
	s.step("a: Release of work that failed", func() { lease.MarkFailed(); s.release(lease) })
	s.step("a: Acquire k", func() { lease = s.acquire(a, "k", p) })
	s.step("a: Release", func() { s.release(lease) })
	closing(s, a)
}

func leader(s *scene) {
	a, b := s.used("a"), s.used("b")
	p := lockmw.Policy{TTL: time.Minute, RetryInterval: 40 * time.Second}
	resigns := make(chan struct{})
	ofA := s.begin("a: Leader.Run", s.sends(4), func() {
		if err := a.Leader("leader", p).Run(s.Context(), func(context.Context) error { <-resigns; return nil }); err != nil {
			s.Error(err)
		}
	})
	ofB := s.begin("b: Leader.Run", b.queued("leader", 1), func() {
		err := b.Leader("leader", p).Run(s.Context(), func(ctx context.Context) error {
			if lease, ok := lockmw.FromContext(ctx); ok {
				s.confirmed(lease)
			}
			return lockmw.ErrResign
		})
		if !errors.Is(err, lockmw.ErrResign) {
			s.Errorf("Run = %v, want ErrResign", err)
		}
	})
	s.step("a: its function returns, b leads, confirms that, and resigns", func() {
		close(resigns)
		ofA()
		ofB()
	})
	closing(s, a, b)
}

func operators(s *scene) {
	a, b := s.used("a"), s.used("b")
	var lease *lockmw.Lease
	s.step("a: Acquire k", func() { lease = s.acquire(a, "k", once) })
	s.step("b: Inspect k", func() {
		if info, err := b.Inspect(s.Context(), "k"); err != nil || !info.Held {
			s.Errorf("Inspect = %v, %v, want that it is held", info, err)
		}
	})
	s.step("b: List", func() {
		n := 0
		for _, err := range b.List(s.Context(), "") {
			if n++; err != nil {
				s.Error(err)
			}
		}
		if n != 1 {
			s.Errorf("List: %d locks, want 1", n)
		}
	})
	s.step("b: ListUncertain", func() {
		for info, err := range b.ListUncertain(s.Context(), "") {
			s.Errorf("ListUncertain: %v, %v, want nothing", info, err)
		}
	})
	s.step("b: Ping", func() {
		if err := b.Ping(s.Context()); err != nil {
			s.Error(err)
		}
	})
	s.step("a: Release", func() { s.release(lease) })
	closing(s, a, b)
}

func forced(s *scene) {
	a, b := s.used("a"), s.used("b")
	var lease *lockmw.Lease
	s.step("a: Acquire k", func() { lease = s.acquire(a, "k", waits) })
	s.step("b: ForceRelease k, a hears of it", func() {
		if err := b.ForceRelease(s.Context(), "k"); err != nil {
			s.Error(err)
		}
		<-lease.Context().Done()
	})
	s.step("a: Release", func() {
		if err := lease.Release(s.Context()); !errors.Is(err, lockmw.ErrLost) {
			s.Errorf("Release = %v, want ErrLost", err)
		}
		await.Until(s, "what is left is removed", s.sends(1))
	})
	closing(s, a, b)
}
