package browsertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// within is how long a page may take for anything, on a machine that is busy.
const within = time.Minute

// overall is how long a page may be open: a test may await several things.
const overall = 5 * time.Minute

// The one browser of all tests.
var browser context.Context

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "lockadmin")
	if err != nil {
		panic(err)
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(),
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.DisableGPU, chromedp.NoSandbox,
		chromedp.UserDataDir(folder), chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("hide-scrollbars", true),
	)
	tabs, closeBrowser := chromedp.NewContext(allocator)
	browser = tabs //nolint:fatcontext // no context grows: this is done once
	code := 1
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "browsertest: Chromium does not start (bash scripts/ensure.sh chromium installs it):", err)
	} else {
		code = m.Run()
	}
	closeBrowser()
	end()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// A site is a Redis, a Locker and the page about it.
type site struct {
	redis  *redistest.Server
	locks  *lockmw.Locker
	server *httptest.Server
	url    string
	away   atomic.Bool // the page gets no answer

	streams atomic.Int64 // that are open
}

// serve starts a site. The Lockers of other processes are opened with other.
func serve(t *testing.T, opts ...lockadmin.Option) *site {
	t.Helper()
	s := &site{redis: redistest.Real(t)}
	s.locks = s.process(t, "web-1")
	s.serve(t, opts...)
	return s
}

// serve serves the page about the site's Locker.
func (s *site) serve(t *testing.T, opts ...lockadmin.Option) {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	mux := http.NewServeMux()
	console := lockadmin.Handler(s.locks, append([]lockadmin.Option{lockadmin.WithLogger(logger)}, opts...)...)
	mux.HandleFunc("/ops/locks", func(w http.ResponseWriter, r *http.Request) {
		if s.away.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		if r.URL.Query().Get("get") == "events" {
			s.streams.Add(1)
			defer s.streams.Add(-1)
		}
		console.ServeHTTP(w, r)
	})
	mux.HandleFunc("/frame", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>another page of the service</title><body>")
	})
	s.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.server.CloseClientConnections()
		s.server.Close()
	})
	s.url = s.server.URL + "/ops/locks"
}

// process opens the Locker of a further process.
func (s *site) process(t *testing.T, name string, opts ...lockmw.Option) *lockmw.Locker {
	t.Helper()
	opts = append(opts, lockmw.WithInstance(name), lockmw.WithNote(note))
	locks, err := lockmw.New(s.redis.Client(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = locks.Close(ctx)
	})
	return locks
}

type noteKey struct{}

func note(ctx context.Context) string {
	text, _ := ctx.Value(noteKey{}).(string)
	return text
}

// hold takes a lock, with a note.
func hold(t *testing.T, l *lockmw.Locker, key, note string, p lockmw.Policy) *lockmw.Lease {
	t.Helper()
	_, lease, err := l.Acquire(context.WithValue(context.Background(), noteKey{}, note), key, p)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// wait has calls wait for a lock until the test ends.
func wait(t *testing.T, l *lockmw.Locker, key string, n int) {
	t.Helper()
	waitAs(t, l, key, "", lockmw.Policy{Wait: time.Hour}, n)
}

// waitAs is wait with a note.
func waitAs(t *testing.T, l *lockmw.Locker, key, note string, p lockmw.Policy, n int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), noteKey{}, note))
	var waiting sync.WaitGroup
	for range n {
		waiting.Go(func() {
			if _, lease, err := l.Acquire(ctx, key, p); err == nil {
				_ = lease.Release(context.Background())
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		waiting.Wait()
	})
}

// A page is one that is open in the browser.
type page struct {
	*testing.T
	ctx     context.Context
	foreign atomic.Bool // it is at another site by now, whose complaints are welcome
}

// open shows the address in a window of its own, and fails the test if the page complains
// of anything: a script that fails, or what its Content-Security-Policy forbids.
func open(t *testing.T, url string, actions ...chromedp.Action[chromedp.Void]) *page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	ctx, cancelTime := context.WithTimeout(ctx, overall)
	p := &page{T: t, ctx: ctx}
	var listening sync.WaitGroup
	messages := chromedp.Console(ctx)
	listening.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if !p.foreign.Load() && (m.IsException() || m.Source == "security" || m.Type == chromedp.ConsoleError && m.Source == "") {
				t.Errorf("the page complains: %s: %s", m, m.URL)
			}
		}
	})
	t.Cleanup(func() {
		cancelTime()
		cancel()
		listening.Wait()
	})
	p.run(append(actions, chromedp.EmulateViewport(1440, 900), chromedp.Navigate(url))...)
	return p
}

func (p *page) run(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.Fatalf("%v; the page: %s", err, p.text())
	}
}

// click clicks what the selectors find, one after the other. The page may draw its rows anew between the moment in which an
// element is found and the one in which it is to be clicked: then it is found again, as by somebody whose eyes follow it.
func (p *page) click(selectors ...string) {
	p.Helper()
	for _, selector := range selectors {
		began := time.Now()
		for {
			err := chromedp.Do(p.ctx, chromedp.Click(chromedp.CSS(selector)))
			if err == nil {
				break
			}
			if gone, ok := errors.AsType[*cdproto.Error](err); !ok || !strings.HasPrefix(gone.Message, "Could not find node") || time.Since(began) > within {
				p.Fatalf("a click on %s: %v; the page: %s", selector, err, p.text())
			}
		}
	}
}

// text is what the page shows, for what goes wrong.
func (p *page) text() string {
	text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText.slice(0, 3000)`))
	return text
}

// eval returns the value of an expression in the page.
func eval[T any](p *page, expression string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.Fatalf("%s: %v; the page: %s", expression, err, p.text())
	}
	return value
}

// until waits until an expression is true, and returns how long that took.
func (p *page) until(what, expression string) time.Duration {
	p.Helper()
	return p.untilWithin(within, what, expression)
}

// untilWithin is until for what may take another time.
func (p *page) untilWithin(limit time.Duration, what, expression string) time.Duration {
	p.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		if eval[bool](p, "Boolean("+expression+")") {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			p.Fatalf("%s: not within %v; the page: %s", what, limit, p.text())
		}
	}
}

// promised returns what comes of a promise in the page.
func promised[T any](p *page, promise string) T {
	p.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](promise, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%s: %v; the page: %s", promise, err, p.text())
	}
	return value
}

// tells opens what the page tells of the lock in the first row, checks that it has each of the words in whatever case, and closes it.
func (p *page) tells(want ...string) {
	p.Helper()
	p.click("#rows td.by")
	p.until("all about the lock", `document.querySelector("#detail").open`)
	facts := eval[string](p, `document.querySelector("#detail-facts").innerText`)
	for _, w := range want {
		if !strings.Contains(strings.ToLower(facts), strings.ToLower(w)) {
			p.Errorf("all about the lock does not say %q: %s", w, facts)
		}
	}
	p.press(kb.Escape)
	p.until("it is closed", `!document.querySelector("#detail").open`)
}

// asks opens the question before a release by force of the lock in the first row, and checks that it has each of the words.
func (p *page) asks(want ...string) {
	p.Helper()
	p.click("#rows td.do button")
	p.until("the question is there", `document.querySelector("#confirm").open`)
	asked := eval[string](p, `document.querySelector("#confirm").innerText`)
	for _, w := range want {
		if !strings.Contains(asked, w) {
			p.Errorf("the question does not say %q: %s", w, asked)
		}
	}
}
