package answers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// A way is one way to do something.
type way struct {
	name string

	// open returns what has it done for the n-th time by a caller, over connections of its own to the Redis at addr, and what closes them.
	open func(ctx context.Context, addr string) (turn func(caller, n int) error, end func() error, err error)
}

// The ways for which there are goals.
const (
	replay = "lockmw.Do, which gives the answer again"
	making = "lockmw.Do, which makes the answer"
)

// replays are ways to have an answer that is there. Each caller has a key of its own, since those of one key share a command.
func replays() []way {
	return []way{
		{"GET, over connections such as a Locker's", getsByWire},
		{replay, givesAgain},
		{"GET, by go-redis", getsByGoRedis},
	}
}

// firsts are ways to do what is to be done once. Each turn has a new key, and there is nothing to do.
func firsts() []way {
	return []way{
		{"a lock, taken and given back", locks},
		{making, makes(lockmw.RunAgain)},
		{"the same with Uncertain", makes(lockmw.Uncertain)},
	}
}

const (
	ttl      = 30 * time.Second // of each lock
	wait     = 10 * time.Second
	retain   = time.Minute
	mostWait = time.Second // for a reply

	answer = "a receipt of some sixty bytes, as the answer of a payment may be"
	most   = 1000 // callers for whom there is a value
)

// openLocker opens a Locker with a client of its own.
func openLocker(addr string) (l *lockmw.Locker, end func() error, err error) {
	client := redis.NewClient(redistest.Options(addr))
	if l, err = library.NewLockmw(client); err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return l, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return errors.Join(l.Close(ctx), client.Close())
	}, nil
}

func locks(_ context.Context, addr string) (func(int, int) error, func() error, error) {
	l, end, err := openLocker(addr)
	if err != nil {
		return nil, nil, err
	}
	p := lockmw.Policy{TTL: ttl, Wait: wait}
	return func(caller, n int) error {
		ctx := context.Background()
		_, lease, err := l.Acquire(ctx, keyOf(caller, n), p)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}, end, nil
}

func makes(crash lockmw.Crash) func(context.Context, string) (func(int, int) error, func() error, error) {
	return func(_ context.Context, addr string) (func(int, int) error, func() error, error) {
		l, end, err := openLocker(addr)
		if err != nil {
			return nil, nil, err
		}
		f := lockmw.Flight{Policy: lockmw.Policy{TTL: ttl, Wait: wait}, Retain: retain, Crash: crash}
		return func(caller, n int) error {
			_, shared, err := lockmw.Do(context.Background(), l, keyOf(caller, n), f, work)
			if err == nil && shared {
				err = errors.New("the key was asked for before")
			}
			return err
		}, end, nil
	}
}

func work(context.Context) (string, error) { return answer, nil }

func givesAgain(_ context.Context, addr string) (func(int, int) error, func() error, error) {
	l, end, err := openLocker(addr)
	if err != nil {
		return nil, nil, err
	}
	f := lockmw.Flight{Policy: lockmw.Policy{TTL: ttl, Wait: wait}, Retain: retain}
	return func(caller, n int) error {
		got, shared, err := lockmw.Do(context.Background(), l, keyOf(caller, 0), f, work)
		if err == nil && (got != answer || shared != (n > 0)) {
			err = fmt.Errorf("it has %q, and another's: %v", got, shared)
		}
		return err
	}, end, nil
}

func keyOf(caller, n int) string { return strconv.Itoa(caller) + "-" + strconv.Itoa(n) }

// valueOf is where a caller's GET finds what a kept answer has as well: when it was made, until when it is for everybody, and for which request.
func valueOf(caller int) string { return "lock:{" + keyOf(caller, 0) + "}:answer" }

var value = "1790000000000000 1790000060000000 " + strings.Repeat("f", 43) + ` 1 json ` + "\n" + strconv.Quote(answer)

// setValues sets what is found by GET.
func setValues(ctx context.Context, client *redis.Client) error {
	pipe := client.Pipeline()
	for caller := range most {
		pipe.Set(ctx, valueOf(caller), value, 0)
	}
	_, err := pipe.Exec(ctx)
	return err
}

func getsByGoRedis(ctx context.Context, addr string) (func(int, int) error, func() error, error) {
	client := redis.NewClient(redistest.Options(addr))
	if err := setValues(ctx, client); err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return func(caller, _ int) error {
		got, err := client.Get(context.Background(), valueOf(caller)).Result()
		if err == nil && got != value {
			err = fmt.Errorf("GET = %q", got)
		}
		return err
	}, client.Close, nil
}

// getsByWire sends GET over the connections that a Locker sends its commands over: a few, which all callers share.
func getsByWire(ctx context.Context, addr string) (func(int, int) error, func() error, error) {
	client := redis.NewClient(redistest.Options(addr))
	if err := errors.Join(setValues(ctx, client), client.Close()); err != nil {
		return nil, nil, err
	}
	const size = 8 // as a Locker has
	pool := wire.New(wire.Options{Size: size, Silence: time.Second, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}})
	calls := make([]wire.Call, most) // each is its caller's
	return func(caller, _ int) error {
		c := &calls[caller]
		c.Commands = wire.AppendString(wire.AppendString(wire.AppendCommand(c.Commands[:0], 2), "GET"), valueOf(caller))
		c.Replies, c.Deadline = 1, time.Now().Add(mostWait)
		if _, err := pool.Do(context.Background(), c); err != nil {
			return err
		}
		got, _, err := wire.Parse(c.Reply)
		if err == nil && got != value {
			err = fmt.Errorf("GET = %q", got)
		}
		return err
	}, func() error { pool.Close(); return nil }, nil
}
