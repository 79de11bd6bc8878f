package browsertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// The page says of a lock that was handed on until when its ticket has it, in its row, in what it tells of the lock, and in the question
// before a release by force, behind which the ticket is spent.
func TestALockThatIsHandedOn(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	other := s.process(t, "web-2")
	lease := hold(t, other, "report:7", "POST /reports/7", lockmw.Policy{})
	ticket := lease.Ticket(time.Hour)
	p := open(t, s.url)
	p.until("somebody is at work", row("report:7")+` && `+row("report:7")+`.querySelector(".by bdi").textContent === "`+other.Instance()+`"`)
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.until("it is handed on", row("report:7")+` && /^handed on until \S/.test(`+row("report:7")+`.querySelector(".by bdi").textContent)`)
	by := eval[string](p, row("report:7")+`.querySelector(".by bdi").textContent`)
	until := strings.TrimPrefix(by, "handed on until ")
	p.tells("Handed on by", other.Instance(), "POST /reports/7", "for whoever has the ticket, until "+until)
	p.asks("Take this lock from its ticket?", "Whoever comes with the ticket will be told that it is spent.")
	p.run(chromedp.Focus(chromedp.CSS("#confirm .foot .plain")))
	p.press(kb.Tab, kb.Enter)
	p.until("the key is free", `document.querySelectorAll("#rows tr[role=row]").length === 0`)
	if _, _, err := other.Resume(context.Background(), ticket, lockmw.Policy{}); !errors.Is(err, lockmw.ErrTicketSpent) {
		t.Errorf("Resume = %v, want ErrTicketSpent", err)
	}
}
