package checks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/record"
)

// lossyTTL is the TTL of these locks. A short run is one on a machine that is busy with other tests.
func lossyTTL() time.Duration { return time.Duration(record.Pick(3, 1)) * ttl }

// soon bounds what a lost reply may cost: a second until a question without an
// answer is given up, and what the next one takes on a busy machine. It is less
// than the TTL, so waiting for one's own lock to end would exceed it.
func soon() time.Duration { return lossyTTL() * 8 / 10 }

// gone bounds how long a lock stays that was given back.
func gone() time.Duration { return lossyTTL() / 2 }

// A reply that gets lost is one script's: it was carried out, and nobody is told.
// Then the connection either ends or hangs.
func TestLostReplies(t *testing.T) {
	besideOthers(t)
	for _, tc := range []struct {
		script, name string
		try          func(*lossy) error
		goal         string
	}{
		{"acquire", "lost acquire reply", (*lossy).loseAcquire, fmt.Sprintf("no self-deadlock (held within %v, less than the TTL), no false loss", soon())},
		{"acquire", "lost acquire reply of one who does not wait", (*lossy).loseTry, "no false loss"},
		{"release", "lost release reply", (*lossy).loseRelease, "release returns nil"},
		{"releaseto", "lost reply of a release that passes the lock on", (*lossy).losePass, "release returns nil, the next one has the lock"},
		{"renew", "lost renew reply", (*lossy).loseRenewal, "no false loss"},
	} {
		t.Run(tc.name, func(t *testing.T) { checkLostReplies(t, tc.script, tc.name, tc.try, tc.goal) })
	}
}

// lossy is a Locker that will lose one reply.
type lossy struct {
	proxy   *faultproxy.Proxy
	locker  *lockmw.Locker
	direct  *redis.Client
	key     string
	lose    func() // the next reply
	renewed *atomic.Int64
	took    *samples // until it had what it wanted
	freed   *samples // until nothing was left
}

func checkLostReplies(t *testing.T, script, name string, try func(*lossy) error, goal string) {
	times := record.Pick(10, 200)
	workers := record.Pick(4, 20)
	s := redistest.Shared(t)
	prefix := redistest.Prefix(t)
	match := faultproxy.MatchScript(redisstore.Scripts()[script])
	switch script {
	case "acquire":
		match = faultproxy.Any(match, faultproxy.Match("SET")) // a free lock is taken by SET
	case "release":
		match = faultproxy.Any(match, faultproxy.MatchScript(redisstore.Scripts()["give"])) // and given back by give.lua
	}
	direct := s.Client(t)
	workbench := make(chan *lossy, workers)
	var took [2]samples // with the connection closed, and hanging
	var freed samples
	for range min(times, workers) {
		x := &lossy{proxy: faultproxy.Start(t, s.Addr()), direct: direct, renewed: new(atomic.Int64), freed: &freed}
		x.locker = testenv.Open(t, redistest.NewClient(t, x.proxy.Addr()), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
			if e.Kind == lockmw.EventRenewed {
				x.renewed.Add(1)
			}
		}))
		workbench <- x
	}
	forEach(t, workers, 2*times, func(i int) error {
		x := <-workbench
		defer func() { workbench <- x }()
		x.key, x.took = fmt.Sprint(prefix, i), &took[i%2]
		how := "closed"
		var opts []faultproxy.DropOption
		if i%2 == 1 {
			how, opts = "open", append(opts, faultproxy.KeepOpen())
		}
		x.lose = func() { x.proxy.DropReplies(1, match, opts...) }
		before := x.proxy.Dropped()
		if err := try(x); err != nil {
			return fmt.Errorf("connection %s: %w", how, err)
		}
		if dropped := x.proxy.Dropped() - before; dropped != 1 {
			return fmt.Errorf("%d replies were lost, want 1", dropped)
		}
		return nil
	})
	record.Add(t, record.Row{
		Check: 9, Name: name,
		Goal: fmt.Sprintf("%d with the connection closed and %d with it hanging: %s; key free within %v", times, times, goal, gone()),
		Figure: fmt.Sprintf("%d; closed: %s; hanging: %s; free after %s at the latest",
			freed.count(), took[0].spread(), took[1].spread(), short(freed.quantile(1))),
		Met:  !t.Failed() && freed.count() == 2*times,
		Note: fmt.Sprintf("TTL %v; the reply to one script is swallowed", lossyTTL()),
	})
}

// loseAcquire: the lock is ours in Redis, and we do not know it.
func (x *lossy) loseAcquire() error {
	x.lose()
	began := time.Now()
	lease, err := acquire(x.locker, x.key, lockmw.Policy{TTL: lossyTTL(), Wait: 2 * lossyTTL()})
	took := time.Since(began)
	if err != nil {
		return err
	}
	x.took.add(took)
	if took > soon() {
		return fmt.Errorf("the lock was ours after %v, a TTL is %v", took, lossyTTL())
	}
	return x.end(lease)
}

// loseTry: the lock is ours in Redis, and we do not know it and want it no more.
func (x *lossy) loseTry() error {
	x.lose()
	began := time.Now()
	_, lease, err := x.locker.Acquire(context.Background(), x.key, lockmw.Policy{TTL: patience})
	x.took.add(time.Since(began))
	switch {
	case err == nil: // it has asked again
		return x.end(lease)
	case !errors.Is(err, lockmw.ErrUnavailable):
		return err
	}
	began = time.Now()
	err = comesFree(x.direct, x.key, gone())
	x.freed.add(time.Since(began))
	return err
}

// loseRelease: the lock is free in Redis, and we do not know it.
func (x *lossy) loseRelease() error {
	lease, err := acquire(x.locker, x.key, lockmw.Policy{TTL: lossyTTL()})
	if err != nil {
		return err
	}
	x.lose()
	began := time.Now()
	if err := x.end(lease); err != nil {
		return err
	}
	took := time.Since(began)
	x.took.add(took)
	if took > soon() {
		return fmt.Errorf("the release took %v", took)
	}
	return nil
}

// losePass: the lock is that of the next one of the same process, and nobody
// knows it.
func (x *lossy) losePass() error {
	p := lockmw.Policy{TTL: lossyTTL(), Wait: 2 * lossyTTL()}
	lease, err := acquire(x.locker, x.key, p)
	if err != nil {
		return err
	}
	next := make(chan *lockmw.Lease, 1)
	other := p
	other.TTL += lossyTTL() / 10 // with the same TTL it would have the lock without a command
	go func() {
		lease, err := acquire(x.locker, x.key, other)
		if err != nil {
			lease = nil
		}
		next <- lease
	}()
	if !comes(patience, func() bool {
		info, err := x.locker.Inspect(context.Background(), x.key)
		return err == nil && info.Waiting == 1
	}) {
		return errors.New("nobody waits")
	}
	x.lose()
	began := time.Now()
	if err := release(lease); err != nil {
		return err
	}
	lease = <-next
	took := time.Since(began)
	x.took.add(took)
	if lease == nil || took > soon() {
		return fmt.Errorf("the next one waited for %v, and has it: %t", took, lease != nil)
	}
	return x.end(lease)
}

// loseRenewal: the lock has its TTL anew in Redis, and we do not know it.
func (x *lossy) loseRenewal() error {
	lease, err := acquire(x.locker, x.key, lockmw.Policy{TTL: lossyTTL()})
	if err != nil {
		return err
	}
	before, dropped := x.renewed.Load(), x.proxy.Dropped()
	x.lose()
	if !comes(patience, func() bool { return x.proxy.Dropped() > dropped || lease.Context().Err() != nil }) {
		return errors.New("there was no renewal")
	}
	lost := time.Now()
	if !comes(patience, func() bool { return x.renewed.Load() > before || lease.Context().Err() != nil }) {
		return errors.New("there was no other renewal")
	}
	x.took.add(time.Since(lost))
	return x.end(lease)
}

// end releases a lease that must not have been lost, and waits until nothing is
// left of it.
func (x *lossy) end(lease *lockmw.Lease) error {
	cause, valid := context.Cause(lease.Context()), lease.Valid()
	released := release(lease) // not heard of on a busy machine: comesFree sees it
	if cause != nil || !valid || released != nil {
		return fmt.Errorf("a false loss: cause %w, valid %v, release %w", cause, valid, released)
	}
	began := time.Now()
	err := comesFree(x.direct, x.key, gone())
	x.freed.add(time.Since(began))
	return err
}
