package rivals

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/record"
	"github.com/lockmw/kit/proof/skew"
)

// server starts a Redis whose clock is off by so much.
func server(t *testing.T, off time.Duration) *redistest.Server {
	t.Helper()
	if off == 0 {
		return redistest.Real(t)
	}
	c, option := skew.New(t)
	if err := c.Set(off); err != nil {
		t.Fatal(err)
	}
	return redistest.Real(t, option)
}

func experiments() []experiment {
	commands := faultproxy.Match("SET", "EVAL", "EVALSHA")
	return []experiment{
		{name: "holder partitioned for two TTLs while another waits", try: func(b *bench, i int) outcome {
			o, _ := b.partition(fmt.Sprintf("partitioned%d", i))
			return o
		}},
		{name: "Redis's clock 1.5 s ahead of the client's", skew: 1500 * time.Millisecond, try: (*bench).outlasts},
		{name: "Redis's clock 1.5 s behind the client's", skew: -1500 * time.Millisecond, try: (*bench).outlasts},
		{name: "reply to the acquire lost", note: "wrong: not acquired, or only when the TTL had passed", try: func(b *bench, i int) (o outcome) {
			e, p, done, err := b.proxied()
			defer done()
			if err != nil {
				return outcome{err: err}
			}
			p.DropReplies(1, commands)
			began := clock.Now()
			hold, err := e.Acquire(context.Background(), b.ask(fmt.Sprintf("unheard%d", i), 3*b.ttl))
			o.wrong = err != nil || clock.Now()-began > b.ttl*9/10
			if err == nil {
				_ = hold.Release(context.Background())
			}
			return o
		}},
		{name: "reply to the release lost", note: "wrong: told that the lock was lost although it was given back", try: func(b *bench, i int) (o outcome) {
			e, p, done, err := b.proxied()
			defer done()
			if err != nil {
				return outcome{err: err}
			}
			key := fmt.Sprintf("released%d", i)
			hold, err := e.Acquire(context.Background(), b.ask(key, b.ttl))
			if err != nil {
				return outcome{err: err}
			}
			p.DropReplies(1, commands)
			err = hold.Release(context.Background())
			unheard := testing.Short() && errors.Is(err, lockmw.ErrUnavailable) // on a machine that is busy with other tests
			o.wrong = err != nil && !unheard
			free, err := b.free(key, b.ttl/2)
			o.stuck, o.err = !free, err
			return o
		}},
		{
			name: "acquire cancelled within 50 ms, in a slow network", note: "stuck: 1.5 s later nobody can have the lock",
			try: func(b *bench, i int) (o outcome) {
				e, p, done, err := b.proxied()
				defer done()
				if err != nil {
					return outcome{err: err}
				}
				// Connect first: what is to be seen is the question's fate.
				warm := fmt.Sprintf("warm%d", i)
				hold, err := e.Acquire(context.Background(), b.ask(warm, b.ttl))
				if err != nil {
					return outcome{err: err}
				}
				_ = hold.Release(context.Background())
				p.Delay(faultproxy.ToClient, 30*time.Millisecond)
				key := fmt.Sprintf("cancelled%d", i)
				ctx, cancel := context.WithTimeout(context.Background(), b.upTo(50*time.Millisecond))
				defer cancel()
				hold, err = e.Acquire(ctx, b.ask(key, b.ttl))
				if err == nil {
					_ = hold.Release(context.Background())
				}
				free, err := b.free(key, 1500*time.Millisecond)
				o.stuck, o.err = !free, err
				return o
			},
		},
	}
}

// outlasts holds a lock for longer than its TTL while another waits.
func (b *bench) outlasts(i int) outcome {
	e, done, err := b.open(b.redis.Addr())
	defer done()
	if err != nil {
		return outcome{err: err}
	}
	other, doneOther, err := b.open(b.redis.Addr())
	defer doneOther()
	if err != nil {
		return outcome{err: err}
	}
	key := fmt.Sprintf("outlasts%d", i)
	hold, err := e.Acquire(context.Background(), b.ask(key, b.ttl))
	if err != nil {
		return outcome{err: err}
	}
	entered := make(chan time.Duration, 1)
	go func() {
		defer close(entered)
		next, err := other.Acquire(context.Background(), b.ask(key, 4*b.ttl))
		if err == nil {
			entered <- clock.Now()
			_ = next.Release(context.Background())
		}
	}()
	select {
	case <-hold.Context().Done():
	case <-time.After(3 * b.ttl / 2):
	}
	ended := end(hold)
	_ = hold.Release(context.Background())
	at, ok := <-entered
	if ok && at < ended {
		return outcome{overlap: ended - at}
	}
	return outcome{}
}

// partition cuts a holder off while another waits.
func (b *bench) partition(key string) (outcome, record.Timeline) {
	line := record.Timeline{Engine: b.engine, Key: key, TTL: b.ttl, From: clock.Now()}
	fail := func(err error) (outcome, record.Timeline) { return outcome{err: err}, line }
	e, p, done, err := b.proxied()
	defer done()
	if err != nil {
		return fail(err)
	}
	other, doneOther, err := b.open(b.redis.Addr())
	defer doneOther()
	if err != nil {
		return fail(err)
	}
	first := history.Hold{Key: key, Kind: history.Mutex, Worker: "partitioned", ID: 1, Asked: clock.Now(), How: history.Lost}
	hold, err := e.Acquire(context.Background(), b.ask(key, b.ttl))
	if err != nil {
		return fail(err)
	}
	first.Began = clock.Now()
	second := history.Hold{Key: key, Kind: history.Mutex, Worker: "waiting", ID: 2, Asked: clock.Now(), How: history.Released}
	entered := make(chan bool, 1)
	go func() {
		next, err := other.Acquire(context.Background(), b.ask(key, 6*b.ttl))
		if err == nil {
			second.Began = clock.Now()
			time.Sleep(b.ttl / 2)
			second.Ended = clock.Now()
			_ = next.Release(context.Background())
		}
		entered <- err == nil
	}()
	time.Sleep(b.ttl/4 + b.upTo(b.ttl/2))
	cut := clock.Now()
	p.BlackHole(faultproxy.Both)
	select {
	case <-hold.Context().Done():
	case <-time.After(2 * b.ttl):
	}
	first.Ended = end(hold)
	first.Freed = first.Ended
	time.Sleep(2*b.ttl - min(clock.Now()-cut, 2*b.ttl))
	p.Heal()
	p.Cut()
	line.Faults = []record.Fault{{Label: "partition", Worker: first.Worker, From: cut, To: clock.Now()}}
	_ = hold.Release(context.Background()) // it is lost
	line.Holds = []history.Hold{first}
	if !<-entered {
		return outcome{stuck: true}, line
	}
	line.Holds = append(line.Holds, second)
	line.To = clock.Now()
	if second.Began < first.Ended {
		return outcome{overlap: min(first.Ended, second.Ended) - second.Began}, line
	}
	return outcome{}, line
}

// timeline saves one partition of an engine as it was.
func timeline(t *testing.T, engine string) error {
	t.Helper()
	b := &bench{engine: engine, redis: server(t, 0), ttl: ttl(), rnd: rand.New(rand.NewPCG(1, 0))}
	o, line := b.partition("timeline")
	record.Save(t, "timeline-"+engine, line)
	return o.err
}
