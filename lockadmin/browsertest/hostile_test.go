package browsertest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// hostile are texts that others may have written, as keys and notes.
var hostile = []string{
	`<img src=x onerror="hacked=1">`,
	`</script><script>hacked=1</script>`,
	`"><svg onload=hacked=1>`,
	`'-hacked=1-'`,
	`<iframe srcdoc="<script>parent.hacked=1</script>">`,
	"javascript:hacked=1",
	`&lt;b&gt;&amp;`,
	"\u202Egnp.exe\u202C \u2066x\u2069 \u200Bzero",
	`\u003cb\u003e`,
	"data: {}", // of the stream's format
	strings.Repeat("long ", 90),
}

// What is in a lock's key, note or instance is text, whatever it is: on the page, in the
// dialogs, in what was refused, and in a message after a release.
func TestNoLockInjectsMarkup(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	other := s.process(t, hostile[0])
	for _, text := range hostile {
		key := strings.NewReplacer("{", "(", "}", ")").Replace(text)
		hold(t, other, key, text, lockmw.Policy{})
		if _, _, err := s.locks.Acquire(context.Background(), key, lockmw.Policy{Name: text}); err == nil {
			t.Fatal("not refused")
		}
	}
	// Programs without lockmw may write anything.
	client := s.redis.Client(t)
	foreign := []string{"<b>\n\r\x00\t</b>", strings.Repeat("<img src=x onerror=hacked=1>", 366), "\xff\xfe<script>hacked=1</script>"}
	for _, key := range foreign {
		if err := client.Set(context.Background(), "lock:{"+key+"}", "<img src=x onerror=hacked=1>:<b>", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	p := open(t, s.url)
	n := len(hostile) + len(foreign)
	p.until("all locks are there", fmt.Sprintf(`document.querySelectorAll("#rows tr[role=row]").length === %d && document.querySelectorAll("#incidents li").length === %d`, n, len(hostile)))
	sound := func(where string) {
		t.Helper()
		// The tags that the page itself is made of; img is its own mark.
		if odd := eval[[]string](p, `[...document.querySelectorAll("body *")].map((e) => e.tagName.toLowerCase()).filter((tag) => ["b", "script", "iframe", "svg", "img"].includes(tag))`); len(odd) != len(`bbbb`)+2 {
			t.Errorf("%s: the page has %q", where, odd)
		}
		if eval[bool](p, `"hacked" in window`) {
			t.Fatalf("%s: a script of a lock's has run", where)
		}
		if hidden := eval[bool](p, `/[\u0000-\u0008\u000B-\u001F\u200B-\u200F\u202A-\u202E\u2066-\u2069]/.test(document.body.innerText)`); hidden {
			t.Errorf("%s: characters that move or hide others are not shown as such", where)
		}
	}
	sound("the list")
	keys := p.keys()
	for _, want := range []string{hostile[0], hostile[1], `⟨202E⟩gnp.exe⟨202C⟩ ⟨2066⟩x⟨2069⟩ ⟨200B⟩zero`, "<b>⟨000A⟩⟨000D⟩⟨0000⟩⟨0009⟩</b>"} {
		found := false
		for _, key := range keys {
			found = found || key == want
		}
		if !found {
			t.Errorf("no row shows the key %q: %q", want, keys)
		}
	}
	if wide := eval[bool](p, `document.documentElement.scrollWidth > innerWidth`); wide {
		t.Error("a long key makes the page wider than the window")
	}
	for i := range n {
		p.run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void document.querySelectorAll("#rows .key button")[%d].click()`, i)))
		sound("all about " + keys[i])
		if tall := eval[bool](p, `document.querySelector("#detail").getBoundingClientRect().bottom > innerHeight`); tall {
			t.Errorf("the dialog about %q is higher than the window", keys[i])
		}
		p.press(kb.Escape)
		p.run(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void document.querySelectorAll("#rows .do button")[%d].click()`, i)))
		sound("the question about " + keys[i])
		p.press(kb.Escape)
	}
	// A release of such a key takes the right one.
	p.run(chromedp.Evaluate[chromedp.Void](`void ` + row(hostile[0]) + `.querySelector(".do button").click()`))
	p.run(chromedp.Evaluate[chromedp.Void](`void document.querySelector("#confirm-release").click()`))
	p.until("it is released", `/^Released <img/.test(document.querySelector("#toast").innerText)`)
	sound("after a release")
	if held(t, s.locks, hostile[0]) || !held(t, s.locks, hostile[1]) {
		t.Error("another lock was released")
	}
}
