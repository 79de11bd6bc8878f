package spellings

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/lockmw/kit/proof/routers"
)

// A request is what a client sends.
type request struct {
	method  string // empty: POST
	target  string // empty: /p
	headers []string
	body    string
}

// parse reads a request as a server does, so that no client tidies it up.
func (q request) parse() (*http.Request, error) {
	var text strings.Builder
	target := q.target
	if target == "" {
		target = "/p"
	}
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: shop.test\r\n", q.methodOrPost(), target)
	for _, header := range q.headers {
		text.WriteString(header + "\r\n")
	}
	if q.body != "" {
		fmt.Fprintf(&text, "Content-Length: %d\r\n", len(q.body))
	}
	return http.ReadRequest(bufio.NewReader(strings.NewReader(text.String() + "\r\n" + q.body)))
}

func (q request) methodOrPost() string {
	if q.method == "" {
		return http.MethodPost
	}
	return q.method
}

// A reader is how a handler finds the object that it works on. An error means that it answers
// with one and does no work. Handlers refuse an empty name and the number 0, as docs/keys.md
// asks them to, unless a table says that they take these for something.
type reader func(routers.Call) (object string, err error)

// A column has the handlers that read in one way, in one or more frameworks.
type column struct {
	name    string
	routers []string // of routers.Routes
	pattern string   // of the route
	param   string   // how templates call the parameter in it
	read    reader
	filter  string // which filter docs/keys.md names for such a reader, as "|int"; "" for none
}

// A result is what came of a request.
type result struct {
	ran    bool
	status int    // of the answer, if no handler ran
	key    string // of the handler's lock
	object string // that the handler worked on
	err    error  // with which it refused the request
}

// A batch is what one service gets. Its handler reads each request in all ways that are asked for, as if
// there was a handler for each of them, because many more readers than services are tried.
type batch struct {
	site      *routers.Site
	router    string
	pattern   string
	spellings []spelling
	readers   []reader
	results   [][]result // by spelling and reader
}

// run sends all requests.
func (b *batch) run() {
	services := make(map[string]http.Handler)
	for _, s := range b.spellings {
		results := make([]result, len(b.readers))
		b.results = append(b.results, results)
		r, err := s.parse()
		if err != nil {
			for i := range results {
				results[i].status = http.StatusBadRequest // the server's
			}
			continue
		}
		if services[r.Method] == nil {
			services[r.Method] = routers.Routes[b.router](b.site, r.Method, b.pattern)
		}
		b.site.Ran, b.site.Under = false, ""
		b.site.Work = func(call routers.Call) { b.read(call, results) }
		w := httptest.NewRecorder()
		services[r.Method].ServeHTTP(w, r)
		for i := range results {
			results[i].ran, results[i].key, results[i].status = b.site.Ran, b.site.Under, w.Code
		}
	}
}

// read has each reader read a request of its own, which is the handler's.
func (b *batch) read(call routers.Call, results []result) {
	body, err := io.ReadAll(call.Request.Body)
	for i, read := range b.readers {
		if results[i].err = err; err == nil {
			own := *call.Request
			own.Body = io.NopCloser(bytes.NewReader(body))
			results[i].object, results[i].err = read(call.With(&own))
		}
	}
}

// A verdict is what a cell says. Other verdicts are the status of an answer that came
// before any handler ran, and filters that make one key of the spellings.
type verdict string

const (
	same   verdict = "="   // the handler's object and its lock are those of the first request
	other  verdict = "≠"   // they are both others
	fails  verdict = "err" // the handler refuses the request
	shares verdict = "≈"   // two objects are under one lock
	two    verdict = "TWO" // one object is under two locks
	bare   verdict = "BARE"
)

// judge returns the verdicts on what came of requests, each beside those before it.
func judge(results []result) []verdict {
	first := results[0].object
	keys, objects := make(map[string]string), make(map[string]string)
	all := make([]verdict, len(results))
	for i, r := range results {
		key, known := keys[r.object]
		object, taken := objects[r.key]
		switch {
		case !r.ran:
			all[i] = verdict(strconv.Itoa(r.status))
			continue
		case r.err != nil:
			all[i] = fails
			continue
		case r.key == "":
			all[i] = bare
			continue
		case known && key != r.key:
			all[i] = two
		case taken && object != r.object:
			all[i] = shares
		case r.object == first:
			all[i] = same
		default:
			all[i] = other
		}
		if !known {
			keys[r.object] = r.key
		}
		if !taken {
			objects[r.key] = r.object
		}
	}
	return all
}
