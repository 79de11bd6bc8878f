package doortest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// An exit is how a handler ends.
type exit struct {
	name   string
	handle func(x *Exchange) error
	panics any  // what it panics with
	gone   bool // the goroutine ends
}

var errHandler = errors.New("the handler failed")

func exits() []exit {
	value := &exit{name: "a value of its own"}
	return []exit{
		{name: "return", handle: fine},
		{name: "error", handle: func(*Exchange) error { return errHandler }},
		{name: "panic", handle: func(*Exchange) error { panic(value) }, panics: value},
		{name: "ErrAbortHandler", handle: func(*Exchange) error { panic(http.ErrAbortHandler) }, panics: http.ErrAbortHandler},
		{name: "Goexit", handle: func(*Exchange) error { runtime.Goexit(); return nil }, gone: true},
	}
}

func everyExitReleases(e *env) {
	const times = 100
	all := exits()
	buffered := 100
	for _, exit := range all {
		route := e.route(exit.handle)
		route.Policy.Wait = e.Patience // a machine that is busy is no reason to refuse
		held := route
		held.Options.BufferedResponse = &buffered
		handlers := []http.Handler{e.handler(route), e.handler(held)}
		for i := range times {
			value, returned := e.runAway(handlers[i%len(handlers)])
			if value != exit.panics || returned == (exit.gone || exit.panics != nil) {
				e.Fatalf("%s: panic value %v, returned %v", exit.name, value, returned)
			}
			if left := e.Left(); len(left) > 0 {
				e.Fatalf("%s: left in Redis: %q", exit.name, left)
			}
		}
	}
	e.WantRuns(times * len(all))
	e.Logf("%d exits of %d kinds left no key", times*len(all), len(all))
}

// runAway has handler serve the usual request in a goroutine of its own, and
// returns what it panicked with and whether it returned.
func (e *env) runAway(handler http.Handler) (value any, returned bool) {
	e.Helper()
	w := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { value = recover() }()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, payPath, nil))
		returned = true
	}()
	testenv.Receive(e.Env, "the end of the handler", done)
	if strings.Contains(w.Body.String(), "LOCK_") {
		e.Fatalf("refused: %d %s", w.Code, w.Body)
	}
	return value, returned
}

// A work is what a handler does with a request.
type work struct {
	name   string
	handle func(*Exchange) error
	fails  bool // the work has failed then
	leaves bool // the client has left before the handler answers, which says nothing of the work
}

func works() []work {
	answers := func(status int) func(*Exchange) error {
		return func(x *Exchange) error {
			x.W.WriteHeader(status)
			return nil
		}
	}
	return []work{
		{name: "nothing written", handle: fine},
		{name: "written without a status", handle: func(x *Exchange) error { _, err := x.W.Write([]byte("paid")); return err }},
		{name: "201", handle: answers(http.StatusCreated)},
		{name: "a redirect", handle: answers(http.StatusSeeOther)},
		{name: "400", handle: answers(http.StatusBadRequest), fails: true},
		{name: "503", handle: answers(http.StatusServiceUnavailable), fails: true},
		{name: "an error", handle: func(*Exchange) error { return errHandler }, fails: true},
		{name: "a panic", handle: func(*Exchange) error { panic(http.ErrAbortHandler) }, fails: true},
		{name: "nothing written for a client who has left", handle: fine, leaves: true},
		{name: "201 for a client who has left", handle: answers(http.StatusCreated), leaves: true},
		{name: "503 for a client who has left", handle: answers(http.StatusServiceUnavailable), leaves: true, fails: true},
	}
}

// work has handler serve the usual request under ctx, in a goroutine of its own, and returns when that has ended. A panic ends it.
func (e *env) work(ctx context.Context, handler http.Handler) {
	e.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, payPath, nil))
	}()
	testenv.Receive(e.Env, "the end of the handler", done)
}

// failedWorkVoidsItsTicket is about work that goes on elsewhere: the lock is handed on to the ticket, and work that has failed gives it back.
func failedWorkVoidsItsTicket(e *env) {
	buffered := 100
	for _, work := range works() {
		for _, held := range []bool{false, true} {
			ctx, leave := context.WithCancel(context.Background())
			var ticket string
			route := e.route(func(x *Exchange) error {
				lease, _ := lockmw.FromContext(x.R.Context())
				ticket = lease.Ticket(time.Minute)
				if work.leaves {
					leave()
					<-x.R.Context().Done()
				}
				return work.handle(x)
			})
			if held {
				route.Options.BufferedResponse = &buffered
			}
			e.work(ctx, e.handler(route))
			leave()
			e.WantTicket(fmt.Sprintf("%s, response held back: %v", work.name, held), ticket, work.fails)
		}
	}
}

// secondClickIsRefused is about MinHold: what was done is not done again for that long,
// and what has failed can be tried again at once. That a client has left says nothing of it: a
// browser gives the first request of a double click up, and its payment may have been made.
func secondClickIsRefused(e *env) {
	buffered := 100
	for i, work := range works() {
		for _, held := range []bool{false, true} {
			for _, keeps := range []bool{false, true} {
				name := fmt.Sprintf("%s, response held back: %v, MinHoldOnError: %v", work.name, held, keeps)
				ran := 0
				var leave context.CancelFunc
				route := e.route(func(x *Exchange) error {
					if ran++; ran == 1 && work.leaves {
						leave()
						<-x.R.Context().Done()
					}
					return work.handle(x)
				})
				route.Policy.Prefix = fmt.Sprint(prefix, i, held, keeps)
				route.Policy.MinHold, route.Policy.MinHoldOnError = time.Minute, keeps
				if held {
					route.Options.BufferedResponse = &buffered
				}
				handler := e.handler(route)
				for range 2 {
					var ctx context.Context
					ctx, leave = context.WithCancel(context.Background())
					e.work(ctx, handler)
					leave()
				}
				want := 1
				if work.fails && !keeps {
					want = 2
				}
				if ran != want {
					e.Errorf("%s: the handler ran %d times for two clicks, want %d", name, ran, want)
				}
			}
		}
	}
}
