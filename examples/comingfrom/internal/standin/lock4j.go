package standin

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// ErrLockFailure is the LockFailureException of lock4j, which DefaultLockFailureStrategy throws.
var ErrLockFailure = errors.New("request failed, please retry it")

// Lock4j sends what lock4j 2.2.7 (commit 381551f) sends with RedisTemplate: RedisTemplateLockExecutor.java, LockTemplate.java
// and, for the name of the key, LockOpsInterceptor.java.
//
//	lock:    a script with SET <Prefix>:<name>#<keys> <uuid> NX PX <expire>, again after each pause of 100 ms
//	         until acquireTimeout is over
//	unlock:  a script that deletes the key if it has that value
//
// The interceptor that Spring Boot configures at that commit unlocks where autoRelease is false, and not where
// it is true (pull request 28 there). The stand-in unlocks, as the annotation promises.
type Lock4j struct {
	Client *redis.Client
	Prefix string // "lock4j" by default, there
}

var (
	lock4jLock   = redis.NewScript(`return redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2])`)
	lock4jUnlock = redis.NewScript(`if redis.call('get',KEYS[1]) == ARGV[1] then return tostring(redis.call('del', KEYS[1])==1) else return 'false' end`)
)

// Invoke runs a method under the lock of @Lock4j(name, keys, expire, acquireTimeout). If others hold the lock until
// acquireTimeout is over, the method does not run, and the error is ErrLockFailure.
func (l *Lock4j) Invoke(ctx context.Context, name string, keys []string, expire, acquireTimeout time.Duration, method func(ctx context.Context) error) error {
	key := []string{l.Prefix + ":" + name + "#" + strings.Join(keys, ".")}
	value := strings.ReplaceAll(uuid.NewString(), "-", "")
	start := time.Now()
	for {
		err := lock4jLock.Run(ctx, l.Client, key, value, expire.Milliseconds()).Err()
		if err == nil {
			break
		}
		if !errors.Is(err, redis.Nil) {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil { // also after the last attempt
			return err
		}
		if time.Since(start) >= acquireTimeout {
			return ErrLockFailure
		}
	}
	err := method(ctx)
	if unlockErr := lock4jUnlock.Run(ctx, l.Client, key, value).Err(); err == nil {
		err = unlockErr
	}
	return err
}
