package doortest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Who gets which answer of an Idempotent. What is kept of one is in kept.go.

// onceRoute is the usual route with an Idempotent: the key is of the user and the client's.
func (e *env) onceRoute(handle func(x *Exchange) error) Route {
	route := e.route(handle)
	route.Key = keyfunc.MustParse("{header.X-User}:{header.Idempotency-Key|idempotency}")
	route.Flight = &lockmw.Flight{Policy: lockmw.Policy{Prefix: prefix, Wait: e.Patience}, Retain: time.Minute}
	return route
}

// impatient is route, where nobody waits for another's answer.
func impatient(route Route) Route {
	f := *route.Flight
	f.Policy.Wait = 0
	route.Flight = &f
	return route
}

// receipt is a handler whose answer tells one run from another.
func (e *env) receipt(x *Exchange) error {
	x.W.Header().Set("Content-Type", "text/plain")
	x.W.Header().Set("X-Receipt", fmt.Sprint(e.Ran.Load()))
	x.W.WriteHeader(http.StatusCreated)
	_, err := fmt.Fprintf(x.W, "paid by run %d", e.Ran.Load())
	return err
}

// A click is a request with an Idempotency-Key.
type click struct {
	user, key string // empty: the request has none
	path      string // empty: the usual one
	body      string
	kind      string // of the body; empty: JSON
	header    http.Header
}

func (c click) to(r *http.Request) *http.Request {
	if c.user == "" {
		c.user = "ann"
	}
	r.Header.Set("X-User", c.user)
	if c.key != "" {
		r.Header.Set("Idempotency-Key", c.key)
	}
	if c.kind == "" {
		c.kind = "application/json"
	}
	r.Header.Set("Content-Type", c.kind)
	maps.Copy(r.Header, c.header)
	return r
}

// at returns the request for the server.
func (c click) at(e *env) *http.Request {
	path := c.path
	if path == "" {
		path = payPath
	}
	return c.to(e.request(http.MethodPost, path, strings.NewReader(c.body)))
}

// ask has handler answer the click without a server.
func (e *env) ask(handler http.Handler, c click) answer {
	w := httptest.NewRecorder()
	path := c.path
	if path == "" {
		path = payPath
	}
	handler.ServeHTTP(w, c.to(httptest.NewRequest(http.MethodPost, path, strings.NewReader(c.body))))
	return answer{w.Code, w.Result().Header, w.Body.String()}
}

// wantReplay fails the test unless a is the answer of first again.
func (e *env) wantReplay(a, first answer) {
	e.Helper()
	if a.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
		e.Errorf("Idempotent-Replayed = %q, and %q at first; want true and none", a.header.Get("Idempotent-Replayed"), first.header.Get("Idempotent-Replayed"))
	}
	if a.status != first.status || a.body != first.body {
		e.Errorf("answer = %d %q, want that of the first request: %d %q", a.status, a.body, first.status, first.body)
	}
	for name := range first.header {
		if got, want := fmt.Sprint(a.header[name]), fmt.Sprint(first.header[name]); name != "Date" && name != "Content-Length" && got != want {
			e.Errorf("%s = %s, want that of the first request: %s", name, got, want)
		}
	}
}

func doubleClickGetsOneAnswer(e *env) {
	for _, e.http2 = range []bool{false, true} {
		e.Ran.Store(0)
		e.serve(e.onceRoute(e.receipt))
		c := click{key: fmt.Sprint("k", e.http2), body: `{"euros":7}`}
		first := e.do(c.at(e))
		if first.status != http.StatusCreated || first.body != "paid by run 1" {
			e.Errorf("answer = %d %q, want the handler's", first.status, first.body)
		}
		for range 2 {
			e.wantReplay(e.do(c.at(e)), first)
		}
		other := e.onceRoute(e.receipt) // another process has another Locker
		other.Locks = e.NewLocker()
		e.wantReplay(e.ask(e.handler(other), c), first)
		e.WantRuns(1)
	}
	locked := e.onceRoute(e.receipt)
	inner := e.route(nil)
	locked.Behind = &inner
	e.serve(locked)
	c := click{key: "behind-a-lock"}
	first := e.do(c.at(e))
	e.wantReplay(e.do(c.at(e)), first)
	e.WantRuns(2)
}

func secondClickWaitsForTheAnswer(e *env) {
	for _, e.http2 = range []bool{false, true} {
		e.Ran.Store(0)
		before := e.Seen(lockmw.EventContended)
		started, work := make(chan struct{}, 10), make(chan struct{})
		finish := sync.OnceFunc(func() { close(work) })
		defer finish()
		route := e.onceRoute(func(x *Exchange) error {
			started <- struct{}{}
			<-work
			return e.receipt(x)
		})
		other := route
		other.Locks = e.NewLocker()
		elsewhere := e.handler(other)
		e.serve(route)
		c := click{key: fmt.Sprint("k", e.http2)}
		clicks := []<-chan answer{e.background(c.at(e))}
		testenv.Receive(e.Env, "the first handler's start", started)
		clicks = append(clicks, e.background(c.at(e)), e.background(c.at(e)))
		another := make(chan answer, 1)
		go func() { another <- e.ask(elsewhere, c) }() // ends with the work
		e.Until("a request in another process waits", func() bool { return e.Seen(lockmw.EventContended) > before })
		finish()
		var answers []answer
		for _, came := range append(clicks, another) {
			answers = append(answers, testenv.Receive(e.Env, "an answer", came))
		}
		for _, a := range answers[1:] {
			e.wantReplay(a, answers[0])
		}
		e.WantRuns(1)
	}
}

// otherRequestUnderTheKeyIsRefused is about what makes two requests the same.
func otherRequestUnderTheKeyIsRefused(e *env) {
	route := e.onceRoute(e.receipt)
	handler := e.handler(route)
	form := func(boundary, name, file, kind, content string) click {
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		_ = w.SetBoundary(boundary)
		_ = w.WriteField("order", id)
		part, err := w.CreatePart(map[string][]string{
			"Content-Disposition": {fmt.Sprintf("form-data; name=%q; filename=%q", name, file)}, "Content-Type": {kind},
		})
		if err == nil {
			_, err = io.WriteString(part, content)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			e.Fatal(err)
		}
		return click{body: body.String(), kind: w.FormDataContentType()}
	}
	for i, tc := range []struct{ first, same, other click }{
		{first: click{body: `{"euros":7}`}, same: click{body: `{"euros":7}`}, other: click{body: `{"euros":8}`}},
		{first: click{body: `{}`, path: payPath + "?a=1"}, same: click{body: `{}`, path: payPath + "?a=1"}, other: click{body: `{}`, path: payPath + "?a=2"}},
		{first: click{body: `{}`}, same: click{body: `{}`}, other: click{body: `{}`, path: "/orders/other/pay"}},
		{first: click{}, same: click{kind: "Application/JSON; charset=utf-8"}, other: click{kind: "text/plain"}},
		{first: form("one", "scan", "a.pdf", "application/pdf", "1"), same: form("two", "scan", "a.pdf", "application/pdf", "1"), other: form("two", "scan", "a.pdf", "application/pdf", "2")},
		{first: form("one", "scan", "a.pdf", "application/pdf", "1"), same: form("two", "scan", "a.pdf", "application/pdf", "1"), other: form("one", "scan", "b.pdf", "application/pdf", "1")},
		{first: form("one", "scan", "a.pdf", "application/pdf", "1"), same: form("two", "scan", "a.pdf", "application/pdf", "1"), other: form("one", "copy", "a.pdf", "application/pdf", "1")},
		{first: form("one", "scan", "a.pdf", "application/pdf", "1"), same: form("two", "scan", "a.pdf", "application/pdf", "1"), other: form("one", "scan", "a.pdf", "text/plain", "1")},
	} {
		ran := e.Ran.Load()
		for _, c := range []*click{&tc.first, &tc.same, &tc.other} {
			c.key = fmt.Sprint("k", i)
		}
		first := e.ask(handler, tc.first)
		e.wantReplay(e.ask(handler, tc.same), first)
		e.wantProblem(e.ask(handler, tc.other), http.StatusUnprocessableEntity, lockmw.CodeIdempotencyKeyReused)
		e.wantReplay(e.ask(handler, tc.same), first)
		if got := e.Ran.Load() - ran; got != 1 {
			e.Errorf("%d: the handler ran %d times, want once", i, got)
		}
	}
	own := route
	own.Options.Fingerprint = func(r *http.Request) ([]byte, error) {
		body, err := io.ReadAll(r.Body)
		if string(body) == "fails" {
			err = fmt.Errorf("lockmw: of %s", id)
		}
		return []byte(strings.ToLower(string(body))), err
	}
	bodies := make(map[string]int)
	own.Handle = func(x *Exchange) error {
		body, err := io.ReadAll(x.R.Body)
		bodies[string(body)]++
		return err
	}
	handler = e.handler(own)
	first := e.ask(handler, click{key: "own", body: "a=b"})
	e.wantReplay(e.ask(handler, click{key: "own", body: "A=B", path: payPath + "?other"}), first)
	e.wantProblem(e.ask(handler, click{key: "own", body: "a=c"}), http.StatusUnprocessableEntity, lockmw.CodeIdempotencyKeyReused)
	e.wantProblem(e.ask(handler, click{key: "own", body: "fails"}), http.StatusBadRequest, lockmw.CodeKeyInvalid)
	if len(bodies) != 1 || bodies["a=b"] != 1 {
		e.Errorf("the handler saw %v, want the first body once", bodies)
	}
}

func keyIsOfOneRoute(e *env) {
	pay, refund := e.onceRoute(e.receipt), e.onceRoute(e.receipt)
	refund.Path = "/orders/{id}/refund"
	handler := e.handler(pay, refund)
	first := e.ask(handler, click{key: "k"})
	second := e.ask(handler, click{key: "k", path: "/orders/" + id + "/refund"})
	if first.status != http.StatusCreated || second.status != http.StatusCreated || first.body == second.body {
		e.Errorf("answers = %d %q, %d %q, want one of each route", first.status, first.body, second.status, second.body)
	}
	e.WantRuns(2)
}

func keyIsOfOneUser(e *env) {
	handler := e.handler(e.onceRoute(e.receipt))
	ann, bob := e.ask(handler, click{key: "k", user: "ann"}), e.ask(handler, click{key: "k", user: "bob"})
	if ann.body == bob.body {
		e.Errorf("bob gets %q, which is ann's", bob.body)
	}
	e.wantReplay(e.ask(handler, click{key: "k", user: "ann"}), ann)
	e.WantRuns(2)
}

func quotedKeyIsTheSame(e *env) {
	handler := e.handler(e.onceRoute(e.receipt))
	first := e.ask(handler, click{key: `"8e03978e-40d5"`})
	e.wantReplay(e.ask(handler, click{key: `8e03978e-40d5`}), first)
	e.wantProblem(e.ask(handler, click{key: `8e 03`}), http.StatusBadRequest, lockmw.CodeKeyInvalid)
	e.wantProblem(e.ask(handler, click{key: "k", header: http.Header{"Idempotency-Key": {"k", "l"}}}), http.StatusBadRequest, lockmw.CodeKeyInvalid)
	e.WantRuns(1)
}

func keyIsNeeded(e *env) {
	route := e.onceRoute(e.receipt)
	a := e.ask(e.handler(route), click{})
	e.wantProblem(a, http.StatusBadRequest, lockmw.CodeIdempotencyKeyMissing)
	if want := `The request has no idempotency key: the header \"Idempotency-Key\" is missing.`; !strings.Contains(a.body, want) {
		e.Errorf("body = %s, want that it says: %s", a.body, want)
	}
	own := route
	own.Key = e.fw.Key(func(r *http.Request) (string, error) { return r.Header.Get("Idempotency-Key"), nil })
	e.wantProblem(e.ask(e.handler(own), click{}), http.StatusBadRequest, lockmw.CodeIdempotencyKeyMissing)
	unknown := route
	unknown.Key, unknown.Options.OptionalKey = keyfunc.MustParse("{value.user}:{header.Idempotency-Key}"), true
	e.wantProblem(e.ask(e.handler(unknown), click{key: "k"}), http.StatusBadRequest, lockmw.CodeKeyInvalid)
	e.WantRuns(0)
	e.WantUnasked()
	route.Options.OptionalKey = true
	handler := e.handler(route)
	for range 2 {
		if a := e.ask(handler, click{}); a.status != http.StatusCreated || a.header.Get("Idempotent-Replayed") != "" {
			e.Errorf("answer without a key = %d %v, want the handler's", a.status, a.header)
		}
	}
	e.WantRuns(2)
	first := e.ask(handler, click{key: "k"})
	e.wantReplay(e.ask(handler, click{key: "k"}), first)
	e.WantRuns(3)
}

func workInProgressIsRefused(e *env) {
	started, work := make(chan struct{}, 2), make(chan struct{})
	finish := sync.OnceFunc(func() { close(work) })
	defer finish()
	route := impatient(e.onceRoute(func(x *Exchange) error {
		started <- struct{}{}
		<-work
		return e.receipt(x)
	}))
	e.serve(route)
	c := click{key: "k"}
	came := e.background(c.at(e))
	testenv.Receive(e.Env, "the handler's start", started)
	refused := e.background(c.at(e))
	var a answer
	select {
	case a = <-refused:
	case <-started:
		e.Error("the second request runs beside the first")
	}
	if a.status != 0 { // then it waited for nobody; those who do are told the same in the end
		e.wantProblem(a, http.StatusConflict, lockmw.CodeIdempotencyInProgress)
		patient := route
		patient.Flight = new(lockmw.Flight)
		*patient.Flight = *route.Flight
		patient.Flight.Policy.Wait = 20 * time.Millisecond
		for _, patient.Locks = range []*lockmw.Locker{e.Locks, e.NewLocker()} {
			handler := e.handler(patient)
			a := e.answered(func() answer { return e.ask(handler, c) })
			e.wantProblem(a, http.StatusConflict, lockmw.CodeIdempotencyInProgress)
		}
	}
	finish()
	first := testenv.Receive(e.Env, "the first answer", came)
	e.wantReplay(e.do(c.at(e)), first)
	e.WantRuns(1)
}

func safeMethodsPass(e *env) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		route := e.onceRoute(func(x *Exchange) error {
			if _, held := lockmw.FromContext(x.R.Context()); held {
				e.Errorf("%s: the handler runs under a lock", method)
			}
			return e.receipt(x)
		})
		route.Method = method
		e.serve(route)
		e.wantStatus(e.do(e.request(method, payPath, nil)), http.StatusCreated)
	}
	e.WantRuns(3)
	e.WantUnasked()
}

func skippedRequestIsNotKept(e *env) {
	route := e.onceRoute(e.receipt)
	route.Options.Skipper = func(r *http.Request) bool { return r.Header.Get("X-User") == "root" }
	byKey := e.onceRoute(e.receipt)
	byKey.Path = "/skipped/{id}"
	byKey.Key = func(keyfunc.Request) (string, error) { return "", keyfunc.Skip }
	handler := e.handler(route, byKey)
	for range 2 {
		e.wantStatus(e.ask(handler, click{key: "k", user: "root"}), http.StatusCreated)
		e.wantStatus(e.ask(handler, click{key: "k", path: "/skipped/" + id}), http.StatusCreated)
	}
	e.WantRuns(4)
	e.WantUnasked()
}

func longBodyIsNotFingerprinted(e *env) {
	limit := int64(100)
	route := e.onceRoute(e.receipt)
	route.Options.BodyLimit = &limit
	own := route
	own.Path = "/own/{id}"
	own.Options.Fingerprint = func(*http.Request) ([]byte, error) { return nil, nil }
	handler := e.handler(route, own)
	for _, path := range []string{payPath, "/own/" + id} {
		e.wantStatus(e.ask(handler, click{key: "k", path: path, body: strings.Repeat("x", int(limit))}), http.StatusCreated)
		e.wantProblem(e.ask(handler, click{key: "l", path: path, body: strings.Repeat("x", int(limit)+1)}), http.StatusRequestEntityTooLarge, lockmw.CodeKeyInvalid)
	}
	e.WantRuns(2)
}
