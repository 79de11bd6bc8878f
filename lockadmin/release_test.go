package lockadmin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

func anybody(*http.Request) bool { return true }
func nobody(*http.Request) bool  { return false }

// A visit is a browser that has opened the page.
type visit struct {
	*testing.T
	client *http.Client
	url    string
	token  string // "": the page may not release
}

var tokenInPage = regexp.MustCompile(`<meta name="lockadmin-token" content="([^"]*)">`)

func open(t *testing.T, url string) *visit {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visit{T: t, client: &http.Client{Jar: jar}, url: url}
	v.reload()
	return v
}

func (v *visit) reload() {
	v.Helper()
	w, err := v.client.Get(v.url)
	if err != nil {
		v.Fatal(err)
	}
	defer w.Body.Close()
	text, _ := io.ReadAll(w.Body)
	found := tokenInPage.FindSubmatch(text)
	if found == nil {
		v.Fatalf("%s", text)
	}
	v.token = string(found[1])
}

// shown are the holders of a key as the page shows them.
func (v *visit) shown(key string) string {
	v.Helper()
	page := follow(v.T, v.url)
	defer page.close()
	page.await("the lock is there", page.has(key))
	one, _ := page.find(key)
	text, err := json.Marshal(one.Holders)
	if err != nil {
		v.Fatal(err)
	}
	return string(text)
}

// release asks for a release as the page does, but for what change makes of the request.
func (v *visit) release(key, holders string, change func(*http.Request)) (status int, text string) {
	v.Helper()
	return v.wishes(map[string]any{"key": key, "holders": json.RawMessage(holders)}, change)
}

// resolve says what became of work, as release asks for a release.
func (v *visit) resolve(key, work, as string, change func(*http.Request)) (status int, text string) {
	v.Helper()
	return v.wishes(map[string]any{"key": key, "work": work, "as": as}, change)
}

func (v *visit) wishes(wish map[string]any, change func(*http.Request)) (status int, text string) {
	v.Helper()
	sent, err := json.Marshal(wish)
	if err != nil {
		v.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, v.url, bytes.NewReader(sent))
	if err != nil {
		v.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Lockadmin-Token", v.token)
	r.Header.Set("Origin", v.url[:strings.Index(v.url[8:]+"/", "/")+8])
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if change != nil {
		change(r)
	}
	w, err := v.client.Do(r)
	if err != nil {
		v.Fatal(err)
	}
	defer w.Body.Close()
	var said struct{ Text string }
	body, _ := io.ReadAll(w.Body)
	if json.Unmarshal(body, &said) != nil {
		said.Text = string(body)
	}
	return w.StatusCode, said.Text
}

func held(t *testing.T, l *lockmw.Locker, key string) bool {
	t.Helper()
	info, err := l.Inspect(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return info.Held
}

func TestAForcedRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own, other := locker(t, s.Client(t), "web-1"), locker(t, s.Client(t), "web-2")
	v := open(t, serve(t, lockadmin.Handler(own, lockadmin.WithForceRelease(anybody))).URL)
	for _, key := range []string{"order:7", `<img src=x onerror=alert(1)>`, `"quoted" & 'more'`, "\u202Etxt.exe", "日本"} {
		hold(t, other, key, "a note", lockmw.Policy{})
		if status, text := v.release(key, v.shown(key), nil); status != http.StatusOK || held(t, own, key) {
			t.Errorf("%q: %d %s; held: %v", key, status, text, held(t, own, key))
		}
		if status, text := v.release(key, "[]", nil); status != http.StatusConflict || text != "Nobody holds it any more." {
			t.Errorf("%q again: %d %s", key, status, text)
		}
	}
}

// What the operator has confirmed is about a holder. Another one is not released.
func TestAnotherHolderIsNotReleased(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own, other := locker(t, s.Client(t), "web-1"), locker(t, s.Client(t), "web-2")
	v := open(t, serve(t, lockadmin.Handler(own, lockadmin.WithForceRelease(anybody))).URL)
	lease := hold(t, other, "k", "first", lockmw.Policy{})
	shown := v.shown("k")
	if err := lease.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
	hold(t, other, "k", "second", lockmw.Policy{})
	if status, text := v.release("k", shown, nil); status != http.StatusConflict || text != "Others hold it by now. Look again." || !held(t, own, "k") {
		t.Errorf("%d %s; held: %v", status, text, held(t, own, "k"))
	}
	a := hold(t, own, "r", "", lockmw.Policy{Mode: lockmw.Shared})
	hold(t, other, "r", "", lockmw.Policy{Mode: lockmw.Shared})
	shown = v.shown("r")
	if err := a.Release(context.Background()); err != nil { // one of those that were shown is left
		t.Fatal(err)
	}
	if status, text := v.release("r", shown, nil); status != http.StatusOK || held(t, own, "r") {
		t.Errorf("%d %s; held: %v", status, text, held(t, own, "r"))
	}
}

func TestWhoMayNotRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own := locker(t, s.Client(t), "web-1")
	hold(t, own, "k", "", lockmw.Policy{})
	v := open(t, serve(t, lockadmin.Handler(own, lockadmin.WithForceRelease(anybody))).URL)
	stranger := open(t, v.url)
	shown := v.shown("k")
	for name, tc := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"without the token":        {func(r *http.Request) { r.Header.Del("X-Lockadmin-Token") }, http.StatusForbidden},
		"with an empty token":      {func(r *http.Request) { r.Header.Set("X-Lockadmin-Token", "") }, http.StatusForbidden},
		"with another token":       {func(r *http.Request) { r.Header.Set("X-Lockadmin-Token", stranger.token) }, http.StatusForbidden},
		"with a bad cookie":        {func(r *http.Request) { r.Header.Set("Cookie", "lockadmin=x"); r.Header.Set("X-Lockadmin-Token", "x") }, http.StatusForbidden},
		"from another origin":      {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example"); r.Header.Del("Sec-Fetch-Site") }, http.StatusForbidden},
		"from another site":        {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"from a sibling of a site": {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		"as a form":                {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
		"by GET":                   {func(r *http.Request) { r.Method = http.MethodGet }, http.StatusOK}, // it is the page
		"by PUT":                   {func(r *http.Request) { r.Method = http.MethodPut }, http.StatusMethodNotAllowed},
		"with nonsense":            {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("nonsense")); r.ContentLength = 8 }, http.StatusBadRequest},
	} {
		if status, text := v.release("k", shown, tc.change); status != tc.status || !held(t, own, "k") {
			t.Errorf("%s: %d %s, want %d; held: %v", name, status, text, tc.status, held(t, own, "k"))
		}
	}
	stranger.client.Jar = nil // it has a token, but another browser's cookie is none
	if status, _ := stranger.release("k", shown, nil); status != http.StatusForbidden {
		t.Errorf("without the cookie: %d", status)
	}
	if status, text := v.release("{a}", shown, nil); status != http.StatusBadRequest || text != "No lock of lockmw can have this key." {
		t.Errorf("an impossible key: %d %s", status, text)
	}
	s.SetError("LOADING secret of Redis")
	if status, text := v.release("k", shown, nil); status != http.StatusServiceUnavailable || text != "Redis cannot be reached." {
		t.Errorf("%d %s", status, text)
	}
}

// A neighbouring domain may set a cookie of the same name for a longer path, which comes
// first. It neither lets anybody release nor keeps the page from it.
func TestANeighboursCookie(t *testing.T) {
	t.Parallel()
	own := locker(t, redistest.Embedded(t).Client(t), "web-1")
	v := open(t, serve(t, lockadmin.Handler(own, lockadmin.WithForceRelease(anybody))).URL)
	for _, first := range []string{"x", strings.Repeat("A", 26)} {
		hold(t, own, "k", "", lockmw.Policy{})
		status, text := v.release("k", v.shown("k"), func(r *http.Request) {
			r.Header.Set("Cookie", "lockadmin="+first+"; lockadmin="+v.token)
		})
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", first, status, text)
		}
	}
}

// A lock that thousands have can be released as well.
func TestALockOfThousandsCanBeReleased(t *testing.T) {
	t.Parallel()
	own := locker(t, redistest.Real(t).Client(t), "web-1")
	v := open(t, serve(t, lockadmin.Handler(own, lockadmin.WithForceRelease(anybody))).URL)
	const n = 8000
	var taking sync.WaitGroup
	for range 8 {
		taking.Go(func() {
			for range n / 8 {
				ctx := context.WithValue(context.Background(), noteKey{}, strings.Repeat("n", 100))
				p := lockmw.Policy{Permits: 2 * n, TTL: 5 * time.Minute}
				if _, err := testenv.AskedAgain(ctx, own, "k", p, func(err error, _ time.Time) bool { return errors.Is(err, lockmw.ErrUnavailable) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	taking.Wait()
	if status, text := v.release("k", v.shown("k"), nil); status != http.StatusOK || held(t, own, "k") {
		t.Errorf("%d %s", status, text)
	}
}

func TestReadOnlyByDefault(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own := locker(t, s.Client(t), "web-1")
	hold(t, own, "k", "", lockmw.Policy{})
	may := open(t, serve(t, lockadmin.Handler(own, lockadmin.WithForceRelease(anybody))).URL)
	for name, tc := range map[string]struct {
		opts   []lockadmin.Option
		status int
	}{
		"by default":           {nil, http.StatusMethodNotAllowed},
		"for who may not":      {[]lockadmin.Option{lockadmin.WithForceRelease(nobody)}, http.StatusForbidden},
		"with another console": {[]lockadmin.Option{lockadmin.WithForceRelease(func(r *http.Request) bool { return r.URL.Query().Has("admin") })}, http.StatusForbidden},
	} {
		url := serve(t, lockadmin.Handler(own, tc.opts...)).URL
		v := open(t, url)
		if v.token != "" {
			t.Errorf("%s: the page has the token %s", name, v.token)
		}
		w := get(t, lockadmin.Handler(own, tc.opts...), "/")
		if len(w.Result().Cookies()) > 0 || strings.Contains(w.Body.String(), "may-release") {
			t.Errorf("%s: %v %s", name, w.Header(), w.Body)
		}
		v.token = may.token
		shown := v.shown("k")
		if status, text := v.release("k", shown, func(r *http.Request) { r.Header.Set("Cookie", "lockadmin="+may.token) }); status != tc.status || !held(t, own, "k") {
			t.Errorf("%s: %d %s, want %d", name, status, text, tc.status)
		}
	}
}

// Several processes may serve one page: which of them gets the release does not matter. A
// page that is opened again keeps the token of the others.
func TestATokenIsTheBrowsers(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	one, two := locker(t, s.Client(t), "web-1"), locker(t, s.Client(t), "web-2")
	handlers := []http.Handler{lockadmin.Handler(one, lockadmin.WithForceRelease(anybody)), lockadmin.Handler(two, lockadmin.WithForceRelease(anybody))}
	turn := 0
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn++
		handlers[turn%2].ServeHTTP(w, r)
	}))
	v := open(t, server.URL)
	token := v.token
	if v.reload(); v.token != token || len(token) != 26 {
		t.Errorf("another token: %s after %s", v.token, token)
	}
	if stranger := open(t, server.URL); stranger.token == token {
		t.Error("two browsers have one token")
	}
	for range 3 { // more than one turn
		hold(t, one, "k", "", lockmw.Policy{})
		if status, text := v.release("k", v.shown("k"), nil); status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
	}
}

func TestTheCookie(t *testing.T) {
	t.Parallel()
	own := locker(t, redistest.Embedded(t).Client(t), "web-1")
	h := lockadmin.Handler(own, lockadmin.WithForceRelease(anybody))
	for target, secure := range map[string]bool{"http://ops.example/locks": false, "https://ops.example/locks": true} {
		cookies := get(t, h, target).Result().Cookies()
		if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode || cookies[0].Secure != secure {
			t.Errorf("%s: %v", target, cookies)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	own := locker(t, redistest.Embedded(t).Client(t), "web-1")
	h := lockadmin.Handler(own, lockadmin.WithForceRelease(anybody))
	for target, kind := range map[string]string{
		"/": "text/html; charset=utf-8", "/?get=app.js": "text/javascript; charset=utf-8", "/?get=style.css": "text/css; charset=utf-8",
		"/?get=icon.svg": "image/svg+xml", "/?get=find&prefix=a": "application/json", "/?get=look&key=a": "application/json", "/?get=nothing": "text/plain; charset=utf-8",
		"/?get=index.html": "text/plain; charset=utf-8", "/?get=../lockadmin.go": "text/plain; charset=utf-8",
	} {
		w := get(t, h, target)
		for name, want := range map[string]string{
			"Content-Type": kind, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
				"form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", target, name, got, want)
			}
		}
		if strings.HasPrefix(kind, "text/plain") != (w.Code == http.StatusNotFound) {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	text := get(t, h, "/").Body.String()
	for _, inline := range []string{"<style", "style=", "onclick", "javascript:", "http://", "https://"} {
		if strings.Contains(text, inline) {
			t.Errorf("the page has %s", inline)
		}
	}
	if n := strings.Count(text, "<script"); n != strings.Count(text, `<script src="?get=`) {
		t.Errorf("the page has scripts that are not its own: %s", text)
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "http://localhost/", nil)); w.Code != http.StatusOK || w.Body.Len() > 0 {
		t.Errorf("HEAD: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "http://localhost/", nil)); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("DELETE: %d %v", w.Code, w.Header())
	}
}

// Another site's page learns nothing, and cannot have Redis read.
func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	h := lockadmin.Handler(locker(t, redistest.Embedded(t).Client(t), "web-1"))
	for _, target := range []string{"/?get=events", "/?get=find&prefix=a", "/?get=look&key=a"} {
		for _, site := range []string{"cross-site", "same-site"} {
			if w := get(t, h, target, "Sec-Fetch-Site", site); w.Code != http.StatusForbidden {
				t.Errorf("%s from %s: %d", target, site, w.Code)
			}
		}
	}
	if w := get(t, h, "/", "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusOK { // a link in a chat
		t.Errorf("the page by a link: %d", w.Code)
	}
}

// The page and what it loads are found wherever it is mounted: all addresses in it are
// queries, which lead to where the page itself is.
func TestMountedAnywhere(t *testing.T) {
	t.Parallel()
	h := lockadmin.Handler(locker(t, redistest.Embedded(t).Client(t), "web-1"))
	mux := http.NewServeMux()
	mux.Handle("/exact", h)
	mux.Handle("/below/", h)
	mux.Handle("/stripped/", http.StripPrefix("/stripped", h))
	mux.Handle("/stripped2", http.StripPrefix("/stripped2", h))
	link := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for _, path := range []string{"/exact", "/below/", "/stripped/", "/stripped2"} {
		w := get(t, mux, path)
		links := link.FindAllStringSubmatch(w.Body.String(), -1)
		if w.Code != http.StatusOK || len(links) < 6 {
			t.Errorf("%s: %d, %d links", path, w.Code, len(links))
		}
		for _, l := range links {
			to := httptest.NewRequest(http.MethodGet, path, nil).URL
			to, err := to.Parse(html.UnescapeString(l[1]))
			if err != nil {
				t.Fatal(err)
			}
			if w := get(t, mux, to.String()); w.Code != http.StatusOK || w.Body.Len() == 0 || strings.HasPrefix(w.Body.String(), "<!doctype") {
				t.Errorf("%s: %d for %s", path, w.Code, to)
			}
		}
	}
}

func TestAPanicIsAnswered(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	h := lockadmin.Handler(locker(t, redistest.Embedded(t).Client(t), "web-1"),
		lockadmin.WithForceRelease(func(*http.Request) bool { panic("ouch") }), lockadmin.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if w := get(t, h, "/"); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "ouch") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "ouch") {
		t.Errorf("the log: %s", &log)
	}
}

func TestMistakesShowAtTheStart(t *testing.T) {
	own := locker(t, redistest.Embedded(t).Client(t), "web-1")
	for want, call := range map[string]func(){
		"lockadmin: Handler: the Locker is nil":                                                  func() { lockadmin.Handler(nil) },
		"lockadmin: Handler: an option is nil":                                                   func() { lockadmin.Handler(own, nil) },
		"lockadmin: WithForceRelease: the function is nil":                                       func() { lockadmin.Handler(own, lockadmin.WithForceRelease(nil)) },
		"lockadmin: WithResolve: the function is nil":                                            func() { lockadmin.Handler(own, lockadmin.WithResolve(nil)) },
		"lockadmin: WithLogger: the logger is nil":                                               func() { lockadmin.Handler(own, lockadmin.WithLogger(nil)) },
		"lockadmin: WithLimit: 0 locks; at least 1 is needed":                                    func() { lockadmin.Handler(own, lockadmin.WithLimit(0)) },
		`lockadmin: WithHosts: "a.b:80" is not the name of a host alone, such as locks.internal`: func() { lockadmin.Handler(own, lockadmin.WithHosts("ok", "a.b:80")) },
		`lockadmin: WithHosts: "" is not the name of a host alone, such as locks.internal`:       func() { lockadmin.Handler(own, lockadmin.WithHosts("")) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("%v, want %s", got, want)
				}
			}()
			call()
		}()
	}
}
