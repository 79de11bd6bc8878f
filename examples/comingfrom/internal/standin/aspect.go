package standin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// A DistributedLock is an annotation @DistributedLock(prefix, value, keyTimeout, retryCount, retryInterval), and the
// aspect behind it. There is no one library of that name: programs have an aspect of their own, which they
// have from each other. This one does what such aspects have in common:
//
//	lock:    SET <key> <uuid> NX PX <keyTimeout>, and up to retryCount times again after a pause
//	unlock:  a script that deletes the key if it has that value
//
// When the last attempt fails, the method does not run, and its caller is not told.
type DistributedLock struct {
	Prefix        string
	KeyTimeout    time.Duration
	RetryCount    int           // 0: for ever
	RetryInterval time.Duration // each pause is a random time from one to two of these
	Format        string        // what the aspect makes of the prefix and the value: "%s" is that alone
}

var aspectUnlock = redis.NewScript(`if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end`)

// Around runs a method under the lock of a value, or does not run it.
func (d DistributedLock) Around(ctx context.Context, client *redis.Client, value string, method func(ctx context.Context) error) error {
	key, token := fmt.Sprintf(d.Format, d.Prefix+value), uuid.NewString()
	for tries := 0; ; tries++ {
		locked, err := client.SetNX(ctx, key, token, d.KeyTimeout).Result()
		if err != nil {
			return err
		}
		if locked {
			break
		}
		if d.RetryCount > 0 && tries == d.RetryCount {
			return nil
		}
		if err := pause(ctx, d.RetryInterval+rand.N(d.RetryInterval)); err != nil {
			return err
		}
	}
	err := method(ctx)
	return errors.Join(err, aspectUnlock.Run(ctx, client, []string{key}, token).Err())
}
