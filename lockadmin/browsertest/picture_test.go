package browsertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// go test -run TestPictures -pictures ../../docs writes the pictures anew.
var pictures = flag.String("pictures", "", "the folder to write console-light.png, console-settings-light.png and those in dark to")

func anybody(*http.Request) bool { return true }

// lasts is the TTL of a lock that nobody renews: as the pictures are to show it, or long enough for a test on a busy machine.
func lasts(shown time.Duration) time.Duration {
	if *pictures == "" {
		return 10 * time.Minute
	}
	return shown
}

// scene has a shop's locks: a job that all wait for, readers, permits, and a program
// without lockmw, and some trouble.
func scene(t *testing.T, s *site, pause time.Duration) {
	t.Helper()
	later := func() { time.Sleep(pause) } // so that the locks differ in their age
	web2, job := s.process(t, "web-2"), s.process(t, "worker-7")
	minute := lockmw.Policy{TTL: 30 * time.Second}
	client := s.redis.Client(t)
	ctx := context.Background()

	lost := hold(t, s.locks, "invoice:2026-0117", "POST /invoices", minute)
	if err := web2.ForceRelease(ctx, "invoice:2026-0117"); err != nil {
		t.Fatal(err)
	}
	_ = lost.Release(ctx)
	hung := hold(t, s.locks, "tenant:initech:sync", "job sync-17", lockmw.Policy{MaxHold: 50 * time.Millisecond, TTL: lasts(minute.TTL)})
	<-hung.Context().Done() // and it is not renewed any more
	later()
	hold(t, job, "report:daily", "job nightly-report", lockmw.Policy{TTL: time.Minute})
	later()
	for range 3 {
		if _, _, err := s.locks.Acquire(ctx, "report:daily", lockmw.Policy{Name: "report"}); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Fatal(err)
		}
	}
	hold(t, web2, "order:4711", "POST /orders/4711/pay", minute)
	later()
	wait(t, s.locks, "order:4711", 4)
	wait(t, job, "order:4711", 3)
	hold(t, s.locks, "stock:sku-90312", "reservation 8c1f", minute)
	wait(t, web2, "stock:sku-90312", 2)
	for i := range 3 {
		hold(t, []*lockmw.Locker{s.locks, web2, job}[i], "catalogue", "GET /search", lockmw.Policy{Mode: lockmw.Shared, TTL: 45 * time.Second})
	}
	later()
	for i := range 2 {
		hold(t, []*lockmw.Locker{web2, job}[i], "export-slots", fmt.Sprintf("export %d", 118+i), lockmw.Policy{Permits: 4, TTL: minute.TTL})
	}
	for i := range 8 {
		later()
		hold(t, []*lockmw.Locker{s.locks, web2}[i%2], fmt.Sprintf("order:%d", 4720+i*7), fmt.Sprintf("POST /orders/%d/pay", 4720+i*7), minute)
	}
	hold(t, job, "tenant:acme:import", "job import-88", minute)
	hold(t, job, "tenant:globex:import", "job import-91", minute)
	if err := client.Set(ctx, "lock:{legacy-cron}", "by-hand", lasts(20*time.Second)).Err(); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"order:4711", "order:4720"} {
		if _, _, err := s.locks.Acquire(ctx, key, lockmw.Policy{Name: "order", Wait: 120 * time.Millisecond}); !errors.Is(err, lockmw.ErrNotAcquired) && key != "order:4720" {
			t.Fatal(err)
		}
	}
}

func inScheme(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// inBothSchemes opens the page at url once for each color scheme, in the size of the pictures.
func inBothSchemes(t *testing.T, url string) map[string]*page {
	t.Helper()
	pages := make(map[string]*page)
	for _, scheme := range []string{"light", "dark"} {
		p := open(t, url, inScheme(scheme))
		p.run(chromedp.EmulateViewport(1320, 800, chromedp.EmulateScale(1.5)))
		if dark := eval[bool](p, `getComputedStyle(document.body).backgroundColor === "rgb(13, 17, 23)"`); dark != (scheme == "dark") {
			t.Errorf("%s: dark: %v", scheme, dark)
		}
		pages[scheme] = p
	}
	return pages
}

// shoot takes a picture of what the page shows, and writes it if that was asked for.
func (p *page) shoot(name string) {
	p.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil || len(picture) < 10_000 {
		p.Fatalf("the picture has %d bytes: %v", len(picture), err)
	}
	if *pictures == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), picture, 0o644); err != nil {
		p.Fatal(err)
	}
}

// The pictures in the documents are made here, so that they show the page as it is.
func TestPictures(t *testing.T) {
	s := serve(t, lockadmin.WithForceRelease(anybody))
	var pause time.Duration
	if *pictures != "" {
		pause = 1300 * time.Millisecond
	}
	pages := inBothSchemes(t, s.url)
	scene(t, s, pause)
	for scheme, p := range pages {
		p.until("the locks are there", `document.querySelectorAll("#rows tr[role=row]").length === 17 && document.querySelector("#state").dataset.state === "live"`)
		if beside := eval[[]string](p, `[...document.querySelectorAll("#rows td > *, th > *")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > document.querySelector("#scroll").getBoundingClientRect().right).map((e) => e.textContent)`); len(beside) > 0 {
			t.Errorf("%s: beside the table: %q", scheme, beside)
		}
		p.shoot("console-" + scheme)
	}
}

// The pictures of a shop in which operators have changed policies: some work runs without its lock, and some only tries it.
func TestPicturesOfSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.json")
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	entries := `{"shop/mail": {"off": true, "until": "` + until + `", "author": "ada", "reason": "INC-43: the queue of mails stands"},
		"shop/order": {"wait": "5s", "until": "` + until + `", "author": "grace", "reason": "INC-42: the bank is slow"},
		"shop/stock": {"shadow": true, "until": "` + until + `", "author": "ada", "reason": "refuses too much on its first day"}}`
	if err := os.WriteFile(file, []byte(entries), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &site{redis: redistest.Real(t)}
	s.locks = s.process(t, "web-1", lockmw.WithService("shop"), lockmw.WithSettings(lockmw.SettingsFile(file)), lockmw.AllowOff())
	s.serve(t, lockadmin.WithForceRelease(anybody))
	pages := inBothSchemes(t, s.url)
	for i := range 5 {
		hold(t, s.locks, fmt.Sprintf("order:%d", 4711+i*7), fmt.Sprintf("POST /orders/%d/pay", 4711+i*7), lockmw.Policy{Name: "order"})
	}
	hold(t, s.locks, "mail:4711", "job receipt-4711", lockmw.Policy{Name: "mail"})
	hold(t, s.locks, "stock:sku-90312", "reservation 8c1f", lockmw.Policy{Name: "stock"})
	for _, scheme := range []string{"light", "dark"} {
		p := pages[scheme]
		p.until("the locks are there", `document.querySelectorAll("#rows tr[role=row]").length === 5 && !document.querySelector("#off").hidden && !document.querySelector("#shadow").hidden`)
		if first := eval[string](p, `document.querySelector("#settings-list li .pattern").innerText`); first != "shop/mail" {
			t.Errorf("%s stands in front, want the one that is off", first)
		}
		p.shoot("console-settings-" + scheme)
	}
}
