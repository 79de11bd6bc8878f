package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockmw"
)

// A Redis key that holds something else hides no lock but the one that it lies beside.
func TestAForeignKeyHidesNoLock(t *testing.T) {
	server := redistest.Real(t)
	client := server.Client(t)
	l := locker(t, client)
	const locks = 200
	for n := range locks {
		take(t, l, fmt.Sprint("order:", n), "", lockmw.Policy{})
	}
	for n := range 20 {
		for _, key := range []string{"lock:{alien:%d}", "lock:{order:%d}:queue"} {
			if err := client.LPush(t.Context(), fmt.Sprintf(key, n), "x").Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := lockctl(t, "", "ls", "-o", "json", "--redis", "redis://"+server.Addr())
	if n := strings.Count(got.out, "\n"); n != locks-20 || got.status != 0 {
		t.Errorf("%d of %d locks are listed: status %d, %s", n, locks, got.status, got.errs)
	}
}

// A master that is away hides its own locks only.
func TestADeadMasterHidesItsLocksOnly(t *testing.T) {
	cluster := redistest.Cluster(t)
	l := locker(t, cluster.Client(t))
	const locks = 100
	for n := range locks {
		take(t, l, fmt.Sprint("order:", n), "", lockmw.Policy{})
	}
	cluster.Nodes[2].Kill()
	got := lockctl(t, "", "ls", "-o", "json", "--cluster", "--redis", "redis://"+cluster.Nodes[0].Addr())
	if n := strings.Count(got.out, "\n"); n < locks/3 || got.status != statusError {
		t.Errorf("%d of %d locks are listed: status %d, %s", n, locks, got.status, got.errs)
	}
}
