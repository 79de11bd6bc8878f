package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/bench/child"
	"github.com/lockmw/kit/bench/load"
	"github.com/lockmw/kit/bench/redisinfo"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
)

// A Bench has the Redis that is measured against.
type Bench struct {
	server *redistest.Server
	proxy  *faultproxy.Proxy
	client *redis.Client
	Redis  string // its version
}

// Open starts a redis-server. The caller closes it.
func Open(ctx context.Context) (*Bench, error) {
	server, err := redistest.Start()
	if err != nil {
		return nil, err
	}
	proxy, err := faultproxy.New(server.Addr())
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	b := &Bench{server: server, proxy: proxy, client: redis.NewClient(redistest.Options(server.Addr()))}
	if b.Redis, err = redisinfo.Version(ctx, b.client); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Close stops the redis-server.
func (b *Bench) Close() error {
	return errors.Join(b.client.Close(), b.proxy.Close(), b.server.Close())
}

// A Seen is what one measurement has shown.
type Seen struct {
	load.Result

	Redis     redisinfo.Usage
	Window    time.Duration
	RoundTrip time.Duration // of a PING the same way
}

// String returns what progress shows.
func (s Seen) String() string {
	f := FiguresOf([]Seen{s})
	if f.Heap > 0 { // held leases
		return fmt.Sprintf("%8.2f %% CPU, Redis %.2f %%", 100*f.ClientLoad, 100*f.RedisLoad)
	}
	if s.Waits.Count() == 0 && f.Turns > 0 { // what was recorded before
		return fmt.Sprintf("%8.2f µs of Redis, %d turns", f.RedisTime.Median, f.Turns)
	}
	return fmt.Sprintf("%8.0f turns/s  p99 %v", f.PerSecond.Median, f.P99.Round(time.Microsecond))
}

// Measure measures c for one of its libraries. A file for profile gets a CPU
// profile of its first process.
func (b *Bench) Measure(ctx context.Context, c Scenario, lib, profile string) (Seen, error) {
	seen := Seen{Window: c.Window}
	if err := b.client.FlushAll(ctx).Err(); err != nil {
		return seen, err
	}
	addr := b.server.Addr()
	if c.Proxied {
		addr = b.proxy.Addr()
		b.proxy.Delay(faultproxy.Both, c.Delay/2) // there and back
		defer b.proxy.Delay(faultproxy.Both, 0)
	}
	var err error
	if seen.RoundTrip, err = RoundTrip(ctx, addr); err != nil {
		return seen, err
	}
	group, err := child.Start(ctx, specs(c, lib, addr, profile))
	if err != nil {
		return seen, err
	}
	begin := time.Now().Add(c.Warm)
	window := load.Window{Begin: begin, End: begin.Add(c.Window)}
	seen.Result, err = group.Run(window, func() error {
		time.Sleep(time.Until(window.Begin))
		before, err := redisinfo.Read(ctx, b.client)
		if err != nil {
			return err
		}
		time.Sleep(time.Until(window.End))
		after, err := redisinfo.Read(ctx, b.client)
		seen.Redis = after.Since(before)
		return err
	})
	if err != nil {
		return seen, fmt.Errorf("%s, %s: %w", c.Name, lib, err)
	}
	return seen, nil
}

func specs(c Scenario, lib, addr, profile string) []load.Spec {
	list := make([]load.Spec, c.Processes)
	for i := range list {
		list[i] = c.Spec
		list[i].Addr, list[i].Part = addr, i
		if c.Doors {
			list[i].Door = lib
		} else {
			list[i].Library = lib
		}
	}
	list[0].Profile = profile
	return list
}

// RoundTrip returns the median time of a PING to the Redis at addr.
func RoundTrip(ctx context.Context, addr string) (time.Duration, error) {
	client := redis.NewClient(redistest.Options(addr))
	defer client.Close()
	took := make([]time.Duration, 21) // odd, so one is in the middle
	for i := range took {
		start := time.Now()
		if err := client.Ping(ctx).Err(); err != nil {
			return 0, err
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
