package testenv

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// RedisKey returns where Redis keeps the lock of a key, given with its prefix.
func (r *Env) RedisKey(key string) string { return r.Namespace + ":{" + key + "}" }

// Token returns the token that holds the lock of a key, or "".
func (r *Env) Token(key string) string {
	r.Helper()
	token, err := r.Client.Get(context.Background(), r.RedisKey(key)).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it bare
		r.Fatal(err)
	}
	return token
}

// Left returns the Redis keys of all locks that are held or waited for. The
// fence of a lock, which may outlive it for a moment, is none of them.
func (r *Env) Left() []string {
	r.Helper()
	keys, err := r.Client.Keys(context.Background(), "*").Result()
	if err != nil {
		r.Fatal(err)
	}
	return slices.DeleteFunc(keys, func(key string) bool {
		return !strings.HasPrefix(key, r.Namespace) || strings.HasSuffix(key, ":fence")
	})
}

// WantFree fails the test if a lock is held or waited for.
func (r *Env) WantFree() {
	r.Helper()
	if left := r.Left(); len(left) > 0 {
		r.Errorf("left in Redis: %q", left)
	}
}

// WantUnasked fails the test if a Locker has sent anything to Redis.
func (r *Env) WantUnasked() {
	r.Helper()
	if n := r.sent.Load(); n > 0 {
		r.Errorf("Redis was asked %d times, want never", n)
	}
}

// WantRuns fails the test unless handlers ran so often.
func (r *Env) WantRuns(want int) {
	r.Helper()
	if got := int(r.Ran.Load()); got != want {
		r.Errorf("handlers ran %d times, want %d", got, want)
	}
}
