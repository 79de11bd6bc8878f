package lockmw_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// One key of another program, which only looks like a lock's, does not hide all locks.
func TestAKeyOfAnotherProgramDoesNotEndAList(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	ctx := context.Background()
	foreign := map[string]struct {
		key string // behind the namespace
		set func(c redis.UniversalClient, key string) error
	}{
		"a hash":        {":{x}", func(c redis.UniversalClient, key string) error { return c.HSet(ctx, key, "a", "b").Err() }},
		"a list":        {":{x}", func(c redis.UniversalClient, key string) error { return c.RPush(ctx, key, "a").Err() }},
		"an empty name": {":{}", func(c redis.UniversalClient, key string) error { return c.Set(ctx, key, "a", 0).Err() }},
		"braces":        {":{}a}", func(c redis.UniversalClient, key string) error { return c.Set(ctx, key, "a", 0).Err() }},
	}
	for where, c := range map[string]redis.UniversalClient{"redis": redistest.Real(t).Client(t), "Cluster": redistest.Cluster(t).Client(t)} {
		for name, one := range foreign {
			t.Run(where+"/"+name, func(t *testing.T) {
				ns := strings.NewReplacer("{", "", "}", "").Replace(redistest.Prefix(t))
				l := testenv.Open(t, c, lockmw.WithNamespace(ns))
				want := []string{"a", "b", "c"}
				for _, key := range want {
					mustAcquire(t, l, key, lockmw.Policy{Wait: 20 * time.Second}) // the first connection may take a second on a busy machine
				}
				if err := one.set(c, ns+one.key); err != nil {
					t.Fatal(err)
				}
				if got := slices.Sorted(maps.Keys(listed(t, l, ""))); !slices.Equal(got, want) {
					t.Errorf("%.100q, want %q", got, want)
				}
			})
		}
	}
}
