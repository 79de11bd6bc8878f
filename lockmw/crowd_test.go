package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Questions of a busy process go together. Whatever happens to those, each lock
// has one holder at a time, everybody comes to a turn, and nothing stays.
func TestACrowdUnderFaultsTakesTurns(t *testing.T) {
	slow.Test(t)
	const (
		processes, each, keys = 2, 64, 40
		lasts                 = 3 * time.Second
	)
	s, prefix := redistest.Shared(t), redistest.Prefix(t)
	scripts := redisstore.Scripts()
	most := faultproxy.MatchScript(scripts["acquire"], scripts["release"])
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var turns, overlaps atomic.Int64
	var inside [keys]atomic.Int64
	var proxies []*faultproxy.Proxy
	var all sync.WaitGroup
	for p := range processes {
		client, proxy := proxied(t, s)
		proxies = append(proxies, proxy)
		l := testenv.Open(t, client)
		for g := range each {
			rnd := rand.New(rand.NewPCG(uint64(p), uint64(g)))
			all.Go(func() {
				for ctx.Err() == nil {
					i := rnd.IntN(keys)
					lease, err := askedAgain(l, fmt.Sprint(prefix, i), lockmw.Policy{TTL: 2 * time.Minute, Wait: time.Minute})
					if err != nil {
						t.Errorf("Acquire: %v", err)
						return
					}
					if inside[i].Add(1) > 1 {
						overlaps.Add(1)
					}
					turns.Add(1)
					inside[i].Add(-1)
					// Whose answers are lost again and again goes on giving the lock back after this.
					if err := lease.Release(context.Background()); err != nil && !errors.Is(err, lockmw.ErrUnavailable) {
						t.Errorf("Release: %v", err)
					}
				}
			})
		}
	}
	dropped := func() (n int) {
		for _, proxy := range proxies {
			n += proxy.Dropped()
		}
		return n
	}
	for i, began := 0, time.Now(); time.Since(began) < lasts; i++ {
		proxy := proxies[i%processes]
		switch i / processes % 4 {
		case 0:
			proxy.DropReplies(1, most)
		case 1:
			proxy.DropReplies(1, most, faultproxy.KeepOpen())
		case 2:
			proxy.Cut()
		case 3:
			s.Client(t).ScriptFlush(t.Context())
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, proxy := range proxies {
		proxy.DropReplies(0, nil)
	}
	stop()
	all.Wait()
	if overlaps.Load() > 0 || dropped() < 5 {
		t.Errorf("%d overlaps, and %d lost replies (want 0 and some)", overlaps.Load(), dropped())
	}
	await.Within(t, 30*time.Second, "nothing stays", func() bool {
		return len(s.Client(t).Keys(t.Context(), "*"+prefix+"*").Val()) == 0
	})
	t.Logf("%d turns, %d lost replies", turns.Load(), dropped())
}
