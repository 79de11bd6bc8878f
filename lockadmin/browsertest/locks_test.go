package browsertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// keys are those of the rows, from top to bottom.
func (p *page) keys() []string {
	p.Helper()
	return eval[[]string](p, `[...document.querySelectorAll("#rows td.key")].map((td) => td.textContent)`)
}

// row is an expression for the row of a key.
func row(key string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#rows tr[role=row]")].find((tr) => tr.querySelector(".key").textContent === %q)`, key)
}

func (p *page) live() {
	p.Helper()
	p.until("the page is live", `document.querySelector("#state").dataset.state === "live"`)
}

// press types keys, wherever the focus is.
func (p *page) press(keys ...string) {
	p.Helper()
	for _, key := range keys {
		p.run(chromedp.KeyEvent(key))
	}
}

// slash presses the key that leads to the search, as a keyboard does: its character is typed
// only if the page lets it.
func (p *page) slash() {
	p.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		e := input.DispatchKeyEventParams{Type: kind, Key: "/", Code: "Slash", WindowsVirtualKeyCode: 191}
		if kind == input.DispatchKeyEventTypeKeyDown {
			e.Text = "/"
		}
		if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, e); err != nil {
			p.Fatal(err)
		}
	}
}

// focus tells where the focus is: a row's key, or what the element is called.
func (p *page) focus() string {
	p.Helper()
	return eval[string](p, `(() => {
		const at = document.activeElement, tr = at.closest("#rows tr");
		return tr ? (at.closest("td").className + " " + tr.querySelector(".key").textContent) : at.id || at.textContent.trim() || at.tagName;
	})()`)
}

// soon is for what is to be seen within two seconds, on a machine that does nothing else.
const soon = 2 * time.Second

func TestLocksAppearAndDisappear(t *testing.T) {
	s := serve(t)
	other := s.process(t, "web-2")
	p := open(t, s.url)
	p.live()
	p.until("it says that there is none", `document.querySelector("#empty").innerText === "No lock is held."`)

	began := time.Now()
	lease := hold(t, other, "order:7", "POST /orders/7/pay", lockmw.Policy{})
	p.until("the lock is there", row("order:7"))
	t.Logf("a held lock appears after %v (goal %v)", time.Since(began).Round(time.Millisecond), soon)
	began = time.Now()
	wait(t, s.locks, "order:7", 3)
	p.until("three wait for it", row("order:7")+`?.querySelector(".waiting").textContent === "3"`)
	t.Logf("its waiters appear after %v", time.Since(began).Round(time.Millisecond))
	text := strings.Fields(eval[string](p, row("order:7")+".innerText"))
	for _, want := range []string{"order:7", "exclusive", "3", other.Instance(), "POST", "/orders/7/pay"} {
		if !slices.Contains(text, want) {
			t.Errorf("the row has no %q: %q", want, text)
		}
	}
	if counts := eval[string](p, `document.querySelector(".views").innerText.replace(/\s+/g, " ")`); counts != "1 locks 1 waited for 0 not renewed" {
		t.Errorf("the counts: %q", counts)
	}

	first := eval[string](p, row("order:7")+`.querySelector(".age").textContent`)
	p.until("its age counts", row("order:7")+fmt.Sprintf(`.querySelector(".age").textContent !== %q`, first))

	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	began = time.Now() // the three waiters have it one after the other, and give it back at once
	p.until("the lock is gone", `document.querySelectorAll("#rows tr[role=row]").length === 0`)
	t.Logf("a released lock disappears after %v", time.Since(began).Round(time.Millisecond))
}

// All about a lock has those who wait for it, in their order and by name, also on a phone.
func TestWhoWaitsIsShown(t *testing.T) {
	s := serve(t)
	web2, web3 := s.process(t, "web-2"), s.process(t, "web-3")
	lease := hold(t, web2, "shop", "", lockmw.Policy{})
	p := open(t, s.url)
	waiting := func(n int) {
		t.Helper()
		p.until(fmt.Sprint(n, " wait"), row("shop")+fmt.Sprintf(`?.querySelector(".waiting").textContent === "%d"`, n))
	}
	waitAs(t, web3, "shop", "GET /shop <b>\u202egnp", lockmw.Policy{Mode: lockmw.Shared, Wait: time.Hour}, 1)
	waiting(1)
	waitAs(t, s.locks, "shop", strings.Repeat("a-long-note/", 10), lockmw.Policy{Wait: time.Hour}, 3)
	waiting(4)
	p.click("#rows td.key button")
	for what, width := range map[string]int64{"a desk": 1200, "a phone": 375} {
		p.run(chromedp.EmulateViewport(width, 667))
		p.until("who waits, on "+what, `document.querySelectorAll("#detail .waiters li").length === 3`)
		got := eval[[]string](p, `[...document.querySelectorAll("#detail .waiters li")].map((li) => li.innerText.replace(/\d+(\.\d)? m?s/, "… s").replaceAll("\n", " | "))`)
		want := []string{
			web3.Instance() + " | GET /shop <b>\uFFFDgnp | shared, for … s",
			s.locks.Instance() + " (this process) | " + strings.Repeat("a-long-note/", 10) + " | exclusive, for … s",
			"and 2 more",
		}
		if !slices.Equal(got, want) {
			t.Errorf("on %s: %q, want %q", what, got, want)
		}
		if wide := eval[bool](p, `document.querySelector("#detail form").scrollWidth > document.querySelector("#detail form").clientWidth`); wide {
			t.Errorf("on %s a waiter is wider than the dialog", what)
		}
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.until("nobody waits", `document.querySelectorAll("#detail .waiters").length === 0`)
}

func TestSearchSortAndKeyboard(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	other := s.process(t, "web-2")
	for i := range 60 {
		hold(t, s.locks, fmt.Sprintf("order:%02d", i), "", lockmw.Policy{})
	}
	hold(t, other, "stock:Äpfel", "Inventory job", lockmw.Policy{})
	wait(t, other, "order:30", 2)
	p := open(t, s.url)
	p.until("the locks are there", `document.querySelector("#count-all").textContent === "61"`)
	p.until("what is waited for comes first", `document.querySelector("#rows td.key")?.textContent === "order:30"`)

	p.slash()
	if at, text := p.focus(), eval[string](p, `document.querySelector("#search").value`); at != "search" || text != "" {
		t.Errorf("/ leads to %q, and types %q", at, text)
	}
	for typed, want := range map[string][]string{
		"äpfel": {"stock:Äpfel"}, "ORDER:1 web-1": nil, "inventory": {"stock:Äpfel"}, "web-2": {"stock:Äpfel"}, "order:30": {"order:30"}, "nothing": {},
	} {
		p.run(chromedp.Evaluate[chromedp.Void](`void document.querySelector("#search").select()`), chromedp.KeyEvent(typed))
		if want == nil {
			for i := range 10 {
				want = append(want, fmt.Sprintf("order:1%d", i))
			}
		}
		p.until("the search for "+typed, fmt.Sprintf(`JSON.stringify([...document.querySelectorAll("#rows td.key")].map((td) => td.textContent)) === %q`, quoted(want)))
	}
	p.press(kb.Escape)
	if text := eval[string](p, `document.querySelector("#search").value`); text != "" {
		t.Errorf("Escape leaves %q", text)
	}
	p.until("all are back", `document.querySelectorAll("#rows td.key").length > 20`)

	p.press(kb.ArrowDown)
	if at := p.focus(); at != "key order:30" {
		t.Errorf("the first row is %q", at)
	}
	p.press(kb.ArrowDown, kb.ArrowDown)
	if at := p.focus(); at != "key order:01" {
		t.Errorf("two down: %q", at)
	}
	p.press(kb.End)
	if at := p.focus(); at != "key stock:Äpfel" {
		t.Errorf("the last row is %q", at)
	}
	if visible := eval[bool](p, `(() => { const r = document.activeElement.getBoundingClientRect(), s = document.querySelector("#scroll").getBoundingClientRect(); return r.top >= s.top && r.bottom <= s.bottom; })()`); !visible {
		t.Error("the last row cannot be seen")
	}
	if outline := eval[string](p, `getComputedStyle(document.activeElement).outlineStyle + " " + getComputedStyle(document.activeElement).outlineWidth`); outline != "solid 2px" {
		t.Errorf("the focus cannot be seen: %s", outline)
	}
	p.press(kb.Tab)
	if at := p.focus(); at != "do stock:Äpfel" {
		t.Errorf("Tab leads to %q", at)
	}
	p.press(kb.Enter)
	p.until("the question is there", `document.querySelector("#confirm").open`)
	if at := p.focus(); at != "Keep it" {
		t.Errorf("the question begins at %q", at)
	}
	p.press(kb.Escape)
	p.until("Escape closes it", `!document.querySelector("#confirm").open`)
	if at := p.focus(); at != "do stock:Äpfel" {
		t.Errorf("then the focus is at %q", at)
	}
	p.press(kb.Home, kb.Enter)
	p.until("all about the lock", `document.querySelector("#detail").open && document.querySelector("#detail-key").textContent === "order:30"`)
	p.press(kb.Escape)

	p.click(`[data-sort="key"]`)
	p.until("by key", `document.querySelector("#rows td.key").textContent === "order:00"`)
	p.click(`[data-sort="key"]`)
	p.until("by key, backwards", `document.querySelector("#rows td.key").textContent === "stock:Äpfel"`)
	if sorted := eval[string](p, `document.querySelector("th.key").getAttribute("aria-sort")`); sorted != "descending" {
		t.Errorf("aria-sort is %q", sorted)
	}
	p.click(`[data-view="waited"]`)
	p.until("what is waited for", `document.querySelectorAll("#rows td.key").length === 1`)
}

// quoted is what JSON.stringify makes of texts without quotes.
func quoted(texts []string) string {
	if len(texts) == 0 {
		return "[]"
	}
	return `["` + strings.Join(texts, `","`) + `"]`
}

// The page says when it is not current, and since when; and it recovers by itself.
func TestThePageSaysHowOldItIs(t *testing.T) {
	s := serve(t)
	hold(t, s.locks, "order:7", "", lockmw.Policy{TTL: time.Minute})
	p := open(t, s.url)
	p.until("the lock is there", row("order:7"))
	if err := s.redis.Stop(); err != nil {
		t.Fatal(err)
	}
	p.until("Redis is away", `/Redis cannot be reached.*What is shown is from .* ago/.test(document.querySelector("#banner").innerText)`)
	if !eval[bool](p, "Boolean("+row("order:7")+")") {
		t.Error("what was known is not shown any more")
	}
	if err := s.redis.Cont(); err != nil {
		t.Fatal(err)
	}
	p.live()
	p.until("the banner is gone", `document.querySelector("#banner").hidden`)

	s.away.Store(true)
	s.server.CloseClientConnections()
	p.until("the connection is broken", `/connection to the console is broken.*What is shown is from/.test(document.querySelector("#banner").innerText)`)
	hold(t, s.locks, "order:8", "", lockmw.Policy{})
	s.away.Store(false)
	p.until("it is back", row("order:8"))
	p.live()
}

// A page in the background has no connection, and Redis is not read for it.
func TestAHiddenPageIsNotFed(t *testing.T) {
	s := serve(t)
	p := open(t, s.url)
	p.live()
	show := func(state string) {
		t.Helper()
		p.run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void (() => {
			Object.defineProperty(document, "visibilityState", {value: %q, configurable: true});
			document.dispatchEvent(new Event("visibilitychange"));
		})()`, state)))
	}
	show("hidden")
	for began := time.Now(); s.streams.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > within {
			t.Fatal("the hidden page is told of locks")
		}
	}
	hold(t, s.locks, "order:7", "", lockmw.Policy{})
	show("visible")
	p.until("the lock is there", row("order:7"))
	p.live()
}

// On a phone nothing has to be moved sideways, and everything is there.
func TestOnAPhone(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	scene(t, s, 0)
	p := open(t, s.url)
	p.run(chromedp.EmulateViewport(375, 667, chromedp.EmulateMobile))
	p.until("the locks are there", row("order:4711"))
	if wide := eval[[]string](p, `[...document.querySelectorAll("body *")].filter((e) => e.getClientRects().length && !e.closest(".sr, thead") && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + "." + e.className)`); len(wide) > 0 {
		t.Errorf("too wide: %q", wide)
	}
	for _, part := range []string{".key button", ".waiting .badge", ".by bdi", ".note bdi", ".age", ".left .ttl", ".do button"} {
		if !eval[bool](p, row("order:4711")+fmt.Sprintf(`.querySelector(%q).checkVisibility()`, part)) {
			t.Errorf("no %s", part)
		}
	}
	// The note has a line of its own, in which nothing cuts it.
	if !eval[bool](p, `(() => { const row = `+row("order:4711")+`, note = row.querySelector("td.note"); return note.innerText === "POST /orders/4711/pay" && note.scrollWidth <= note.clientWidth && note.getBoundingClientRect().top >= row.querySelector("td.by").getBoundingClientRect().bottom - 1 })()`) {
		t.Errorf("the note is not whole: %s", p.text())
	}
	if eval[bool](p, `document.querySelector("#incidents").checkVisibility()`) {
		t.Error("what was refused takes the place of the locks")
	}
	p.click("#past summary")
	p.until("what was refused", `document.querySelector("#incidents").checkVisibility() && /report:daily/.test(document.querySelector("#incidents").innerText)`)
}

// A lock that was held for ten TTLs is marked, and no other one.
func TestALockThatIsHeldForLongIsMarked(t *testing.T) {
	s := serve(t)
	p := open(t, s.url)
	p.live()
	hold(t, s.locks, "order:1", "", lockmw.Policy{TTL: time.Minute})
	client := s.redis.Client(t)
	for key, held := range map[string]time.Duration{"export:7": time.Hour, "export:8": time.Minute} {
		holder := fmt.Sprintf("export-5c9d-3kqh2vwz7c.63c03c07-1a2b-4c3d-8e9f-0123456789ab:~%d", time.Now().Add(-held).UnixMicro())
		if err := client.Set(context.Background(), "lock:{"+key+"}", holder, 2*time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	p.until("the locks are there", row("order:1")+" && "+row("export:7")+" && "+row("export:8"))
	if marked := eval[[]string](p, `[...document.querySelectorAll("#rows tr[data-stuck] .key")].map((e) => e.innerText)`); len(marked) != 1 || marked[0] != "export:7" {
		t.Errorf("%q are marked", marked)
	}
	color := func(key string) string {
		return eval[string](p, `getComputedStyle(`+row(key)+`.querySelector(".age")).color`)
	}
	if color("export:7") == color("export:8") || color("export:8") != color("order:1") {
		t.Errorf("the marked one is %s, the others are %s and %s", color("export:7"), color("export:8"), color("order:1"))
	}
	if title := eval[string](p, row("export:7")+`.querySelector(".age").title`); !strings.Contains(title, "stuck") {
		t.Errorf("the mark says %q", title)
	}
}

// A key is whole while the other columns leave it room, up to half of the row. A longer one is cut, and pushes nothing out.
func TestKeysAreNotCutWhileThereIsRoom(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	p := open(t, s.url)
	p.live()
	whole, long := "tenant:initech:"+strings.Repeat("w", 25), strings.Repeat("l", 300)
	isCut := func(key string) bool {
		return eval[bool](p, `(() => { const b = `+row(key)+`.querySelector(".key button"); return b.scrollWidth > b.clientWidth })()`)
	}
	hold(t, s.locks, whole, "POST /sync", lockmw.Policy{TTL: time.Minute})
	p.until("the lock is there", row(whole))
	if isCut(whole) {
		t.Errorf("a key of %d characters is cut", len(whole))
	}
	hold(t, s.locks, long, "POST /long", lockmw.Policy{TTL: time.Minute})
	p.until("the long one is there", row(long))
	if isCut(whole) || !isCut(long) {
		t.Errorf("the key of %d characters is cut: %v; that of %d: %v", len(whole), isCut(whole), len(long), isCut(long))
	}
	if eval[bool](p, `document.querySelector("#scroll").scrollWidth > document.querySelector("#scroll").clientWidth`) {
		t.Error("the table is wider than its place")
	}
	for _, part := range []string{".by bdi", ".note bdi", ".age", ".left .ttl", ".do button"} {
		if !eval[bool](p, `(() => { const box = `+row(long)+fmt.Sprintf(`.querySelector(%q)`, part)+`.getBoundingClientRect(); return box.width > 0 && box.right <= document.querySelector("#scroll").getBoundingClientRect().right })()`) {
			t.Errorf("%s is pushed out", part)
		}
	}
}
