package doortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What goes wrong around a request that is answered once, and the mistakes of programs. Who gets which answer is in once.go.

// clientWhoLeavesGetsTheAnswerLater: the work goes on, and the retry gets what came of it.
func clientWhoLeavesGetsTheAnswerLater(e *env) {
	for _, e.http2 = range []bool{false, true} {
		e.Ran.Store(0)
		e.asked = make(chan context.Context, 2)
		started, work := make(chan struct{}, 2), make(chan struct{})
		finish := sync.OnceFunc(func() { close(work) })
		defer finish()
		e.serve(e.onceRoute(func(x *Exchange) error {
			started <- struct{}{}
			<-work
			if err := x.R.Context().Err(); err != nil {
				e.Errorf("HTTP/2 %v: the handler's context ends with its client: %v", e.http2, err)
			}
			return e.receipt(x)
		}))
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		c := click{key: fmt.Sprint("k", e.http2), body: `{"a":"body that the handler does not read"}`}
		e.background(c.at(e).WithContext(ctx))
		outer := testenv.Receive(e.Env, "the request", e.asked)
		testenv.Receive(e.Env, "the handler's start", started)
		leave()
		testenv.Receive(e.Env, "the end of the connection", outer.Done())
		retry := e.background(c.at(e))
		testenv.Receive(e.Env, "the second request", e.asked)
		finish()
		a := testenv.Receive(e.Env, "the second answer", retry)
		e.wantReplay(a, answer{http.StatusCreated, http.Header{"X-Receipt": {"1"}}, "paid by run 1"})
		e.WantRuns(1)
	}
	e.asked = nil
}

func waiterWhoLeavesDoesNoWork(e *env) {
	started, work, done := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
	handler := e.handler(e.onceRoute(func(x *Exchange) error {
		started <- struct{}{}
		<-work
		return e.receipt(x)
	}))
	go func() {
		defer close(done)
		e.ask(handler, click{key: "k"})
	}()
	defer func() {
		close(work)
		<-done
	}()
	testenv.Receive(e.Env, "the handler's start", started)
	ctx, leave := context.WithCancel(context.Background())
	leave()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, click{key: "k"}.to(httptest.NewRequestWithContext(ctx, http.MethodPost, payPath, nil)))
	if w.Code != lockmw.StatusClientGone || w.Body.Len() > 0 {
		e.Errorf("answer = %d %s, want %d and no body", w.Code, w.Body, lockmw.StatusClientGone)
	}
	e.WantRuns(1)
}

// deadProcessIsTold: the process dies in the middle of the work. With RunAgain the next request does the work, and with Uncertain it is
// told that nobody knows, in whatever process, until somebody says that it was not done.
func deadProcessIsTold(e *env) {
	for crash, name := range map[lockmw.Crash]string{lockmw.RunAgain: "again", lockmw.Uncertain: "uncertain"} {
		e.Ran.Store(0)
		work := ""
		route := e.onceRoute(func(x *Exchange) error {
			if work == "" {
				lease, _ := lockmw.FromContext(x.R.Context())
				work = lease.Key()
				seam.Crash(e.Locks, func(key string) { e.Client.Del(context.Background(), e.RedisKey(key)) })
			}
			return e.receipt(x)
		})
		route.Flight.Crash = crash
		other := route
		other.Locks = e.NewLocker()
		c := click{key: name}
		e.ask(e.handler(route), c) // its client hears nothing
		handler := e.handler(other)
		if crash == lockmw.Uncertain {
			e.wantProblem(e.ask(handler, c), http.StatusConflict, lockmw.CodeIdempotencyUncertain) // without Retry-After
			e.WantRuns(1)
			e.ResolveUncertain(work, lockmw.Again)
		}
		first := e.ask(handler, c)
		e.wantStatus(first, http.StatusCreated)
		e.wantReplay(e.ask(e.handler(route), c), first)
		e.WantRuns(2)
	}
}

// handlerThatIsToldToStopHasNotAnswered: its context has ended, and an empty 200 would be the answer of work that was not done.
func handlerThatIsToldToStopHasNotAnswered(e *env) {
	for crash, want := range map[lockmw.Crash]struct {
		status int
		code   string
		runs   int
	}{
		lockmw.RunAgain:  {http.StatusInternalServerError, lockmw.CodeLost, 2},
		lockmw.Uncertain: {http.StatusConflict, lockmw.CodeIdempotencyUncertain, 1},
	} {
		e.Ran.Store(0)
		route := e.onceRoute(func(x *Exchange) error {
			<-x.R.Context().Done()
			return nil
		})
		route.Flight.Crash, route.Flight.Policy.MaxHold = crash, 50*time.Millisecond
		handler := e.handler(route)
		for range 2 {
			e.wantProblem(e.ask(handler, click{key: fmt.Sprint("k", crash)}), want.status, want.code)
		}
		e.WantRuns(want.runs)
	}
}

// handlerSaysThatItDoesNotKnow: its own client gets what it answers, and whoever comes next is told that nobody knows, or does the work.
func handlerSaysThatItDoesNotKnow(e *env) {
	for _, crash := range []lockmw.Crash{lockmw.RunAgain, lockmw.Uncertain} {
		e.Ran.Store(0)
		route := e.onceRoute(func(x *Exchange) error {
			lockmw.MarkUncertain(x.R.Context())
			return e.receipt(x)
		})
		route.Flight.Crash = crash
		handler, c := e.handler(route), click{key: fmt.Sprint("k", crash)}
		e.wantStatus(e.ask(handler, c), http.StatusCreated)
		if crash == lockmw.Uncertain {
			e.wantProblem(e.ask(handler, c), http.StatusConflict, lockmw.CodeIdempotencyUncertain)
			e.WantRuns(1)
			continue
		}
		e.wantStatus(e.ask(handler, c), http.StatusCreated)
		e.WantRuns(2)
	}
}

func redisThatIsDownRefusesTheWork(e *env) {
	route := impatient(e.onceRoute(e.receipt))
	handler := e.handler(route)
	e.Backend.(*redistest.Mini).Close()
	e.wantProblem(e.ask(handler, click{key: "k"}), http.StatusServiceUnavailable, lockmw.CodeBackendUnavailable)
	e.WantRuns(0)
}

func errorHandlerAnswersForIdempotent(e *env) {
	route := e.onceRoute(e.receipt)
	var got error
	route.Options.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		got = err
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "no")
	}
	handler := e.handler(route)
	e.ask(handler, click{key: "k", body: "a"})
	for _, refused := range []struct {
		click
		want error
	}{
		{click{key: "k", body: "b"}, lockmw.ErrOtherRequest},
		{click{}, keyfunc.ErrMissing},
	} {
		if a := e.ask(handler, refused.click); a.status != http.StatusTeapot || a.body != "no" {
			e.Errorf("answer = %d %q, want the error handler's", a.status, a.body)
		}
		if _, ok := errors.AsType[*lockmw.AcquireError](got); !errors.Is(got, refused.want) || !ok {
			e.Errorf("error = %v, want an *AcquireError that is %v", got, refused.want)
		}
	}
	e.WantRuns(1)
}

func mistakesOfIdempotentPanicAtTheStart(e *env) {
	limit, patience := 100, time.Minute
	for want, change := range map[string]func(*Route){
		"Idempotent: the Locker is nil":                                       func(r *Route) { r.Locks = nil },
		"Idempotent: the key function is nil":                                 func(r *Route) { r.Key = nil },
		"Idempotent: " + lockmw.ErrInvalidPolicy.Error() + ": Retain":         func(r *Route) { r.Flight.Retain = -1 },
		"Idempotent: " + lockmw.ErrInvalidPolicy.Error() + ": Retain is zero": func(r *Route) { r.Flight.Retain = 0 },
		"Idempotent: " + lockmw.ErrInvalidPolicy.Error() + ": MaxAnswer":      func(r *Route) { r.Flight.MaxAnswer = -1 },
		"Idempotent: Flight.Fingerprint: each request has its own":            func(r *Route) { r.Flight.Fingerprint = []byte("x") },
		`Idempotent: whose key? It is made of the header "Idempotency-Key" alone`: func(r *Route) {
			r.Key = keyfunc.MustParse("{header.Idempotency-Key|idempotency}")
		},
		"option 1 is nil":                    func(r *Route) { r.Options.Nil = true },
		"WithKeep: the function is nil":      func(r *Route) { r.Options.NilKeep = true },
		"WithFingerprint: the function is":   func(r *Route) { r.Options.NilFingerprint = true },
		"Idempotent: WithReadWrite: ":        func(r *Route) { r.Options.ReadWrite = true },
		"Idempotent: WithBufferedResponse: ": func(r *Route) { r.Options.BufferedResponse = &limit },
		"Idempotent: WithBodyTimeout: ":      func(r *Route) { r.Options.BodyTimeout = patience },
	} {
		route := e.onceRoute(fine)
		change(&route)
		e.wantPanic(route, want)
	}
	for want, change := range map[string]func(*Route){
		"Middleware: WithKeep: ":            func(r *Route) { r.Options.Keep = func(int, http.Header) bool { return true } },
		"Middleware: WithFingerprint: ":     func(r *Route) { r.Options.Fingerprint = func(*http.Request) ([]byte, error) { return nil, nil } },
		"Middleware: WithOptionalKey: ":     func(r *Route) { r.Options.OptionalKey = true },
		"Middleware: WithKeysOfEverybody: ": func(r *Route) { r.Options.KeysOfEverybody = true },
	} {
		route := e.route(fine)
		change(&route)
		e.wantPanic(route, want)
	}
	everybody := e.onceRoute(e.receipt)
	everybody.Key, everybody.Options.KeysOfEverybody = keyfunc.MustParse("{header.Idempotency-Key}"), true
	handler := e.handler(everybody)
	ann := e.ask(handler, click{key: "k", user: "ann"})
	e.wantReplay(e.ask(handler, click{key: "k", user: "bob"}), ann)
}
