package standin

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// ShedLock sends what InternalRedisLockProvider.java of ShedLock 7.9.0 (commit 2495b1406) sends, through each of
// its providers for Redis:
//
//	lock:    SET <KeyPrefix>:<Environment>:<name> ADDED:<time>@<host>:<uuid> NX PX <lockAtMostFor>
//	unlock:  DEL <key>, or with SafeUpdate a script that deletes the key if it has that value
//	         before lockAtLeastFor is over: SET <key> <value> XX PX <the rest>, or with SafeUpdate
//	         a script that sets the TTL if the key has that value
type ShedLock struct {
	Client      *redis.Client
	KeyPrefix   string // "job-lock" by default, there
	Environment string // "default" by default, there
	SafeUpdate  bool   // false by default, there
}

var (
	shedDelete = redis.NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`)
	shedUpdate = redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`)
)

// Execute runs task under the lock of a name, unless others hold it: then ran is false. So does the
// interceptor of @SchedulerLock. The lock is there for atMost, however long the task takes, and for atLeast,
// however soon the task is done.
func (s *ShedLock) Execute(ctx context.Context, name string, atMost, atLeast time.Duration, task func(ctx context.Context) error) (ran bool, err error) {
	key := fmt.Sprintf("%s:%s:%s", s.KeyPrefix, s.Environment, name)
	host, err := os.Hostname()
	if err != nil {
		return false, err
	}
	now := time.Now()
	value := fmt.Sprintf("ADDED:%s@%s:%s", now.UTC().Format("2006-01-02T15:04:05.000Z"), host, uuid.NewString())
	locked, err := s.Client.SetNX(ctx, key, value, atMost).Result()
	if !locked || err != nil {
		return false, err
	}
	err = task(ctx)
	if unlockErr := s.unlock(ctx, key, value, time.Until(now.Add(atLeast))); err == nil {
		err = unlockErr
	}
	return true, err
}

// unlock deletes the key, or has it last for the rest of lockAtLeastFor.
func (s *ShedLock) unlock(ctx context.Context, key, value string, rest time.Duration) error {
	switch rest = rest.Truncate(time.Millisecond); {
	case rest <= 0 && s.SafeUpdate:
		return shedDelete.Run(ctx, s.Client, []string{key}, value).Err()
	case rest <= 0:
		return s.Client.Del(ctx, key).Err()
	case s.SafeUpdate:
		return shedUpdate.Run(ctx, s.Client, []string{key}, value, rest.Milliseconds()).Err()
	default:
		return s.Client.SetXX(ctx, key, value, rest).Err()
	}
}
