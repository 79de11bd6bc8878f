// Package urls checks that the HTTP doors agree with each other about URLs, and
// with the binders of their frameworks about the rest of a request: a client
// cannot dodge a lock by spelling a path or a query in another way, by the type
// that it gives a body, or by putting a name into another place, whatever the
// framework makes of it.
//
// Start reading at this file (what is asked of all doors about URLs), then
// doors_test.go (the doors) and broken_test.go (doors that disagree);
// binders_test.go has the ways in which handlers read a request, sent_test.go
// what clients send and what is asked of each way, and numbers_test.go the same
// for numbers.
package urls

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/doortest"
)

// ownAnswers are what a door or a router may answer in the handler's place.
var ownAnswers = []int{
	http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed,
	http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
}

// A served request is one that a door has let through.
type served struct{ door, seen, key string }

// check sends target to all doors and fails the test unless in each of them
// the key function saw what the handler saw, or the handler did not run. Where
// the handlers of two doors saw the same, the locks are the same, and where
// they did not, they are not.
func check(tb testing.TB, doors []*door, target string) {
	tb.Helper()
	var all []served
	for _, d := range doors {
		r, err := parse(target)
		if err != nil {
			return // the server refuses it before any handler
		}
		d.visit = visit{sent: r, names: queryNames(r)}
		w := httptest.NewRecorder()
		d.handler.ServeHTTP(w, r)
		d.judge(tb, target, w.Code)
		if d.ran == 1 {
			all = append(all, served{d.name, d.inHandler, d.key})
		}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if (a.seen == b.seen) != (a.key == b.key) {
				tb.Errorf("%q: %s locks %q for %s, and %s %q for %s", target, a.door, a.key, a.seen, b.door, b.key, b.seen)
			}
		}
	}
}

// judge looks at what one door did.
func (d *door) judge(tb testing.TB, target string, status int) {
	tb.Helper()
	switch {
	case d.ran == 0 && d.asked > 0 && status != http.StatusBadRequest:
		tb.Errorf("%q: %s refused the key of %s with status %d, want 400", target, d.name, d.inKey, status)
	case d.ran == 0 && !slices.Contains(ownAnswers, status):
		tb.Errorf("%q: %s answered with status %d, and no handler ran", target, d.name, status)
	case d.ran == 0:
	case d.ran > 1 || d.asked != 1:
		tb.Errorf("%q: %s ran %d handlers and asked for %d keys", target, d.name, d.ran, d.asked)
	case d.inKey != d.inHandler:
		tb.Errorf("%q: in %s the key saw %s, the handler %s", target, d.name, d.inKey, d.inHandler)
	case d.key == "" || status != http.StatusOK:
		tb.Errorf("%q: %s ran the handler under the lock %q, with status %d", target, d.name, d.key, status)
	}
}

// parse reads a request as a server does, so that no client tidies up target.
func parse(target string) (*http.Request, error) {
	return http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: shop.test\r\n\r\n")))
}

// queryNames returns the names that handlers might ask for.
func queryNames(r *http.Request) []string {
	names := []string{"q"}
	for name := range r.URL.Query() {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// seeds are targets for all routes.
func seeds() []string {
	var all []string
	for _, target := range doortest.Spellings() {
		path, query, _ := strings.Cut(target, "?")
		if query != "" {
			query = "?" + query
		}
		all = append(all,
			target,
			path+"/items/7"+query,
			strings.Replace(path, "/o/", "/o/7/items/", 1)+query,
			strings.Replace(target, "/o/", "/f/", 1),
			strings.Replace(path, "/o/", "/f/a/", 1)+"/b"+query)
	}
	return append(all, "/o/%34%2532", "/o/%34%2532/items/7", "/f/%34%2532/7", "http://shop.test/o/42", "http://shop.test?q=1", "//", "/", "*", "o/42", "/o/4 2", "/f/../o/42")
}

func FuzzDoorsAgreeAboutURLs(f *testing.F) {
	for _, target := range seeds() {
		f.Add(target)
	}
	doors := sound(f)
	f.Fuzz(func(t *testing.T, target string) {
		if strings.ContainsAny(target, "\r\n") {
			return // headers of its own
		}
		check(t, doors, target)
	})
}

// names are spellings of names, most of one of a few things, for handlers that decode a
// parameter or do not, and that join it to a folder.
var names = []string{
	"a/b", "a%2Fb", "a%2fb", "%61/b", "%2561/b", "a%252Fb", "a//b", "a/./b", "./a/b", "x/../a/b", "x%2F..%2Fa/b", "a/b/", "a/b%2F", "/a/b", "%2Fa/b",
	"%2F%2Fa/b", "../f/a/b", "%2E%2E/f/a/b", "a%2F%2Fb", "a%2F.%2Fb", "a/b/.", "a/b/x/..", "42", "%34%32", "%2534%2532", "4%2532", "%25%33%34%32", "42/", "42%2F",
	"%2F42", ".%2F42", "42%2F.", ".", "%2E", "..", "%2E%2E", "", "/", "%2F", "100%25", "100%2525",
}

// Names that a handler takes for one thing are one lock.
func TestOneThingIsOneLock(t *testing.T) {
	for _, d := range sound(t) {
		keys, served := make(map[string]string), 0
		for _, folder := range []string{"/o/", "/f/"} {
			for _, name := range names {
				r, err := parse(folder + name)
				if err != nil {
					continue
				}
				d.visit = visit{sent: r}
				d.handler.ServeHTTP(httptest.NewRecorder(), r)
				if d.ran == 0 {
					continue
				}
				served++
				decoded, err := url.PathUnescape(d.value)
				if err != nil {
					decoded = d.value
				}
				for how, value := range map[string]string{"as it is": d.value, "decoded": decoded} {
					file := how + ": " + path.Join(folder, value)
					if key, known := keys[file]; known && key != d.key {
						t.Errorf("%s: %s is under the lock %q, and %s had another one, %q", d.name, r.RequestURI, d.key, file, key)
					}
					keys[file] = d.key
				}
			}
		}
		if least := 8; served < least {
			t.Errorf("%s served %d names, want at least %d", d.name, served, least)
		}
		t.Logf("%s served %d of %d names", d.name, served, 2*len(names))
	}
}

// leastServed is how many of the seeds every door has to serve, so that the
// fuzzer begins on the handlers' side of the routers.
const leastServed = 200

func TestSeedsReachTheHandlers(t *testing.T) {
	doors := sound(t)
	count := make(map[string]int)
	for _, target := range seeds() {
		check(t, doors, target)
		for _, d := range doors {
			count[d.name] += d.ran
		}
	}
	for _, d := range doors {
		if got := count[d.name]; got < leastServed {
			t.Errorf("%s served %d of %d seeds, want at least %d", d.name, got, len(seeds()), leastServed)
		}
	}
	t.Logf("served of %d seeds: %v", len(seeds()), count)
}
