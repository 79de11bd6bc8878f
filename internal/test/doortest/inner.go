package doortest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// The set-up for a payment that docs/answers.md recommends: Idempotent with Uncertain, a lock behind it, and the handler. What becomes of the request
// when something happens to one of the two locks, and the answer does not tell what was done.

// paymentRoute is a route with an Idempotent, and with the lock of the usual route behind it, whose policy and options may be changed.
func (e *env) paymentRoute(crash lockmw.Crash, handle func(x *Exchange) error) Route {
	route := e.onceRoute(handle)
	route.Flight.Crash = crash
	inner := e.route(nil)
	route.Behind = &inner
	return route
}

// soon is a MaxHold. A handler waits for its end, however long that takes.
const soon = 50 * time.Millisecond

// wantEnd fails the test unless the handler's context ends with that cause.
func (e *env) wantEnd(x *Exchange, want error) {
	e.Helper()
	select {
	case <-x.R.Context().Done():
	case <-time.After(e.Patience):
	}
	if cause := context.Cause(x.R.Context()); !errors.Is(cause, want) {
		e.Errorf("the handler's context ends with %v, want %v", cause, want)
	}
}

// answersWith is what an error handler or a handler answers.
func answersWith(status int) func(http.ResponseWriter, *http.Request, error) {
	return func(w http.ResponseWriter, _ *http.Request, _ error) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "as you say")
	}
}

// keyOf is the key of a click in a variant of a case.
func keyOf(variant string) click { return click{key: strings.ReplaceAll(variant, " ", "-")} }

// wantKnown fails the test if nobody knows of some work whether it was done.
func (e *env) wantKnown() {
	e.Helper()
	if keys := e.UncertainKeys(prefix); len(keys) > 0 {
		e.Errorf("%q is listed as uncertain, want nothing", keys)
	}
}

// wantUncertain fails the test unless nobody knows what became of the click: whoever sends it again is told so, and operators find the work. Then it
// says that the work was not done, and wants it to be done by the next.
func (e *env) wantUncertain(handler http.Handler, c click) {
	e.Helper()
	ran := int(e.Ran.Load())
	e.wantProblem(e.ask(handler, c), http.StatusConflict, lockmw.CodeIdempotencyUncertain)
	e.WantRuns(ran)
	keys := e.UncertainKeys(prefix)
	if len(keys) != 1 {
		e.Errorf("%q are listed as uncertain, want one", keys)
		return
	}
	e.ResolveUncertain(keys[0], lockmw.Again)
	e.wantDoneOnce(handler, c)
}

// wantDoneOnce fails the test unless the click, whose handler has an answer now, is done by the next request and not by the one behind it.
func (e *env) wantDoneOnce(handler http.Handler, c click) {
	e.Helper()
	ran := int(e.Ran.Load())
	first := e.ask(handler, c)
	e.wantStatus(first, http.StatusCreated)
	e.wantReplay(e.ask(handler, c), first)
	e.WantRuns(ran + 1)
}

// refusalOfAnInnerLockLeavesNoDoubt: nothing was done, whatever an error handler makes of the refusal, and although the work was told to stop while it
// waited for the lock.
func refusalOfAnInnerLockLeavesNoDoubt(e *env) {
	for name, tc := range map[string]struct {
		handle func(w http.ResponseWriter, r *http.Request, err error)
		ends   bool // MaxHold of Idempotent passes while the request waits
		status int
	}{
		"busy":                         {nil, false, http.StatusConflict},
		"as an outage":                 {answersWith(http.StatusServiceUnavailable), false, http.StatusServiceUnavailable},
		"as an outage, told to stop":   {answersWith(http.StatusServiceUnavailable), true, http.StatusServiceUnavailable},
		"as an answer":                 {answersWith(http.StatusOK), false, http.StatusOK},
		"as an answer to one who left": {answersWith(http.StatusOK), true, http.StatusOK},
	} {
		e.Ran.Store(0)
		route := e.paymentRoute(lockmw.Uncertain, e.receipt)
		route.Behind.Options.ErrorHandler = tc.handle
		if tc.ends {
			route.Behind.Policy.Wait, route.Flight.Policy.MaxHold = e.Patience, soon
		}
		handler, c := e.handler(route), keyOf(name)
		lease := e.hold()
		e.wantStatus(e.ask(handler, c), tc.status)
		e.WantRuns(0)
		e.wantKnown()
		e.Release(lease)
		sound := e.paymentRoute(lockmw.Uncertain, e.receipt)
		sound.Behind.Policy.Wait = e.Patience // Redis may not have heard yet that nobody waits
		e.wantDoneOnce(e.handler(sound), c)
	}
}

// lostInnerLockIsUncertain: the handler has said nothing, and the lock's own answer does not tell what it did. Its client hears that, and nobody else.
func lostInnerLockIsUncertain(e *env) {
	for name, handle := range map[string]func(w http.ResponseWriter, r *http.Request, err error){
		"problem": nil, "envelope": answersWith(http.StatusOK), "refusal": answersWith(http.StatusConflict),
	} {
		for _, crash := range []lockmw.Crash{lockmw.RunAgain, lockmw.Uncertain} {
			e.Ran.Store(0)
			route := e.paymentRoute(crash, func(x *Exchange) error {
				if e.Ran.Load() > 1 {
					return e.receipt(x)
				}
				e.ways()["deleted"]()
				return nil
			})
			route.Behind.Options.ErrorHandler = handle
			handler, c := e.handler(route), click{key: name}
			if crash == lockmw.Uncertain {
				c.user = "bob"
			}
			a := e.ask(handler, c)
			if handle == nil {
				e.wantProblem(a, http.StatusInternalServerError, lockmw.CodeLost)
			} else if a.body != "as you say" {
				e.Errorf("%s: answer = %d %q, want the error handler's", name, a.status, a.body)
			}
			if crash == lockmw.Uncertain {
				e.wantUncertain(handler, c)
			} else {
				e.wantDoneOnce(handler, c)
			}
		}
	}
}

// innerMaxHoldIsUncertain: a handler that the lock behind Idempotent has told to stop, and that says nothing, has not answered, nor has with Uncertain
// one that fails.
func innerMaxHoldIsUncertain(e *env) {
	silent := func(*Exchange) error { return nil }
	fails := func(x *Exchange) error {
		answersWith(http.StatusServiceUnavailable)(x.W, x.R, nil)
		return nil
	}
	for name, tc := range map[string]struct {
		crash  lockmw.Crash
		answer func(x *Exchange) error
		status int
		code   string // of a problem
		ends   func(handler http.Handler, c click)
	}{
		"silent":            {lockmw.Uncertain, silent, http.StatusConflict, lockmw.CodeIdempotencyUncertain, e.wantUncertain},
		"silent, to repeat": {lockmw.RunAgain, silent, http.StatusInternalServerError, lockmw.CodeLost, e.wantDoneOnce},
		"fails":             {lockmw.Uncertain, fails, http.StatusServiceUnavailable, "", e.wantUncertain},
		"fails, to repeat":  {lockmw.RunAgain, fails, http.StatusServiceUnavailable, "", e.wantDoneOnce},
	} {
		e.Ran.Store(0)
		route := e.paymentRoute(tc.crash, func(x *Exchange) error {
			if e.Ran.Load() > 1 {
				return e.receipt(x)
			}
			e.wantEnd(x, lockmw.ErrMaxHold)
			return tc.answer(x)
		})
		route.Behind.Policy.MaxHold = soon
		handler, c := e.handler(route), keyOf(name)
		if a := e.ask(handler, c); tc.code != "" {
			e.wantProblem(a, tc.status, tc.code)
		} else {
			e.wantStatus(a, tc.status)
		}
		e.WantRuns(1)
		tc.ends(handler, c)
	}
	route := e.paymentRoute(lockmw.Uncertain, func(x *Exchange) error {
		e.wantEnd(x, lockmw.ErrMaxHold)
		return e.receipt(x) // it has done it all the same
	})
	route.Behind.Policy.MaxHold = soon
	e.Ran.Store(0)
	e.wantDoneOnce(e.handler(route), click{key: "done"})
}

// nothingWasDoneCountsAfterTheEnd: a handler that was told to stop, and knows that nothing was done, is believed, unless the lock of Idempotent was
// lost.
func nothingWasDoneCountsAfterTheEnd(e *env) {
	for name, status := range map[string]int{"silent": 0, "as an outage": http.StatusServiceUnavailable, "as an answer": http.StatusOK} {
		for _, inner := range []bool{false, true} {
			e.Ran.Store(0)
			route := e.paymentRoute(lockmw.Uncertain, func(x *Exchange) error {
				if e.Ran.Load() > 1 {
					return e.receipt(x)
				}
				e.wantEnd(x, lockmw.ErrMaxHold)
				lockmw.NotAnAnswer(x.R.Context())
				if status != 0 {
					answersWith(status)(x.W, x.R, nil)
				}
				return nil
			})
			c := keyOf(name)
			if inner {
				route.Behind.Policy.MaxHold, c.user = soon, "bob"
			} else {
				route.Behind, route.Flight.Policy.MaxHold = nil, soon
			}
			handler := e.handler(route)
			if a := e.ask(handler, c); status == 0 {
				e.wantProblem(a, http.StatusInternalServerError, lockmw.CodeLost)
			} else {
				e.wantStatus(a, status)
			}
			e.WantRuns(1)
			e.wantKnown()
			e.wantDoneOnce(handler, c)
		}
	}
	e.Ran.Store(0)
	route := e.onceRoute(func(x *Exchange) error {
		if lease, ok := lockmw.FromContext(x.R.Context()); ok && e.Ran.Load() == 1 {
			e.Client.Del(context.Background(), e.RedisKey(lease.Key()))
			seam.RenewNow(e.Locks, lease.Key())
			e.wantEnd(x, lockmw.ErrLost)
			lockmw.NotAnAnswer(x.R.Context())
			answersWith(http.StatusServiceUnavailable)(x.W, x.R, nil)
			return nil
		}
		return e.receipt(x)
	})
	route.Flight.Crash = lockmw.Uncertain
	handler, c := e.handler(route), click{key: "lost"}
	e.wantProblem(e.ask(handler, c), http.StatusInternalServerError, lockmw.CodeLost)
	e.wantUncertain(handler, c)
}

// firstClientIsToldOfUncertainWork: what the first client is told of work of which nobody knows is a refusal as any other, with the work's id for the
// error handler, an event, and one line in the log.
func firstClientIsToldOfUncertainWork(e *env) {
	var log testenv.Log
	others := e.Locks
	e.Locks = e.NewLocker(log.Option())
	route := e.onceRoute(func(x *Exchange) error {
		e.wantEnd(x, lockmw.ErrMaxHold)
		return nil
	})
	route.Flight.Crash, route.Flight.Policy.MaxHold = lockmw.Uncertain, soon
	var told []error
	route.Options.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		told = append(told, err)
		answersWith(http.StatusTeapot)(w, r, err)
	}
	handler := e.handler(route)
	refused := e.Seen(lockmw.EventRefused)
	for range 2 {
		e.wantStatus(e.ask(handler, click{key: "k"}), http.StatusTeapot)
	}
	e.WantRuns(1)
	if got := e.Seen(lockmw.EventRefused) - refused; got != 2 {
		e.Errorf("observers were told of %d refusals, want 2", got)
	}
	var work []lockmw.UncertainError
	for _, err := range told {
		if unknown, ok := errors.AsType[*lockmw.UncertainError](err); ok && errors.As(err, new(*lockmw.AcquireError)) {
			work = append(work, *unknown)
		} else {
			e.Errorf("the error handler was told %v, want an *AcquireError with an *UncertainError in it", err)
		}
	}
	if len(work) != 2 || work[0] != work[1] {
		e.Fatalf("the error handler was told of %+v, want the same work twice", work)
	}
	if err := others.Resolve(context.Background(), work[0].Key, work[0].ID, lockmw.Discard); err != nil {
		e.Error(err)
	}
	e.CloseNow(e.Locks)
	lines := slices.DeleteFunc(log.Lines(), func(line string) bool { return !strings.Contains(line, lockmw.CodeIdempotencyUncertain) })
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "ERROR ") || !strings.Contains(lines[0], work[0].ID) {
		e.Errorf("logged %q, want one line about the work %s", lines, work[0].ID)
	}
}
