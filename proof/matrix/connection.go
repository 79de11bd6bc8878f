package matrix

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/admin"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/history"
)

// connection lists what can happen to one of the connections that a process shares
// among its callers, or to the bytes on them.
func connection() []Kind {
	// one strikes the connection that a worker uses most.
	one := func(strike func(l *Lane, c *faultproxy.Conn)) func(*Lane) []string {
		return func(l *Lane) []string {
			p := l.proxies[l.place()]
			if c := p.Busiest(); c != nil {
				strike(l, c)
			}
			p.Heal()
			return nil
		}
	}
	hangs := func(dir faultproxy.Direction, share float64) func(*Lane) []string {
		return one(func(l *Lane, c *faultproxy.Conn) {
			c.Stall(dir)
			l.last(l.part(share))
		})
	}
	inBytes := func(l *Lane) []string {
		p := l.proxies[l.place()]
		p.InBytes(faultproxy.Both, true)
		l.last(l.part(0.7))
		p.InBytes(faultproxy.Both, false)
		return nil
	}
	var cuts atomic.Int64
	cut := func(opts ...faultproxy.DropOption) func(*Lane) []string {
		// The nth reply that is cut, counted over all lanes and both kinds of this list, loses what stands behind its
		// first n modulo length bytes.
		after := faultproxy.Partly(func(length int) int { return int(cuts.Add(1)) % length })
		return func(l *Lane) []string {
			l.drop(5, locking(), append(opts, after)...)
			return nil
		}
	}
	return []Kind{
		{Name: "one connection: replies hang for a moment", Do: hangs(faultproxy.ToClient, 0.05)},
		{Name: "one connection: replies hang for longer than TTL/3", Do: hangs(faultproxy.ToClient, 0.6)},
		{Name: "one connection: requests hang for a moment", Do: hangs(faultproxy.ToServer, 0.05)},
		{Name: "one connection: requests hang for longer than TTL/3", Do: hangs(faultproxy.ToServer, 0.6)},
		{Name: "one connection: requests hang for longer than the TTL, and arrive", Do: hangs(faultproxy.ToServer, 1.5)},
		{Name: "one connection loses its replies from now on", Do: one(func(l *Lane, c *faultproxy.Conn) {
			c.BlackHole(faultproxy.ToClient)
			l.last(l.part(0.6))
		})},
		{Name: "a byte at a time", Do: inBytes},
		{Name: "replies cut in their middle", Do: cut()},
		{Name: "replies hang in their middle", Do: cut(faultproxy.KeepOpen())},
		{Name: "the server stops reading", Needs: narrow, Do: func(l *Lane) []string {
			p := l.proxies[l.place()]
			p.StopReading()
			l.last(l.part(0.6))
			p.Heal()
			return nil
		}},
		{Name: "another client asks between SET, EXISTS and TIME", Do: func(l *Lane) []string {
			p := l.proxies[l.place()]
			l.rival.begin()
			l.between(p, 0.7, func(key string) { l.rival.asks(l, key) })
			l.rival.end()
			return nil
		}},
	}
}

// between has do run between a SET and its EXISTS, and between that and its TIME, for
// a share of the TTL, and at least until it has run.
func (l *Lane) between(p *faultproxy.Proxy, share float64, do func(key string)) {
	ran := make(chan struct{}, 1)
	p.Between(faultproxy.Match("EXISTS", "TIME"), func(earlier, request []byte) {
		if key := named(earlier, request); key != "" {
			do(key)
			select {
			case ran <- struct{}{}:
			default:
			}
		}
	})
	defer p.Between(nil, nil)
	l.last(l.part(share))
	select {
	case <-ran:
	case <-time.After(l.patience()):
		l.tb.Errorf("%s: no free lock was asked for", l.Name)
	}
}

// locking matches what a worker sends to take, renew and give back a lock of one key, but for the GET that goes with TIME.
func locking() func([]byte) bool {
	text := redisstore.Scripts()
	return faultproxy.Any(faultproxy.Match("SET", "EXISTS", "TIME"),
		faultproxy.MatchScript(text["acquire"], text["give"], text["release"], text["releaseto"], text["renew"]))
}

func redisKey(key string) string { return "lock:{" + key + "}" }

// named returns the lock that an EXISTS is about, or the EXISTS before a TIME; "" if
// there is none.
func named(earlier, request []byte) string {
	for _, r := range [][]byte{request, earlier} {
		if args := faultproxy.Args(r); len(args) > 1 && strings.EqualFold(string(args[0]), "EXISTS") {
			_, rest, _ := strings.Cut(string(args[1]), "{")
			key, _, _ := strings.Cut(rest, "}")
			return key
		}
	}
	return ""
}

// A rival is another client of a lane's Redis, past the proxies.
type rival struct {
	locks *lockmw.Locker
	turn  atomic.Int64
	busy  sync.WaitGroup

	mu    sync.Mutex
	rests bool // it begins nothing
	holds []history.Hold
}

func newRival(tb testing.TB, s *redistest.Server) *rival {
	tb.Helper()
	locks, err := lockmw.New(s.Client(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = locks.Close(ctx) // it holds nothing
	})
	return &rival{locks: locks}
}

func (r *rival) begin() { r.rest(false) }

// end waits until it wants nothing any more.
func (r *rival) end() {
	r.rest(true)
	r.busy.Wait()
}

func (r *rival) rest(rests bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rests = rests
}

// enters reports whether r may do something. It is followed by busy.Done.
func (r *rival) enters() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.rests {
		r.busy.Add(1)
	}
	return !r.rests
}

// asks wants a lock that somebody is taking just now: as one of us who does not wait, as
// one who does, or as a foreign program.
func (r *rival) asks(l *Lane, key string) {
	if !r.enters() {
		return
	}
	defer r.busy.Done()
	switch n := r.turn.Add(1); n % 3 {
	case 0:
		r.foreign(l, key, l.TTL/40)
	case 1:
		r.turnOn(l, key, 0)
	case 2:
		waits := make(chan struct{})
		r.busy.Go(func() { defer close(waits); r.turnOn(l, key, l.TTL/2) })
		for until := time.Now().Add(50 * time.Millisecond); time.Now().Before(until); time.Sleep(time.Millisecond) {
			if n, err := l.admin.Exists(context.Background(), redisKey(key)+":queue").Result(); n > 0 || err != nil {
				return
			}
			select {
			case <-waits: // it had the lock at once
				return
			default:
			}
		}
	}
}

// foreign has a program without our library, one that takes locks by SET NX, take a lock if it is free. It
// notes the time for which the lock was surely that program's, and reports whether there is such a time, and until when it
// may have had the lock.
func (r *rival) foreign(l *Lane, key string, ttl time.Duration) (freed time.Duration, noted bool) {
	const unsure = 5 * time.Millisecond // between Redis's clock and ours, and for a key to go when its time is over
	h := history.Hold{Key: key, Kind: history.Mutex, Worker: l.Name + ".foreign", Asked: clock.Now(), How: history.Released}
	var taken bool
	l.check(admin.Retry(func() (err error) {
		taken, err = l.admin.SetNX(context.Background(), redisKey(key), "foreign", ttl).Result()
		return err
	}))
	h.Began = clock.Now()
	h.Ended, h.Freed = h.Asked+ttl-unsure, h.Began+ttl+unsure
	if !taken || h.Began >= h.Ended { // the reply came too late to say so
		return h.Freed, false
	}
	r.note(h)
	return h.Freed, true
}

// turnOn takes a lock, and notes that it had it. On a machine that has much else to do even a Redis without a fault may not answer in time.
func (r *rival) turnOn(l *Lane, key string, wait time.Duration) {
	ctx := context.Background()
	h := history.Hold{Key: key, Kind: history.Mutex, Worker: l.Name + ".rival", Asked: clock.Now(), How: history.Released}
	_, lease, err := r.locks.Acquire(ctx, key, lockmw.Policy{TTL: l.TTL, Wait: wait})
	if err != nil {
		if !errors.Is(err, lockmw.ErrNotAcquired) && !errors.Is(err, lockmw.ErrUnavailable) {
			l.check(err)
		}
		return
	}
	h.Began, h.Fence = clock.Now(), lease.Fence()
	time.Sleep(time.Millisecond)
	h.Ended = min(clock.Now(), clock.Of(lease.ValidUntil()))
	switch err := lease.Release(ctx); {
	case err == nil:
		h.Freed = clock.Now()
	case errors.Is(err, lockmw.ErrUnavailable), errors.Is(err, lockmw.ErrLost):
		h.How, h.Freed = history.Unsure, h.Ended+2*l.TTL+2*time.Second // Redis must have forgotten it by then
	default:
		l.check(err)
		return
	}
	r.note(h)
}

func (r *rival) note(h history.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h.ID = len(r.holds) + 1
	r.holds = append(r.holds, h)
}
