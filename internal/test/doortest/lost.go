package doortest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing/iotest"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// lossy returns the usual route with a TTL at which a loss is noticed soon, by the renewal
// after a third of it. Who does not wait for that needs no short TTL: the release notices it.
func (e *env) lossy(handle func(x *Exchange) error) Route {
	route := e.route(handle)
	route.Policy.TTL = 1500 * time.Millisecond
	return route
}

// ways in which a lock is taken away. They are called while it is held, or when it has just
// expired because the machine stood still, which is a loss as well.
func (e *env) ways() map[string]func() {
	ctx := context.Background()
	return map[string]func(){
		"deleted": func() {
			if err := e.Client.Del(ctx, e.RedisKey(lockKey)).Err(); err != nil {
				e.Error(err)
			}
		},
		"taken": func() {
			if err := e.Client.Set(ctx, e.RedisKey(lockKey), "other", e.Patience).Err(); err != nil {
				e.Error(err)
			}
		},
	}
}

// cleared removes what the case has put in the lock's place.
func (e *env) cleared() { e.Client.Del(context.Background(), e.RedisKey(lockKey)) }

func lostLockEndsTheWork(e *env) {
	for name, lose := range e.ways() {
		e.serve(e.lossy(func(x *Exchange) error {
			lose()
			select {
			case <-x.R.Context().Done():
			case <-time.After(e.Patience):
			}
			if cause := context.Cause(x.R.Context()); !errors.Is(cause, lockmw.ErrLost) {
				e.Errorf("%s: the handler's context ends with %v, want %v", name, cause, lockmw.ErrLost)
			}
			return nil
		}))
		e.wantProblem(e.pay(), http.StatusInternalServerError, "LOCK_LOST")
		if token := e.Token(lockKey); name == "taken" && token != "other" {
			e.Errorf("the other holder's token became %q", token)
		}
		e.cleared()
	}
	e.WantRuns(2)
}

func lostLockIsAnswered(e *env) {
	for _, lose := range e.ways() {
		e.serve(e.route(func(x *Exchange) error {
			x.W.Header().Set("ETag", "7")
			x.W.Header().Set("Content-Length", "7")
			lose()
			return nil // before it is noticed
		}))
		a := e.pay()
		e.wantProblem(a, http.StatusInternalServerError, "LOCK_LOST")
		if got := a.header.Get("ETag"); got != "" {
			e.Errorf("ETag = %q, want none", got)
		}
		e.cleared()
	}
	e.WantRuns(2)
}

// shadowNeitherWaitsNorRefuses: while another one has the lock, requests of a route in shadow are answered at once, as if there were
// no lock.
func shadowNeitherWaitsNorRefuses(e *env) {
	lease := e.hold()
	for _, wait := range []time.Duration{0, 10 * e.Patience} {
		route := e.route(func(x *Exchange) error {
			if inner, found := lockmw.FromContext(x.R.Context()); !found || !inner.Shadow() {
				e.Errorf("the handler's lease is %v, want one in shadow", inner)
			}
			return nil
		})
		route.Policy.Shadow, route.Policy.Wait = true, wait
		e.serve(route)
		began := time.Now()
		a := e.pay()
		e.wantStatus(a, http.StatusOK)
		if took := time.Since(began); took > e.Patience || a.header.Get("Retry-After") != "" {
			e.Errorf("answered after %v, with Retry-After %q", took, a.header.Get("Retry-After"))
		}
	}
	if !lease.Valid() {
		e.Error("a shadow has taken the lock from its holder")
	}
	e.WantRuns(2)
}

// asyncReleaseIsNotAwaited: what Redis alone knows comes too late for the answer, unless that is held back.
func asyncReleaseIsNotAwaited(e *env) {
	lose := e.ways()["deleted"]
	buffered := 100
	for _, held := range []bool{false, true} {
		route := e.route(func(*Exchange) error { lose(); return nil }) // before it is noticed
		route.Policy.AsyncRelease, route.Policy.Wait = true, e.Patience
		if held {
			route.Options.BufferedResponse = &buffered
		}
		e.serve(route)
		a := e.pay()
		if held {
			e.wantProblem(a, http.StatusInternalServerError, "LOCK_LOST")
		} else if a.status != http.StatusOK {
			e.Errorf("status = %d, want the handler's answer", a.status)
		}
		e.cleared()
	}
	e.WantRuns(2)
}

// lostLockTakesHeadersBack: a cookie or a Location of an answer that is not
// given would tell of work that does not count. What outer middleware has set,
// for whatever answer there is, stays.
func lostLockTakesHeadersBack(e *env) {
	outer := http.Header{
		"Access-Control-Allow-Origin": {"https://shop.test"},
		"Vary":                        {"Origin", "Accept"},
		"X-Trace":                     {"7"},
	}
	lose := e.ways()["deleted"]
	buffered := 10
	for _, write := range []string{"", "paid"} {
		for _, silent := range []bool{false, true} {
			route := e.route(func(x *Exchange) error {
				h := x.W.Header()
				for _, name := range []string{"Set-Cookie", "Location", "ETag", "Content-Encoding", "Content-Length", "Link"} {
					h.Set(name, "4")
				}
				h.Add("Vary", "Cookie")
				h.Set("X-Trace", "8")
				h.Del("Access-Control-Allow-Origin")
				if write != "" {
					_, _ = io.WriteString(x.W, write)
				}
				lose()
				return nil
			})
			route.Header = outer
			if write != "" {
				route.Options.BufferedResponse = &buffered
			}
			if silent {
				route.Options.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
					if got := w.Header().Get("Set-Cookie"); got != "" {
						e.Errorf("the error handler sees the handler's Set-Cookie %q", got)
					}
				}
			}
			e.serve(route)
			a := e.pay()
			e.wantProblem(a, http.StatusInternalServerError, "LOCK_LOST")
			a.header.Del("Date")
			a.header.Del("Content-Length")
			want := outer.Clone()
			want.Set("Content-Type", "application/problem+json")
			want.Set("Cache-Control", "no-store")
			if !maps.EqualFunc(a.header, want, slices.Equal) {
				e.Errorf("header = %v, want %v", a.header, want)
			}
			e.cleared()
		}
	}
	e.WantRuns(4)
}

// emptyCopyIsNoAnswer: nothing is sent for a file without content before the
// handler returns.
func emptyCopyIsNoAnswer(e *env) {
	lose := e.ways()["deleted"]
	errDisk := errors.New("disk failure")
	for _, source := range []io.Reader{strings.NewReader(""), iotest.ErrReader(errDisk)} {
		e.serve(e.route(func(x *Exchange) error {
			if n, err := io.Copy(x.W, struct{ io.Reader }{source}); n != 0 || err != nil && !errors.Is(err, errDisk) {
				e.Errorf("copied %d, %v", n, err)
			}
			lose()
			return nil
		}))
		e.wantProblem(e.pay(), http.StatusInternalServerError, "LOCK_LOST")
		e.cleared()
	}
	e.WantRuns(2)
}

// paid writes a response and then loses the lock.
func paid(lose func()) func(x *Exchange) error {
	return func(x *Exchange) error {
		x.W.Header().Set("Set-Cookie", "paid=1")
		x.W.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(x.W, "paid")
		lose()
		return nil
	}
}

func (e *env) wantPaid(a answer) {
	e.Helper()
	if a.status != http.StatusCreated || a.body != "paid" || a.header.Get("Set-Cookie") != "paid=1" {
		e.Errorf("answer = %d %q %v, want 201 paid", a.status, a.body, a.header)
	}
}

func lostLockLeavesAWrittenResponse(e *env) {
	for _, lose := range e.ways() {
		route := e.route(paid(lose))
		route.Options.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {
			e.Error("the error handler is called, and there is no place for its answer")
		}
		e.serve(route)
		e.wantPaid(e.pay())
		e.cleared()
	}
	e.WantRuns(2)
}

// answerPastTheWriterIsAnAnswer: a handler may unwrap its writer, and write to what it finds
// below. That is an answer, which no problem follows when the lock is lost, and whose status tells
// whether the work has failed.
func answerPastTheWriterIsAnAnswer(e *env) {
	lose := e.ways()["deleted"]
	below := func(w http.ResponseWriter) http.ResponseWriter {
		return w.(interface{ Unwrap() http.ResponseWriter }).Unwrap()
	}
	for name, answer := range map[string]func(x *Exchange){
		"a status": func(x *Exchange) { below(x.W).WriteHeader(http.StatusOK) },
		"a body":   func(x *Exchange) { _, _ = io.WriteString(below(x.W), "paid") },
		"a flush":  func(x *Exchange) { _ = http.NewResponseController(below(x.W)).Flush() },
	} {
		route := e.route(func(x *Exchange) error {
			answer(x)
			lose()
			return nil
		})
		route.Options.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {
			e.Errorf("%s: the error handler is called, and there is no place for its answer", name)
		}
		e.serve(route)
		if a := e.pay(); a.status != http.StatusOK || a.body != strings.Repeat("paid", strings.Count(name, "body")) {
			e.Errorf("%s: answer = %d %q, want what the handler has written", name, a.status, a.body)
		}
		e.cleared()
	}
	e.WantRuns(3)

	failing := e.route(func(x *Exchange) error {
		below(x.W).WriteHeader(http.StatusBadRequest)
		return nil
	})
	failing.Policy.MinHold = e.Patience
	e.serve(failing)
	for range 2 {
		e.wantStatus(e.pay(), http.StatusBadRequest)
	}
	e.WantRuns(5)

	refused := e.route(fine)
	refused.Options.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
		below(w).WriteHeader(http.StatusTeapot)
	}
	e.serve(refused)
	e.hold()
	if a := e.pay(); a.status != http.StatusTeapot || a.body != "" {
		e.Errorf("refused: answer = %d %q, want that of the error handler", a.status, a.body)
	}
}

func lostLockReplacesAHeldResponse(e *env) {
	for _, lose := range e.ways() {
		route := e.route(paid(lose))
		buffered := 4
		route.Options.BufferedResponse = &buffered
		e.serve(route)
		a := e.pay()
		e.wantProblem(a, http.StatusInternalServerError, "LOCK_LOST")
		if got := a.header.Get("Set-Cookie"); got != "" {
			e.Errorf("Set-Cookie = %q, want nothing of the response that was held back", got)
		}
		e.cleared()
	}
	e.WantRuns(2)
}

func lostLockLeavesAResponseOverTheLimit(e *env) {
	for _, lose := range e.ways() {
		route := e.route(paid(lose))
		buffered := 3
		route.Options.BufferedResponse = &buffered
		e.serve(route)
		e.wantPaid(e.pay())
		e.cleared()
	}
	e.WantRuns(2)
}
