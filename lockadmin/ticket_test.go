package lockadmin_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// The stream tells that a lock was handed on to a ticket, by whom and until when, and when somebody goes on.
func TestTheStreamTellsOfALockThatWasHandedOn(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own, other := locker(t, s.Client(t), "web-1"), locker(t, s.Client(t), "web-2")
	lease := hold(t, other, "report:7", "a note", lockmw.Policy{})
	page := follow(t, serve(t, lockadmin.Handler(own)).URL)
	handedOn := func() bool {
		one, _ := page.find("report:7")
		return len(one.Holders) == 1 && one.Holders[0].HandedOn
	}
	page.await("the lock is there", page.has("report:7"))
	if handedOn() {
		t.Error("it was handed on before its release")
	}
	ticket := lease.Ticket(time.Hour)
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	page.await("it was handed on", handedOn)
	one, _ := page.find("report:7")
	if h := one.Holders[0]; h.Instance != other.Instance() || h.Note != "a note" || h.Until-page.last.Now < 3_500_000 {
		t.Errorf("%+v, want who has handed it on, and that an hour is left", h)
	}
	ctx, lease, err := own.Resume(context.Background(), ticket, lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	page.await("somebody goes on", func() bool { return page.has("report:7")() && !handedOn() })
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
}
