package matrix

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
	"github.com/lockmw/kit/proof/worker"
)

// holders starts a worker that holds keys until it loses them, and returns when
// it holds all.
func holders(t *testing.T, addr, name string, number int, change func(*worker.Key)) *worker.Process {
	t.Helper()
	c := worker.Config{Name: name, Engine: engines.Ours, Redis: engines.One(addr), TTL: toldTTL(), Wait: 5 * toldTTL()}
	for i := range number {
		key := worker.Key{Name: fmt.Sprintf("%s-%d", name, i), Kind: history.Mutex, Goroutines: 1, StaysAlive: true, Turns: 1}
		if change != nil {
			change(&key)
		}
		c.Keys = append(c.Keys, key)
	}
	all := make(chan struct{}, number)
	p := worker.Start(t, c, worker.Listener{Began: func(history.Hold) { all <- struct{}{} }})
	for range number {
		select {
		case <-all:
		case <-time.After(30 * time.Second):
			t.Fatal("the worker does not get its locks")
		}
	}
	return p
}

// Check 7 of REPORT.md.
func TestStoppedHolderFindsOutAtOnce(t *testing.T) {
	redis, ttl := redistest.Real(t), toldTTL()
	stops, each := record.Pick(2, 10), 5
	var late []time.Duration
	valid, first := 0, 0
	for i := range stops {
		p := holders(t, redis.Addr(), fmt.Sprintf("stopped%d", i), each, func(k *worker.Key) { k.Watch = true })
		time.Sleep(time.Duration(i) * ttl / 10) // at another point between two renewals
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * ttl / 2)
		resumed := clock.Now()
		if err := p.Cont(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.Ended(): // it has lost all its locks, and has nothing else to do
		case <-time.After(30 * time.Second):
			t.Fatal("the worker goes on")
		}
		saw := p.Saw()
		for _, woke := range saw.Woke {
			if woke.Before < resumed && woke.Asked >= resumed {
				first++
				if woke.Valid {
					valid++
				}
			}
		}
		for _, done := range saw.Done {
			late = append(late, done-resumed)
		}
		if len(saw.Failures) > 0 {
			t.Error(saw.Failures)
		}
	}
	worst := time.Hour
	if len(late) > 0 {
		worst = slices.Max(late)
	}
	limit := 100 * time.Millisecond
	if testing.Short() {
		limit = 5 * time.Second // on a machine that is busy with other tests
	}
	record.Add(t, record.Row{
		Check: 7, Name: "SIGSTOP of the holder for 1.5 TTL",
		Goal:   fmt.Sprintf("%d of %d: first Valid() false; context done within %v of SIGCONT", stops*each, stops*each, limit),
		Figure: fmt.Sprintf("%d of %d first answers false; %d contexts done, the latest after %v", first-valid, first, len(late), worst.Round(100*time.Microsecond)),
		Met:    first == stops*each && valid == 0 && len(late) == first && worst <= limit,
	})
}

// Check 8 of REPORT.md.
func TestKilledHolderIsSucceeded(t *testing.T) {
	redis, ttl := redistest.Real(t), toldTTL()
	rounds, each := record.Pick(1, 10), 10
	locks, err := lockmw.New(redis.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	var entered sync.WaitGroup
	defer entered.Wait() // Close ends those who still wait
	defer locks.Close(context.Background())
	var mu sync.Mutex
	var took []time.Duration
	for i := range rounds {
		p := holders(t, redis.Addr(), fmt.Sprintf("killed%d", i), each, nil)
		got := make([]time.Duration, each)
		for j := range each {
			entered.Go(func() {
				_, lease, err := locks.Acquire(context.Background(), p.Config.Keys[j].Name, lockmw.Policy{TTL: ttl, Wait: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				got[j] = clock.Now()
				if err := lease.Release(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		await.Within(t, 30*time.Second, "all stand in their queues", func() bool {
			waiting := 0
			for j := range each {
				if info, err := locks.Inspect(context.Background(), p.Config.Keys[j].Name); err == nil {
					waiting += info.Waiting
				}
			}
			return waiting == each
		})
		time.Sleep(time.Duration(i) * ttl / 10) // at another point between two renewals
		killed := clock.Now()
		p.Kill()
		entered.Wait()
		mu.Lock()
		for _, at := range got {
			took = append(took, at-killed)
		}
		mu.Unlock()
	}
	slices.Sort(took)
	limit := ttl + 500*time.Millisecond
	if testing.Short() {
		limit += 10 * time.Second // on a machine that is busy with other tests
	}
	record.Add(t, record.Row{
		Check: 8, Name: "SIGKILL of the holder",
		Goal:   fmt.Sprintf("%d of %d: next holder within %v", rounds*each, rounds*each, limit),
		Figure: fmt.Sprintf("%d, within %v (median %v)", len(took), took[len(took)-1].Round(time.Millisecond), took[len(took)/2].Round(time.Millisecond)),
		Met:    len(took) == rounds*each && took[len(took)-1] <= limit,
	})
}

// Check 21 of REPORT.md.
func TestCommandsOfManyWaiters(t *testing.T) {
	redis := redistest.Real(t)
	const processes = 4
	each, turns := record.Pick(25, 250), record.Pick(2, 4)
	var proxies []*faultproxy.Proxy
	var workers []*worker.Process
	for i := range processes {
		proxies = append(proxies, faultproxy.Start(t, redis.Addr()))
		workers = append(workers, worker.Start(t, worker.Config{
			Name: fmt.Sprint("crowd", i), Engine: engines.Ours, Redis: engines.One(proxies[i].Addr()), TTL: 30 * time.Second, Wait: 5 * time.Minute,
			Keys: []worker.Key{{Name: "k", Kind: history.Mutex, Goroutines: each, Turns: turns}},
		}, worker.Listener{}))
	}
	var o Outcome
	for _, p := range workers {
		select {
		case <-p.Ended():
		case <-time.After(5 * time.Minute):
			t.Fatal("not all were served")
		}
		saw := p.Saw()
		o.Holds = append(o.Holds, saw.Holds...)
		o.Refused += len(saw.Refusals)
		o.Failures = append(o.Failures, saw.Failures...)
	}
	commands := 0
	byName := make(map[string]int)
	for _, p := range proxies {
		for name, n := range p.Commands() {
			commands += n
			byName[name] += n
		}
	}
	for _, fault := range o.Faults() {
		t.Error(fault)
	}
	want := processes * each * turns
	slices.SortFunc(o.Holds, func(a, b history.Hold) int { return cmp.Compare(a.Began, b.Began) })
	took := o.Holds[len(o.Holds)-1].Began - o.Holds[0].Began
	per := float64(commands) / float64(want)
	record.Add(t, record.Row{
		Check: 21, Name: fmt.Sprintf("%d waiters on one key from %d processes", processes*each, processes),
		Goal:   "≤ 6 Redis commands a hand-over; all served",
		Figure: fmt.Sprintf("%d of %d turns in %v, %.2f commands each (%v), %d refused", len(o.Holds), want, took.Round(time.Millisecond), per, record.Counts(byName), o.Refused),
		Met:    len(o.Holds) == want && o.Refused == 0 && per <= 6,
	})
}
