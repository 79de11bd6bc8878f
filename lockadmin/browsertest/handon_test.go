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
	p.run(chromedp.Click(chromedp.CSS("#rows td.by")))
	p.until("all about the lock", `document.querySelector("#detail").open`)
	facts := eval[string](p, `document.querySelector("#detail-facts").innerText`)
	for _, want := range []string{"Handed on by", other.Instance(), "POST /reports/7", "for whoever has the ticket, until " + until} {
		if !strings.Contains(strings.ToLower(facts), strings.ToLower(want)) {
			t.Errorf("all about the lock does not say %q: %s", want, facts)
		}
	}
	p.press(kb.Escape)
	p.until("it is closed", `!document.querySelector("#detail").open`)
	p.run(chromedp.Click(chromedp.CSS("#rows td.do button")))
	p.until("the question is there", `document.querySelector("#confirm").open`)
	asked := eval[string](p, `document.querySelector("#confirm").innerText`)
	for _, want := range []string{"Take this lock from its ticket?", "Whoever comes with the ticket will be told that it is spent."} {
		if !strings.Contains(asked, want) {
			t.Errorf("the question does not say %q: %s", want, asked)
		}
	}
	p.run(chromedp.Focus(chromedp.CSS("#confirm .foot .plain")))
	p.press(kb.Tab, kb.Enter)
	p.until("the key is free", `document.querySelectorAll("#rows tr[role=row]").length === 0`)
	if _, _, err := other.Resume(context.Background(), ticket, lockmw.Policy{}); !errors.Is(err, lockmw.ErrTicketSpent) {
		t.Errorf("Resume = %v, want ErrTicketSpent", err)
	}
}
