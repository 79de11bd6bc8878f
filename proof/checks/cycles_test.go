package checks

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/stalls"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// Nothing is kept of a key whose lock was given back, here or in Redis.
func TestKeysLeaveNoMemory(t *testing.T) {
	const workers, mib = 64, 1 << 20
	n := record.Pick(10_000, 1_000_000)
	s := redistest.Real(t)
	raw := s.Client(t)
	stood, started := stalls.During(t), time.Now() // of Redis and of the machine
	t.Cleanup(redistest.Pulse(stood, pulse, redistest.Silences, s.Client(t)))
	l := testenv.Open(t, s.Client(t, func(o *redis.Options) { o.PoolSize = workers }))
	var unanswered atomic.Int64
	turn := func(i int) error {
		_, lease, err := l.Acquire(context.Background(), "a key like many: "+strconv.Itoa(i), lockmw.Policy{TTL: ttl, Wait: patience})
		if err == nil {
			err = lease.Release(context.Background())
		}
		if errors.Is(err, lockmw.ErrUnavailable) { // it is released in the background
			unanswered.Add(1)
			return nil
		}
		return err
	}
	forEach(t, workers, 2000, turn)
	keysEnd(t, raw)
	used, before := memory(t, raw), heap()
	var most int64
	stop := meanwhile(50*time.Millisecond, func() { most = max(most, raw.DBSize(context.Background()).Val()) })
	defer stop()
	began := time.Now()
	forEach(t, workers, n, turn)
	took := time.Since(began)
	stop()
	silence := stood.Longest(started, time.Now())
	peak := usedPeak(t, raw)
	began = time.Now()
	keysEnd(t, raw)
	ended := time.Since(began)
	grown, inRedis := heap()-before, memory(t, raw)-used
	record.Add(t, record.Row{
		Check: 17, Name: fmt.Sprintf("%d distinct keys acquired and released", n),
		Goal: "heap grows by 5 MiB at most, Redis by 1 MiB at most",
		Figure: fmt.Sprintf("heap %+.2f MiB, Redis %+.2f MiB; at most %d keys at a time",
			float64(grown)/mib, float64(inRedis)/mib, most),
		// A lock store that stood still for so long is no fault of the Locker.
		Met: grown <= 5*mib && inRedis <= mib && (unanswered.Load() == 0 || silence > 300*time.Millisecond) && !t.Failed(),
		Note: fmt.Sprintf("%d goroutines, %.0f a second; heap after runtime.GC; Redis: used_memory once no key was left, %v after the last release; "+
			"its peak was %+.2f MiB, connections' buffers included; %d calls without an answer, the longest silence of Redis or the machine %v", workers, float64(n)/took.Seconds(), ended.Round(time.Millisecond), float64(peak-used)/mib,
			unanswered.Load(), silence.Round(time.Millisecond)),
	})
}

// keysEnd waits until Redis is empty: a fence may outlive its lock by a second.
func keysEnd(t *testing.T, raw *redis.Client) {
	t.Helper()
	await.Within(t, patience, "no key is left", func() bool { return raw.DBSize(context.Background()).Val() == 0 })
}

func memory(t *testing.T, raw *redis.Client) int64 {
	t.Helper()
	return memoryField(t, raw, "used_memory:")
}
func usedPeak(t *testing.T, raw *redis.Client) int64 {
	t.Helper()
	return memoryField(t, raw, "used_memory_peak:")
}

func memoryField(t *testing.T, raw *redis.Client, name string) int64 {
	t.Helper()
	for line := range strings.Lines(raw.Info(context.Background(), "memory").Val()) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name); ok {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("Redis does not tell its %s", name)
	return 0
}

// What was started once is enough for ever.
func TestCyclesLeaveNoGoroutineOrConnection(t *testing.T) {
	const workers, pool = 8, 8
	n := record.Pick(4000, 100_000)
	s := redistest.Real(t)
	raw := s.Client(t)
	l := testenv.Open(t, s.Client(t, func(o *redis.Options) { o.PoolSize = pool }))
	ctx := context.Background()
	var unanswered atomic.Int64
	turn := func(i int) error {
		// Some keys are free, some are shared by all, so that there are waiters.
		policy := lockmw.Policy{TTL: time.Duration(record.Pick(5, 1)) * ttl, Wait: patience}
		err := l.WithLock(ctx, strconv.Itoa(i%(2*workers)), policy, func(context.Context) error { return nil })
		if silent(err) {
			unanswered.Add(1)
			return nil
		}
		return err
	}
	count := func() (goroutines, connections int) {
		return runtime.NumGoroutine(), strings.Count(raw.ClientList(ctx).Val(), "\n")
	}
	// Warm: all connections (the first turns meet in a pause), the subscription, and
	// one that renews.
	if err := raw.Do(ctx, "CLIENT", "PAUSE", 200).Err(); err != nil {
		t.Fatal(err)
	}
	forEach(t, workers, max(n/10, 1000), turn)
	held := make([]*lockmw.Lease, workers)
	forEach(t, workers, workers, func(i int) (err error) {
		held[i], err = acquire(l, fmt.Sprint("held ", i), lockmw.Policy{TTL: ttl})
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	for _, lease := range held {
		first := lease.ValidUntil()
		await.Within(t, patience, "it was renewed", func() bool { return lease.ValidUntil().After(first) })
		if err := release(lease); err != nil {
			t.Error(err)
		}
	}
	atRest := func() (goroutines, connections int) { // the most of a while: then some goroutines read from connections at rest
		comes(300*time.Millisecond, func() bool {
			g, c := count()
			goroutines, connections = max(goroutines, g), max(connections, c)
			return false
		})
		return goroutines, connections
	}
	goroutines, connections := atRest()
	forEach(t, workers, n, turn)
	var more, moreConns int
	comes(3*time.Second, func() bool { // what ends now may take a moment
		now, conns := atRest()
		more, moreConns = now-goroutines, conns-connections
		return max(more, -more) <= 2 && moreConns <= 0
	})
	record.Add(t, record.Row{
		Check: 23, Name: fmt.Sprintf("%d cycles", n),
		Goal:   "goroutines +-2, connections +0 at most",
		Figure: fmt.Sprintf("goroutines %d %+d, connections %d %+d", goroutines, more, connections, moreConns),
		Met:    max(more, -more) <= 2 && moreConns <= 0 && unanswered.Load() < int64(n/10) && !t.Failed(),
		Note:   fmt.Sprintf("%d goroutines on %d keys, a pool of %d; compared with the end of the warm-up", workers, 2*workers, pool),
	})
}
