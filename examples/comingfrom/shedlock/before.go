package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/examples/comingfrom/internal/standin"
)

// before writes the report of a day, once in all processes. In Java it is
//
//	@Bean
//	public LockProvider lockProvider(RedisConnectionFactory connections) {
//		return new RedisLockProvider.Builder(connections).safeUpdate(true).build();
//	}
//
//	@Scheduled(cron = "0 0 3 * * *")
//	@SchedulerLock(name = "{report}", lockAtMostFor = "10m", lockAtLeastFor = "1m")
//	public void report() { … }
//
// The braces in the name, which was "report", and safeUpdate are all that has to change while both versions
// run. The key in Redis is "job-lock:default:{report}". Here, as tests want many reports, the name also has
// the day.
type before struct {
	locks   *standin.ShedLock
	atMost  time.Duration
	atLeast time.Duration
	write   func(ctx context.Context, day string) error
}

func newBefore(client *redis.Client, write func(ctx context.Context, day string) error) *before {
	return &before{
		locks:   &standin.ShedLock{Client: client, KeyPrefix: "job-lock", Environment: "default", SafeUpdate: true},
		atMost:  10 * time.Minute,
		atLeast: time.Minute,
		write:   write,
	}
}

// Report writes the report of a day, unless another process does or has just done it.
func (b *before) Report(ctx context.Context, day string) (written bool, err error) {
	return b.locks.Execute(ctx, "{report:"+day+"}", b.atMost, b.atLeast, func(ctx context.Context) error {
		return b.write(ctx, day)
	})
}
