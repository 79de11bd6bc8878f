package browsertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

func held(t *testing.T, l *lockmw.Locker, key string) bool {
	t.Helper()
	info, err := l.Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return info.Held
}

func TestAForcedReleaseIsConfirmedFirst(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	other := s.process(t, "web-2")
	lease := hold(t, other, "order:7", "POST /orders/7/pay", lockmw.Policy{Wait: time.Minute}) // a process that may wait is told at once
	await.Until(t, "the holder hears messages", func() bool { return other.Stats().Subscribed })
	p := open(t, s.url)
	p.until("the lock is there", row("order:7"))

	p.asks("order:7", other.Instance(), "POST /orders/7/pay", "works on until it learns")
	p.press(kb.Enter) // the focus is on what changes nothing
	p.until("the question is answered", `!document.querySelector("#confirm").open`)
	if !held(t, s.locks, "order:7") {
		t.Fatal("released without a yes")
	}

	p.click("#rows td.do button")
	p.run(chromedp.SendKeys(chromedp.CSS("#confirm-reason"), "INC-42"), chromedp.Focus(chromedp.CSS("#confirm .foot .plain")))
	p.press(kb.Tab, kb.Enter)
	p.until("it is released", `/Released order:7/.test(document.querySelector("#toast").innerText) && !document.querySelector("#confirm").open`)
	p.until("the lock is gone", `document.querySelectorAll("#rows tr[role=row]").length === 0`)
	if held(t, s.locks, "order:7") {
		t.Error("the lock is not free")
	}
	p.until("the list of what has happened has it", `/released by force[^]*order:7[^]*INC-42/.test(document.querySelector("#incidents").innerText)`)
	var revoked *lockmw.RevokedError
	await.Receive(t, "the end of the holder's work", lease.Context().Done())
	if cause := context.Cause(lease.Context()); !errors.As(cause, &revoked) || revoked.Reason != "INC-42" {
		t.Errorf("the holder learns %v", cause)
	}
	next := hold(t, s.locks, "order:7", "", lockmw.Policy{})
	if err := lease.Release(context.Background()); !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("the former holder: %v", err)
	}
	_ = next.Release(context.Background())
}

// Operators write a name and a password into the address where a service wants them, and
// a browser resolves no relative address against such a one for a script.
func TestAnAddressWithNameAndPassword(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody), lockadmin.WithLimit(1))
	other := s.process(t, "web-2")
	hold(t, other, "order:7", "", lockmw.Policy{})
	hold(t, other, "order:8", "", lockmw.Policy{})
	p := open(t, strings.Replace(s.url, "//", "//operator:secret@", 1))
	p.until("a lock is there", `document.querySelectorAll("#rows tr[role=row]").length === 1`)
	for _, key := range []string{"order:7", "order:8"} { // the page has one of them, and finds the other
		eval[bool](p, `(search.value = "`+key+`", search.dispatchEvent(new Event("input")))`)
		p.until("the lock is found", row(key))
		p.click("#rows td.do button")
		p.press(kb.Tab, kb.Enter)
		p.until("it is released", `/Released `+key+`/.test(document.querySelector("#toast").innerText)`)
		if held(t, s.locks, key) {
			t.Errorf("%s is not free", key)
		}
	}
}

// What the operator has said yes to is the holder that was shown.
func TestTheNextHolderIsNotReleased(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	other := s.process(t, "web-2")
	lease := hold(t, other, "order:7", "", lockmw.Policy{})
	p := open(t, s.url)
	p.until("the lock is there", row("order:7"))
	p.click("#rows td.do button")
	_ = lease.Release(context.Background())
	hold(t, s.locks, "order:7", "", lockmw.Policy{})
	p.click("#confirm-release")
	p.until("it is refused", `/Others hold it by now/.test(document.querySelector("#confirm-said").innerText)`)
	if !held(t, s.locks, "order:7") {
		t.Error("the next holder has lost it")
	}
}

func TestReadOnlyByDefault(t *testing.T) {
	for name, opts := range map[string][]lockadmin.Option{
		"by default": nil, "for who may not": {lockadmin.WithForceRelease(func(*http.Request) bool { return false })},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, opts...)
			hold(t, s.locks, "order:7", "", lockmw.Policy{})
			p := open(t, s.url)
			p.until("the lock is there", row("order:7"))
			if n := eval[int](p, `document.querySelectorAll("#rows .do button").length`); n > 0 {
				t.Errorf("%d buttons", n)
			}
			p.click("#rows .key button")
			p.until("all about the lock", `document.querySelector("#detail").open`)
			if eval[bool](p, `document.querySelector("#detail-release").checkVisibility()`) {
				t.Error("it can be released where all about it is shown")
			}
			status := promised[int](p, post(""))
			if status != http.StatusMethodNotAllowed && status != http.StatusForbidden || !held(t, s.locks, "order:7") {
				t.Errorf("%d; held: %v", status, held(t, s.locks, "order:7"))
			}
		})
	}
}

// post is an expression for the status of a release that the page's own origin asks for.
func post(token string) string {
	return fmt.Sprintf(`(async () => (await fetch("", {method: "POST",
		headers: {"Content-Type": "application/json", "X-Lockadmin-Token": %s},
		body: JSON.stringify({key: "order:7", holders: [...locks.values()][0].holders})})).status)()`, quote(token))
}

func quote(text string) string {
	if strings.HasPrefix(text, "document.") {
		return text
	}
	return fmt.Sprintf("%q", text)
}

func TestNoReleaseWithoutTheToken(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	hold(t, s.locks, "order:7", "", lockmw.Policy{})
	p := open(t, s.url)
	p.until("the lock is there", row("order:7"))
	for _, token := range []string{"", "AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		if status := promised[int](p, post(token)); status != http.StatusForbidden || !held(t, s.locks, "order:7") {
			t.Errorf("with the token %q: %d; held: %v", token, status, held(t, s.locks, "order:7"))
		}
	}
	if status := promised[int](p, post(`document.querySelector("meta[name=lockadmin-token]").content`)); status != http.StatusOK || held(t, s.locks, "order:7") {
		t.Errorf("with its own: %d; held: %v", status, held(t, s.locks, "order:7"))
	}
}

// A page of another origin, in the browser of an operator who has the console open, can
// neither release a lock nor read one.
func TestAnotherOriginCanDoNothing(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	hold(t, s.locks, "order:7", "", lockmw.Policy{})
	p := open(t, s.url)
	p.until("the lock is there", row("order:7"))
	token := eval[string](p, `document.querySelector("meta[name=lockadmin-token]").content`)

	holders := eval[string](p, `JSON.stringify([...locks.values()][0].holders)`)
	var loaded atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		loaded.Add(1)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title><body>evil")
	}))
	t.Cleanup(evil.Close)
	for name, origin := range map[string]string{"another port": evil.URL, "another site": strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		p.foreign.Store(true)
		p.run(chromedp.Navigate(origin))
		outcome := func(request string) string {
			return promised[string](p, fmt.Sprintf(`(async () => { try { const r = await fetch(%q, %s); return r.type + " " + (await r.text()).length; } catch (e) { return e.name; } })()`, s.url, request))
		}
		body := `body: JSON.stringify({key: "order:7", holders: ` + holders + `})`
		for what, request := range map[string]string{
			"with the token":       `{method: "POST", credentials: "include", headers: {"Content-Type": "application/json", "X-Lockadmin-Token": "` + token + `"}, ` + body + `}`,
			"as a simple request":  `{method: "POST", credentials: "include", mode: "no-cors", headers: {"Content-Type": "text/plain"}, ` + body + `}`,
			"to read the page":     `{credentials: "include"}`,
			"to read it in secret": `{credentials: "include", mode: "no-cors"}`,
		} {
			if got := outcome(request); got != "TypeError" && got != "opaque 0" {
				t.Errorf("%s, %s: %s", name, what, got)
			}
			if !held(t, s.locks, "order:7") {
				t.Fatalf("%s, %s: released", name, what)
			}
		}
	}
	if loaded.Load() == 0 {
		t.Error("the other origin was never asked")
	}
}

// No page can show the console in a frame, over which it might lay something to click on:
// not even one of the same origin, which could look into it.
func TestTheConsoleIsInNoFrame(t *testing.T) {
	s := serve(t)
	p := open(t, s.url)
	p.live()
	p.foreign.Store(true) // the browser complains of the frame
	p.run(chromedp.Navigate(s.server.URL + "/frame"))
	seen := promised[string](p, fmt.Sprintf(`new Promise((done) => {
		const frame = document.createElement("iframe");
		frame.onload = () => { try { done("read: " + frame.contentDocument.title); } catch (e) { done(e.name); } };
		frame.src = %q;
		document.body.append(frame);
	})`, s.url))
	if seen != "TypeError" {
		t.Errorf("a frame: %s", seen)
	}
}
