package lockprom_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/lockprom"
	"github.com/lockmw/kit/locktest"
)

// A label that is no UTF-8 would end every scrape of the process, with all of its metrics. A
// policy that is refused may have any Name, and its refusals are counted.
func TestTheNameOfARefusedPolicyEndsNoScrape(t *testing.T) {
	for label, p := range map[string]lockmw.Policy{
		"a\uFFFD":                {Name: "a\xff"},
		"b\uFFFD":                {Prefix: "b\xff"},
		strings.Repeat("c", 256): {Name: strings.Repeat("c", 1<<20)},
	} {
		registry := prometheus.NewPedanticRegistry()
		locks := locktest.New(t, lockprom.New(registry))
		if _, _, err := locks.Acquire(context.Background(), "k", p); !errors.Is(err, lockmw.ErrInvalidPolicy) {
			t.Fatalf("Acquire = %v", err)
		}
		if got := gathered(t, registry)["lockmw_refused_total{mode=exclusive,name="+label+",reason=LOCK_MISUSE}"]; got != 1 {
			t.Errorf("%q is counted %v times", label, got)
		}
	}
}
