package door

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func TestRequestsPassEachDoor(t *testing.T) {
	addr := redistest.Shared(t).Addr()
	tried := make(map[string]bool)
	for _, name := range append(Names(), ThroughGin()...) {
		for name, locks := range map[string]bool{name: !strings.HasPrefix(name, bare), Bare(strings.TrimPrefix(name, bare)): false} {
			if tried[name] {
				continue
			}
			tried[name] = true
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				var wire library.Wire
				d, err := Open(name, addr, &wire)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				}()
				for range 3 {
					if err := d.Request(ctx, "42"); err != nil {
						t.Fatal(err)
					}
				}
				if got := wire.Commands() > 0; got != locks {
					t.Errorf("%d commands were sent", wire.Commands())
				}
			})
		}
	}
}
