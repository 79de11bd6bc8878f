package browsertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// The page says of a key under which nobody is at work until when it cools down, in its row, in what it tells of the lock,
// and in the question before a release by force, which ends that.
func TestAKeyThatCoolsDown(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	other := s.process(t, "web-2")
	lease := hold(t, other, "paid:7", "POST /orders/7/pay", lockmw.Policy{MinHold: time.Hour})
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	p := open(t, s.url)
	p.until("the row", row("paid:7"))
	by := eval[string](p, row("paid:7")+`.querySelector(".by bdi").textContent`)
	at, ok := strings.CutPrefix(by, "cooling down until ")
	if age := eval[string](p, row("paid:7")+`.querySelector(".age").textContent`); !ok || !strings.Contains(at, ":") || age != "–" {
		t.Errorf("%q since %q, want a time of day, and no age", by, age)
	}
	p.tells("Was held by", other.Instance(), "POST /orders/7/pay", "Cooling down", "until "+at)
	p.asks("End the cool-down of this key?", "Its work is over.")
	p.press(kb.Tab, kb.Enter)
	p.until("the key is free", `document.querySelectorAll("#rows tr[role=row]").length === 0`)
	if _, _, err := other.Acquire(context.Background(), "paid:7", lockmw.Policy{}); err != nil {
		t.Errorf("it is not free: %v", err)
	}
}
