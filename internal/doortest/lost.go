package doortest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// lossy returns the usual route with a TTL at which a loss is noticed soon.
func (e *env) lossy(handle func(x *Exchange) error) Route {
	route := e.route(handle)
	route.Policy.TTL = 600 * time.Millisecond
	return route
}

// ways in which a lock is taken away. They are called while it is held.
func (e *env) ways() map[string]func() {
	ctx := context.Background()
	return map[string]func(){
		"deleted": func() {
			if n := e.Client.Del(ctx, e.RedisKey(lockKey)).Val(); n != 1 {
				e.Errorf("%d keys were deleted, want 1", n)
			}
		},
		"taken": func() {
			if err := e.Client.SetXX(ctx, e.RedisKey(lockKey), "other", e.Patience).Err(); err != nil {
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
		e.serve(e.lossy(func(x *Exchange) error {
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
		route := e.lossy(paid(lose))
		route.Options.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {
			e.Error("the error handler is called, and there is no place for its answer")
		}
		e.serve(route)
		e.wantPaid(e.pay())
		e.cleared()
	}
	e.WantRuns(2)
}

func lostLockReplacesAHeldResponse(e *env) {
	for _, lose := range e.ways() {
		route := e.lossy(paid(lose))
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
		route := e.lossy(paid(lose))
		buffered := 3
		route.Options.BufferedResponse = &buffered
		e.serve(route)
		e.wantPaid(e.pay())
		e.cleared()
	}
	e.WantRuns(2)
}
