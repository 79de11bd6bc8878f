package doortest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/test/testenv"
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

// secondClickIsRefused is about MinHold: what was done is not done again for that long,
// and what has failed can be tried again at once.
func secondClickIsRefused(e *env) {
	answers := func(status int) func(*Exchange) error {
		return func(x *Exchange) error {
			x.W.WriteHeader(status)
			return nil
		}
	}
	clicks := []struct {
		name   string
		handle func(*Exchange) error
		again  bool // the second click comes through
	}{
		{"nothing written", fine, false},
		{"written without a status", func(x *Exchange) error { _, err := x.W.Write([]byte("paid")); return err }, false},
		{"201", answers(http.StatusCreated), false},
		{"a redirect", answers(http.StatusSeeOther), false},
		{"400", answers(http.StatusBadRequest), true},
		{"503", answers(http.StatusServiceUnavailable), true},
		{"an error", func(*Exchange) error { return errHandler }, true},
		{"a panic", func(*Exchange) error { panic(http.ErrAbortHandler) }, true},
	}
	buffered := 100
	for i, click := range clicks {
		for _, held := range []bool{false, true} {
			for _, keeps := range []bool{false, true} {
				name := fmt.Sprintf("%s, response held back: %v, MinHoldOnError: %v", click.name, held, keeps)
				ran := 0
				route := e.route(func(x *Exchange) error {
					ran++
					return click.handle(x)
				})
				route.Policy.Prefix = fmt.Sprint(prefix, i, held, keeps)
				route.Policy.MinHold, route.Policy.MinHoldOnError = time.Minute, keeps
				if held {
					route.Options.BufferedResponse = &buffered
				}
				handler := e.handler(route)
				for range 2 {
					done := make(chan struct{})
					go func() {
						defer close(done)
						defer func() { _ = recover() }()
						handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, payPath, nil))
					}()
					testenv.Receive(e.Env, "the end of the handler", done)
				}
				want := 1
				if click.again && !keeps {
					want = 2
				}
				if ran != want {
					e.Errorf("%s: the handler ran %d times for two clicks, want %d", name, ran, want)
				}
			}
		}
	}
}

// clientWhoLeavesMayTryAgain is about MinHold, too: work whose client has left before its answer
// was complete has failed, whatever its handler answers then.
func clientWhoLeavesMayTryAgain(e *env) {
	clicks := []struct {
		name   string
		early  func(x *Exchange) // what is written while the client is there
		late   func(x *Exchange) // what is written when it has left
		served bool              // the client has all of the answer
	}{
		{name: "nothing written"},
		{name: "written too late", late: func(x *Exchange) { _, _ = io.WriteString(x.W, "paid") }},
		{name: "whole, but too late", late: func(x *Exchange) { answerPaid(x, "paid") }},
		{name: "the first part", early: func(x *Exchange) { answerPaid(x, "pa") }},
		{name: "the first part, and the rest too late", early: func(x *Exchange) { answerPaid(x, "pa") }, late: func(x *Exchange) { _, _ = io.WriteString(x.W, "id") }},
		{name: "of unknown length", early: func(x *Exchange) {
			_, _ = io.WriteString(x.W, "paid")
			_ = http.NewResponseController(x.W).Flush()
		}},
		{name: "whole", early: func(x *Exchange) { answerPaid(x, "paid") }, served: true},
		{name: "whole, in parts", early: func(x *Exchange) {
			answerPaid(x, "pa")
			_, _ = io.WriteString(x.W, "id")
			_ = http.NewResponseController(x.W).Flush()
		}, served: true},
		{name: "without a body", early: func(x *Exchange) {
			x.W.WriteHeader(http.StatusNoContent)
			_ = http.NewResponseController(x.W).Flush()
		}, served: true},
	}
	buffered := 100
	for i, click := range clicks {
		for _, held := range []bool{false, true} {
			for _, keeps := range []bool{false, true} {
				name := fmt.Sprintf("%s, response held back: %v, MinHoldOnError: %v", click.name, held, keeps)
				started := make(chan struct{}, 1)
				first := true
				route := e.route(func(x *Exchange) error {
					if !first {
						return nil
					}
					first = false
					if click.early != nil {
						click.early(x)
					}
					started <- struct{}{}
					select {
					case <-x.R.Context().Done():
					case <-time.After(e.Patience):
						e.Errorf("%s: the handler does not hear that its client has left", name)
					}
					if click.late != nil {
						click.late(x)
					}
					return nil
				})
				route.Policy.Prefix = fmt.Sprint(prefix, i, held, keeps)
				route.Policy.MinHold, route.Policy.MinHoldOnError = time.Minute, keeps
				if held {
					route.Options.BufferedResponse = &buffered
				}
				over := make(chan struct{}, 2)
				route.After = func(*http.Request) { over <- struct{}{} }
				e.serve(route)
				ctx, leave := context.WithCancel(context.Background())
				request := e.request(http.MethodPost, payPath, nil).WithContext(ctx)
				request.Close = true // with a whole answer the client would keep the connection
				answers := e.background(request)
				testenv.Receive(e.Env, "the handler's start", started)
				leave()
				testenv.Receive(e.Env, "the client's end", answers)
				testenv.Receive(e.Env, "the handler's end", over)
				want := http.StatusOK
				if keeps || click.served && !held {
					want = http.StatusConflict
				}
				if a := e.pay(); a.status != want {
					e.Errorf("%s: the second try is answered with %d, want %d", name, a.status, want)
				}
			}
		}
	}
}

// answerPaid writes and flushes what is there of an answer of four bytes.
func answerPaid(x *Exchange, part string) {
	x.W.Header().Set("Content-Length", "4")
	_, _ = io.WriteString(x.W, part)
	_ = http.NewResponseController(x.W).Flush()
}
