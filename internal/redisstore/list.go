package redisstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// Names and Begun, which walk through all keys of the servers for a list of the locks, or of the work that was begun.

// scanCount is how many keys a server looks at in one step of a list, whatever they are:
// that takes it well under a millisecond.
const scanCount = 1000

// Names implements store.Store.
func (s *Store) Names(ctx context.Context, prefix string, yield func(names []string) bool) error {
	return s.walk(ctx, prefix, keyEnds[0], func(_ *redis.Client, names []string) (bool, error) { return yield(names), nil })
}

// Begun implements store.Store.
func (s *Store) Begun(ctx context.Context, prefix string, yield func(names []string) bool) error {
	return s.walk(ctx, prefix, recordEnd, func(master *redis.Client, names []string) (bool, error) {
		kept, err := s.kept(ctx, master, names)
		if err != nil {
			return false, err
		}
		var begun []string
		for i, name := range names {
			if kept[i] < 0 {
				begun = append(begun, name)
			}
		}
		return len(begun) == 0 || yield(begun), nil
	})
}

// kept returns what kept.lua says of the records of some locks that a server has. It says of one that the server
// does not tell of just now, as while a Cluster moves it, that it is an intent: Inspect finds out.
func (s *Store) kept(ctx context.Context, master *redis.Client, names []string) ([]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	replies, _ := master.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, name := range names {
			key := []string{redisKey{s.ns, name, recordEnd}.String()}
			if i == 0 {
				pipe.Eval(ctx, keptScript.text, key) // so that the server knows the script
			} else {
				pipe.EvalSha(ctx, keptScript.sha, key)
			}
		}
		return nil
	})
	kept := make([]int64, len(names))
	for i, reply := range replies { // each has its error, also one of the connection
		var err error
		if kept[i], err = reply.(*redis.Cmd).Int64(); err == nil { //nolint:forcetypeassert // Eval and EvalSha make no others
			continue
		}
		if e := s.failed(err); e.Permanent || e.Evidence != store.Answered {
			return nil, e
		}
		kept[i] = -1
	}
	return kept, nil
}

// walk calls visit with the names of the locks beside which a string lies whose key has that end, and that begin with
// prefix, step by step, until it wants no more. It asks the masters of a Cluster one after the other, and tells of one
// that does not answer when all others have.
func (s *Store) walk(ctx context.Context, prefix, end string, visit func(master *redis.Client, names []string) (more bool, err error)) error {
	if !s.cluster && !s.suits.Load() { // a node of a Cluster, taken for a single server, has a part of the locks only, or none
		if err := s.look(ctx); err != nil {
			return err
		}
	}
	masters, err := s.masters(ctx)
	if err != nil {
		return s.failed(err)
	}
	var failed error // a master that is away does not hide the locks of others
	for _, master := range masters {
		more, err := s.walkAt(ctx, master, prefix, end, visit)
		switch {
		case err != nil && ctx.Err() != nil:
			return s.failed(err)
		case err != nil:
			if failed == nil {
				failed = s.failed(err)
			}
		case !more:
			return nil
		}
	}
	return failed
}

// masters returns clients of all servers that keep locks.
func (s *Store) masters(ctx context.Context) ([]*redis.Client, error) {
	c, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return []*redis.Client{s.client.(*redis.Client)}, nil //nolint:forcetypeassert // there are no other kinds
	}
	var mu sync.Mutex
	var all []*redis.Client
	err := c.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, master)
		return nil
	})
	slices.SortFunc(all, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	return all, err
}

// walkAt is walk at one server. It reports whether visit wants more.
func (s *Store) walkAt(
	ctx context.Context, master *redis.Client, prefix, end string, visit func(*redis.Client, []string) (bool, error),
) (more bool, err error) {
	begins := s.ns + keyOpen
	pattern := literally(begins+prefix) + "*" + end // what else lies beside a lock ends otherwise
	for cursor := uint64(0); ; {
		step, cancel := context.WithTimeout(ctx, opTimeout)
		// Another program may have data of another type under such a name: that is no lock, and
		// a command about it as one would be answered with an error.
		keys, next, err := master.ScanType(step, cursor, pattern, scanCount, "string").Result()
		cancel()
		if err != nil {
			return false, err
		}
		// Nor is one without a hash tag: a Cluster keeps what would lie beside it elsewhere.
		keys = slices.DeleteFunc(keys, func(key string) bool { return strings.HasPrefix(key, begins+"}") })
		for i, key := range keys {
			keys[i] = strings.TrimSuffix(strings.TrimPrefix(key, begins), end)
		}
		if len(keys) > 0 {
			if more, err := visit(master, keys); err != nil || !more {
				return false, err
			}
		}
		if next == 0 {
			return true, nil
		}
		cursor = next
	}
}

// literally returns a pattern of Redis's that matches text alone.
func literally(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}
