package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// Commands of one write are apart where the plan says so: time passes between them.
func TestCommandsComeApart(t *testing.T) {
	for _, gaps := range []time.Duration{0, time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			client := newEmbedded(t, Plan{Seed: 1, Gaps: gaps}).client(t)
			client.Ping(t.Context())
			began := time.Now()
			_, err := client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
				for range 100 {
					pipe.Set(context.Background(), "k", "v", time.Minute)
				}
				return nil
			})
			if took := time.Since(began); err != nil || (took > 0) != (gaps > 0) || took > 100*gaps {
				t.Errorf("gaps of up to %v: 100 commands took %v, %v", gaps, took, err)
			}
		})
	}
}

// Some plans have gaps, and some take the locks of Do away; the same seed makes the same plan.
func TestPlansHaveGapsAndTakeLocksFromFlights(t *testing.T) {
	const seeds = 200
	gaps, taken := 0, 0
	for seed := range uint64(seeds) {
		p := NewPlan(seed)
		if p.String() != NewPlan(seed).String() {
			t.Errorf("seed %d makes two plans", seed)
		}
		if p.Gaps > 0 {
			gaps++
		}
		flies := slices.ContainsFunc(p.Processes, Process.flies)
		takes := slices.ContainsFunc(p.Faults, func(f Fault) bool { return strings.HasPrefix(f.Key, "a") })
		if takes {
			taken++
		}
		if takes && !flies {
			t.Errorf("seed %d takes locks from calls of Do, and has none: %s", seed, p)
		}
	}
	if gaps < seeds/5 || gaps > seeds/2 || taken < seeds/10 {
		t.Errorf("of %d seeds %d have gaps, want a third; %d take locks from calls of Do, want a quarter", seeds, gaps, taken)
	}
}
