package redisstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Names, which walks through all keys of the servers for a list of the locks.

// scanCount is how many keys a server looks at in one step of a list, whatever they are:
// that takes it well under a millisecond.
const scanCount = 1000

// Names implements store.Store. It asks the masters of a Cluster one after the other, and
// tells of one that does not answer when all others have.
func (s *Store) Names(ctx context.Context, prefix string, yield func(names []string) bool) error {
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
		more, err := s.namesAt(ctx, master, prefix, yield)
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

// namesAt yields the names of the locks that one server keeps, and reports whether yield
// wants more.
func (s *Store) namesAt(ctx context.Context, master *redis.Client, prefix string, yield func(names []string) bool) (more bool, err error) {
	begins := s.ns + keyOpen
	pattern := literally(begins+prefix) + "*}" // what else lies beside a lock ends otherwise
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
			keys[i] = strings.TrimSuffix(strings.TrimPrefix(key, begins), "}")
		}
		if len(keys) > 0 && !yield(keys) {
			return false, nil
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
