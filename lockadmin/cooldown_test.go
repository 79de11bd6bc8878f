package lockadmin_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// The stream tells when the work under a lock is over and MinHold keeps the key taken, and who was refused because of that.
func TestTheStreamTellsOfACoolDown(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own, other := locker(t, s.Client(t), "web-1"), locker(t, s.Client(t), "web-2")
	lease := hold(t, other, "paid:7", "a note", lockmw.Policy{MinHold: time.Minute})
	page := follow(t, serve(t, lockadmin.Handler(own)).URL)
	page.await("the lock is there", page.has("paid:7"))
	if one, _ := page.find("paid:7"); one.Holders[0].Cools {
		t.Errorf("%+v, want that it is held", one)
	}
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	page.await("it cools down", func() bool { one, _ := page.find("paid:7"); return len(one.Holders) == 1 && one.Holders[0].Cools })
	one, _ := page.find("paid:7")
	if left := one.Holders[0].Until - page.last.Now; one.Holders[0].Instance != other.Instance() || one.Holders[0].Note != "a note" || left < 1 || left > 60_000 {
		t.Errorf("%+v, %d ms are left; want whose work is over, and less than a minute", one, left)
	}
	if _, _, err := own.Acquire(context.Background(), "paid:7", lockmw.Policy{}); err == nil {
		t.Fatal("not refused")
	}
	page.await("the refusal", func() bool { return len(page.last.Past) == 1 })
	if p := page.last.Past[0]; p.Reason != lockmw.CodeCooldown || p.Holder != "" {
		t.Errorf("%+v, want %s and no holder", p, lockmw.CodeCooldown)
	}
}
