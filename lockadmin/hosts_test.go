package lockadmin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/lockadmin"
	"github.com/lockmw/kit/lockmw"
)

// A site that has its own name point to the console's address is to the browser one with the
// console, and all that a request says of itself fits.
func TestTheConsoleKnowsItsNames(t *testing.T) {
	t.Parallel()
	s := redistest.Embedded(t)
	own := locker(t, s.Client(t), "web-1")
	hold(t, own, "order:42", "a note", lockmw.Policy{})
	console := lockadmin.Handler(own, lockadmin.WithForceRelease(anybody), lockadmin.WithHosts("locks.internal", "Ops.Example."))
	url := serve(t, console).URL
	left, leave := context.WithCancel(t.Context()) // as a stream of events would not end otherwise
	leave()
	for host, answers := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:8080": true, "10.1.2.3:80": true, "[::1]": true, "[::1]:8080": true, "[fe80::1%25eth0]:80": true, "[::ffff:127.0.0.1]": true,
		"localhost": true, "LocalHost:8080": true, "localhost.": true, "localhost.:80": true,
		"locks.internal": true, "LOCKS.internal.:8443": true, "ops.example": true,
		"evil.example": false, "evil.example:8080": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false, "x.localhost": false,
		"x.locks.internal": false, "locks.internal.evil.example": false, "locks.internal..": false, "locks": false,
		"localhost:x": false, "localhost:1:2": false, "[localhost]": false, "localhost, evil.example": false, "a@localhost": false,
		"2130706433": false, "0x7f.1": false, "127.1": false, "[127.0.0.1]": false, "[::1": false, "::1]": false, "[]": false, ":80": false, ".": false,
	} {
		for _, asked := range []struct{ method, query string }{
			{http.MethodGet, ""}, {http.MethodHead, ""}, {http.MethodPost, ""}, {http.MethodDelete, ""},
			{http.MethodGet, "?get=find&prefix=order"}, {http.MethodGet, "?get=events"}, {http.MethodGet, "?get=app.js"}, {http.MethodGet, "?get=none"},
		} {
			r := httptest.NewRequestWithContext(left, asked.method, "/ops/locks"+asked.query, strings.NewReader(`{}`))
			r.Host = host
			r.Header.Set("Origin", "http://"+host)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			r.Header.Set("X-Forwarded-Host", "localhost")
			w := httptest.NewRecorder()
			console.ServeHTTP(w, r)
			if refused := w.Code == http.StatusForbidden && strings.Contains(w.Body.String(), "WithHosts("); refused == answers {
				t.Errorf("%q: %s %s: %d %s", host, asked.method, asked.query, w.Code, w.Body)
			}
			if !answers && (w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Header().Get("Set-Cookie") != "" || strings.Contains(w.Body.String(), "order:42")) {
				t.Errorf("%q: %v %s", host, w.Header(), w.Body)
			}
		}
	}
	evil := func(r *http.Request) {
		r.Host = "evil.example:8080"
		r.Header.Set("Origin", "http://evil.example:8080")
	}
	v := open(t, url)
	if status, text := v.release("order:42", v.shown("order:42"), evil); status != http.StatusForbidden || !strings.Contains(text, `lockadmin.WithHosts("evil.example")`) || !held(t, own, "order:42") {
		t.Errorf("a release by another name: %d %s; held: %v", status, text, held(t, own, "order:42"))
	}
	if status, text := v.release("order:42", v.shown("order:42"), nil); status != http.StatusOK {
		t.Errorf("a release by its address: %d %s", status, text)
	}
}

// Nobody writes a host into the advice of the page that is not one.
func TestTheConsoleRepeatsNoTextOfAHost(t *testing.T) {
	t.Parallel()
	console := lockadmin.Handler(locker(t, redistest.Embedded(t).Client(t), "web-1"))
	for _, host := range []string{`x"),lockadmin.WithHosts("y`, "<b>", "", "a b", "é"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		console.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `lockadmin.WithHosts("locks.internal")`) {
			t.Errorf("%q: %d %s", host, w.Code, w.Body)
		}
	}
}
