package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// payment is a flight whose work is not done again where nobody knows of it.
var payment = lockmw.Flight{Policy: lockmw.Policy{Prefix: "pay:"}, Retain: time.Hour, Crash: lockmw.Uncertain}

// uncertain leaves work under the key pay:<order> of which nobody knows whether it was done, and returns its id.
func uncertain(t *testing.T, l *lockmw.Locker, order string) (work string) {
	t.Helper()
	_, _, err := lockmw.Do(context.Background(), l, order, payment, func(context.Context) (string, error) { return "", lockmw.ErrUncertain })
	if !errors.Is(err, lockmw.ErrUncertain) {
		t.Fatal(err)
	}
	return left(t, l, order).Work
}

// left is what Do has left beside the lock of pay:<order>, or the zero answer.
func left(t *testing.T, l *lockmw.Locker, order string) lockmw.KeptAnswer {
	t.Helper()
	info, err := l.Inspect(context.Background(), "pay:"+order)
	if err != nil {
		t.Fatal(err)
	}
	if info.Answer == nil {
		return lockmw.KeptAnswer{}
	}
	return *info.Answer
}

// secret is an answer of 2 KiB that nobody else shall see.
var secret = strings.Repeat("private ", 256)

// pays does the work of pay:<order>, unless there is an answer.
func pays(l *lockmw.Locker, order string) (receipt string, shared bool, err error) {
	return lockmw.Do(context.Background(), l, order, payment, func(context.Context) (string, error) { return secret, nil })
}

// look types a key into the search.
func (p *page) look(key string) {
	p.Helper()
	p.run(chromedp.Evaluate[chromedp.Void](`void (search.focus(), search.select())`), chromedp.KeyEvent(key))
}

// What was refused because nobody knows whether work was done leads to the work, and there an operator says what became of it.
func TestUncertainWorkIsResolved(t *testing.T) {
	s := serve(t, lockadmin.WithResolve(anybody))
	work := uncertain(t, s.locks, "7")
	if _, _, err := pays(s.locks, "7"); !errors.Is(err, lockmw.ErrUncertain) {
		t.Fatal(err)
	}
	p := open(t, s.url)
	p.until("what was refused", `/UNCERTAIN whether/.test(document.querySelector("#incidents").innerText)`)
	p.click(`[data-view="waited"]`, "#incidents .key")
	p.until("the lock is found", row("pay:7"))
	answer := row("pay:7") + `.querySelector(".answer")`
	if text := eval[string](p, answer+`.textContent`); !strings.HasPrefix(text, "UNCERTAIN since ") || !strings.HasSuffix(text, ", work "+work) {
		t.Errorf("the row says %q, and the work is %s", text, work)
	}
	if calm := eval[bool](p, `getComputedStyle(`+answer+`).color === getComputedStyle(document.querySelector("#rows .note")).color`); calm {
		t.Error("it has the colour of what needs no attention")
	}

	question := func() {
		t.Helper()
		p.click("#rows .key button")
		p.until("all about the lock", `document.querySelector("#detail").open`)
		p.click("#detail-resolve")
		p.until("the question is there", `document.querySelector("#resolve").open && !document.querySelector("#detail").open`)
	}
	p.click("#rows .key button")
	p.until("all about the lock", `document.querySelector("#detail").open`)
	facts := eval[string](p, `document.querySelector("#detail").innerText`)
	for _, want := range []string{"pay:7", "UNCERTAIN", "nobody knows whether the work was done", work} {
		if !strings.Contains(facts, want) {
			t.Errorf("all about the lock does not say %q: %s", want, facts)
		}
	}
	if eval[bool](p, `document.querySelector("#detail-release").checkVisibility()`) {
		t.Error("a lock that nobody has can be released")
	}
	p.press(kb.Escape)
	p.until("it is closed", `!document.querySelector("#detail").open`)

	question()
	asked := eval[string](p, `document.querySelector("#resolve").innerText`)
	for _, want := range []string{"pay:7", work, "the next request does it", "it is done twice", "Nobody is to do it any more"} {
		if !strings.Contains(asked, want) {
			t.Errorf("the question does not say %q: %s", want, asked)
		}
	}
	p.press(kb.Enter) // the focus is on what changes nothing
	p.until("the question is left", `!document.querySelector("#resolve").open`)
	if is := left(t, s.locks, "7"); is.Work != work {
		t.Fatalf("resolved without a word: %+v", is)
	}

	question()
	p.click(`#resolve [data-as="again"]`)
	p.until("it is resolved", `/Resolved pay:7/.test(document.querySelector("#toast").innerText) && !document.querySelector("#resolve").open`)
	p.until("the lock is gone", `document.querySelectorAll("#rows tr[role=row]").length === 0`)
	if receipt, shared, err := pays(s.locks, "7"); receipt != secret || shared || err != nil {
		t.Errorf("%q, %v, %v; want that the work is done", receipt, shared, err)
	}

	uncertain(t, s.locks, "8")
	p.look("pay:8")
	p.until("the lock is found", row("pay:8"))
	question()
	p.click(`#resolve [data-as="discard"]`)
	p.until("it is resolved", `/Resolved pay:8/.test(document.querySelector("#toast").innerText) && !document.querySelector("#resolve").open`)
	if receipt, _, err := pays(s.locks, "8"); !errors.Is(err, lockmw.ErrAnswerNotKept) {
		t.Errorf("%q, %v; want that nobody does the work", receipt, err)
	}
}

// What the operator says is about the work that was shown, and only as long as nobody is at it and nobody else has said it.
func TestOtherWorkIsNotResolved(t *testing.T) {
	s := serve(t, lockadmin.WithResolve(anybody))
	work := uncertain(t, s.locks, "7")
	p := open(t, s.url)
	p.live()
	p.look("pay:7")
	p.until("the lock is found", row("pay:7"))
	p.click("#rows .key button", "#detail-resolve")
	said := func(what string) {
		t.Helper()
		p.until("it says why", fmt.Sprintf(`document.querySelector("#resolve-said").innerText.includes(%q)`, what))
	}
	again := func() {
		t.Helper()
		p.press(kb.Escape)
		p.until("the question is left", `!document.querySelector("#resolve").open`)
		p.until("the lock is shown as free", row("pay:7")+`?.querySelector(".answer").textContent.startsWith("UNCERTAIN since")`)
		p.click("#rows .key button", "#detail-resolve")
		p.until("the question is there", `document.querySelector("#resolve").open && document.querySelector("#resolve-said").innerText === ""`)
	}

	lease := hold(t, s.locks, "pay:7", "", lockmw.Policy{})
	p.click(`#resolve [data-as="again"]`)
	said("Somebody has the lock")
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	again()
	if err := s.locks.Resolve(context.Background(), "pay:7", work, lockmw.Again); err != nil {
		t.Fatal(err)
	}
	other := uncertain(t, s.locks, "7")
	p.click(`#resolve [data-as="again"]`)
	said("not uncertain any more")
	if is := left(t, s.locks, "7"); is.Work != other {
		t.Errorf("%+v is left, want work %s", is, other)
	}
}

// Who may not resolve is told what is uncertain, and has no button for it.
func TestNobodyResolvesByDefault(t *testing.T) {
	for name, opts := range map[string][]lockadmin.Option{
		"by default": nil, "for who may not": {lockadmin.WithResolve(func(*http.Request) bool { return false })},
		"for who may release": {lockadmin.WithForceRelease(anybody)},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, opts...)
			work := uncertain(t, s.locks, "7")
			p := open(t, s.url)
			p.live()
			p.look("pay:7")
			p.until("the lock is found", row("pay:7"))
			p.click("#rows .key button")
			p.until("all about the lock", `document.querySelector("#detail").open && /UNCERTAIN/.test(document.querySelector("#detail-facts").innerText)`)
			if eval[bool](p, `document.querySelector("#detail-resolve").checkVisibility()`) {
				t.Error("it can be resolved")
			}
			status := promised[int](p, `send({key: "pay:7", work: "`+work+`", as: "again"}, "").then((said) => said.ok ? 200 : 0)`)
			if is := left(t, s.locks, "7"); status != 0 || is.Work != work {
				t.Errorf("%d; %+v is left", status, is)
			}
		})
	}
}

// The page tells of work in progress and of an answer that is kept, on a phone, too; and never what is in an answer.
func TestAnswersAreShown(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody), lockadmin.WithResolve(anybody))
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, _, err := lockmw.Do(context.Background(), s.locks, "7", payment, func(context.Context) (string, error) {
			<-end
			return secret, nil
		})
		ended <- err
	}()
	uncertain(t, s.locks, "8")
	p := open(t, s.url)
	p.until("the work is in progress", row("pay:7")+`?.querySelector(".answer").textContent === "in progress"`)
	work := left(t, s.locks, "7").Work
	p.click("#rows .key button")
	p.until("all about the lock", `document.querySelector("#detail").open && /none yet: work is in progress/.test(document.querySelector("#detail-facts").innerText)`)
	if facts := eval[string](p, `document.querySelector("#detail-facts").innerText`); !strings.Contains(facts, work) {
		t.Errorf("the work is %s, and not named: %s", work, facts)
	}
	p.press(kb.Escape)
	close(end)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	p.until("the lock is gone", `document.querySelectorAll("#rows tr[role=row]").length === 0`)

	p.look("pay:")
	p.until("a part of the key finds nothing", `/found by its whole key/.test(document.querySelector("#empty").innerText)`)
	p.look("pay:7")
	p.until("the lock is found", row("pay:7"))
	if text := eval[string](p, row("pay:7")+`.querySelector(".answer").textContent`); !strings.HasPrefix(text, "answer kept until ") || !strings.HasSuffix(text, ", 2.1 KiB") {
		t.Errorf("the row says %q", text)
	}
	p.click("#rows .key button")
	p.until("all about the lock", `document.querySelector("#detail").open && /2.1 KiB/.test(document.querySelector("#detail-facts").innerText)`)
	if eval[bool](p, `document.documentElement.innerHTML.includes("private private")`) {
		t.Error("the page has what is in the answer")
	}
	if eval[bool](p, `document.querySelector("#detail-resolve").checkVisibility() || document.querySelector("#detail-release").checkVisibility()`) {
		t.Error("a lock that nobody has, with an answer, can be resolved or released")
	}
	p.press(kb.Escape)
	hold(t, s.locks, "pay:7", "", lockmw.Policy{})
	p.until("the lock is held", row("pay:7")+`?.querySelector(".answer").textContent === "answer kept"`)

	p.run(chromedp.EmulateViewport(375, 667, chromedp.EmulateMobile))
	for _, key := range []string{"pay:7", "pay:8"} {
		p.look(key)
		p.until("the lock is found", row(key))
		if !eval[bool](p, row(key)+`.querySelector(".answer").checkVisibility()`) {
			t.Errorf("%s: a phone does not show the answer", key)
		}
		p.click("#rows .key button")
		if key == "pay:8" {
			p.click("#detail-resolve")
		}
		if wide := eval[[]string](p, `[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest(".sr, thead") && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + "." + e.className)`); len(wide) > 0 {
			t.Errorf("%s: too wide for a phone: %q", key, wide)
		}
		p.press(kb.Escape)
	}
}
