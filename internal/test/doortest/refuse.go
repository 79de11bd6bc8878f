package doortest

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func busyIsRefused(e *env) {
	e.serve(e.route(fine))
	lease := e.hold()
	e.wantProblem(e.pay(), http.StatusConflict, "LOCK_BUSY")
	e.WantRuns(0)
	e.Release(lease)
	e.wantStatus(e.pay(), http.StatusOK)
	e.WantRuns(1)
}

// coolDownInvitesNobody is about a client that obeys Retry-After: it does not do again what is done, whatever the policy has for
// those who come while it is being done.
func coolDownInvitesNobody(e *env) {
	once, waiting := e.route(fine), e.route(fine)
	once.Policy.MinHold, once.Policy.RetryAfter = 20*time.Second, 10*time.Second
	waiting.Path = "/patient/{id}"
	waiting.Policy.Wait = 20 * time.Millisecond
	e.serve(once, waiting)
	e.wantStatus(e.pay(), http.StatusOK)
	e.wantProblem(e.pay(), http.StatusConflict, "LOCK_COOLDOWN")
	a := e.answered(func() answer { return e.do(e.request(http.MethodPost, "/patient/"+id, nil)) })
	e.wantProblem(a, http.StatusConflict, "LOCK_COOLDOWN")
	e.WantRuns(1)
}

func waiterIsServed(e *env) {
	route := e.route(fine)
	route.Policy.Wait = e.Patience
	e.serve(route)
	lease := e.hold()
	answers := e.background(e.request(http.MethodPost, payPath, nil))
	e.Until("the request waits", func() bool { return e.Seen(lockmw.EventContended) == 1 })
	e.WantRuns(0)
	e.Release(lease)
	a := testenv.Receive(e.Env, "the answer", answers)
	e.wantStatus(a, http.StatusOK)
	e.WantRuns(1)
}

func waitEndsWithTheBudget(e *env) {
	route := e.route(fine)
	route.Policy.Wait = 20 * time.Millisecond
	e.serve(route)
	e.hold()
	e.wantProblem(e.answered(e.pay), http.StatusConflict, "LOCK_WAIT_TIMEOUT")
	e.WantRuns(0)
}

func waitEndsWithTheDeadline(e *env) {
	route := e.route(fine)
	route.Policy.Retries = lockmw.Forever
	handler := e.handler(route)
	e.hold()
	a := e.answered(func() answer {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond) // long enough for a first answer
		defer cancel()
		return e.record(ctx, handler)
	})
	e.wantProblem(a, http.StatusConflict, "LOCK_WAIT_TIMEOUT")
	e.WantRuns(0)
}

// answered is testenv.Answered.
func (e *env) answered(ask func() answer) answer {
	return testenv.Answered(ask, func(a answer) bool { return strings.Contains(a.body, lockmw.CodeBackendUnavailable) })
}

// record has handler serve the usual request without a server.
func (e *env) record(ctx context.Context, handler http.Handler) answer {
	e.Helper()
	answers := make(chan answer, 1)
	go func() { // ends with the Locker at the latest
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, payPath, nil).WithContext(ctx))
		answers <- answer{w.Code, w.Result().Header, w.Body.String()}
	}()
	a := testenv.Receive(e.Env, "the answer", answers)
	return a
}

func fullQueueIsRefused(e *env) {
	e.Locks = e.NewLocker(lockmw.WithMaxWaiters(1, 1))
	route := e.route(fine)
	route.Policy.Wait = e.Patience
	e.serve(route)
	lease := e.hold()
	answers := e.background(e.request(http.MethodPost, payPath, nil))
	e.Until("the first request waits", func() bool { return e.Seen(lockmw.EventContended) == 1 })
	e.wantProblem(e.pay(), http.StatusServiceUnavailable, "LOCK_QUEUE_FULL")
	e.WantRuns(0)
	e.Release(lease)
	a := testenv.Receive(e.Env, "the answer", answers)
	e.wantStatus(a, http.StatusOK)
}

func redisThatIsDownIsRefused(e *env) {
	once, waiting := e.route(fine), e.route(fine)
	waiting.Path = "/patient/{id}"
	waiting.Policy.Wait = 500 * time.Millisecond
	e.serve(once, waiting)
	e.Backend.(*redistest.Mini).Close()
	for _, path := range []string{payPath, "/patient/" + id} {
		start := time.Now()
		e.wantProblem(e.do(e.request(http.MethodPost, path, nil)), http.StatusServiceUnavailable, "LOCK_BACKEND_UNAVAILABLE")
		if took := time.Since(start); took > 3*time.Second { // 0.5 s, on a machine that is busy
			e.Errorf("%s: refused after %v", path, took)
		}
	}
	e.WantRuns(0)
}

func closedLockerIsRefused(e *env) {
	e.serve(e.route(fine))
	e.CloseNow(e.Locks)
	e.wantProblem(e.pay(), http.StatusServiceUnavailable, "LOCK_CLOSED")
	e.WantRuns(0)
}

func otherDataIsLeftAlone(e *env) {
	ctx := context.Background()
	if err := e.Client.HSet(ctx, e.RedisKey(lockKey), "balance", "100").Err(); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { e.Client.Del(ctx, e.RedisKey(lockKey)) })
	e.serve(e.route(fine))
	e.wantProblem(e.pay(), http.StatusServiceUnavailable, "LOCK_BACKEND_UNAVAILABLE")
	e.WantRuns(0)
	if got := e.Client.HGetAll(ctx, e.RedisKey(lockKey)).Val(); len(got) != 1 || got["balance"] != "100" {
		e.Errorf("the data are %v, want them as they were", got)
	}
}

func nestedLockIsRefused(e *env) {
	handler := e.handler(e.route(fine))
	lease := e.hold()
	e.wantProblem(e.record(lease.Context(), handler), http.StatusInternalServerError, "LOCK_MISUSE")
	e.WantRuns(0)
}

func waiterWhoLeavesIsForgotten(e *env) {
	long := int64(2 * overLimit)
	route := e.route(fine)
	route.Policy.Retries = lockmw.Forever
	route.Options.BodyLimit = &long
	e.serve(route)
	for i, length := range []int{0, 1000, overLimit} { // up to the limit
		lease := e.hold()
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		answers := e.background(e.request(http.MethodPost, payPath, bytes.NewReader(make([]byte, length))).WithContext(ctx))
		e.Until("the request waits", func() bool { return e.Seen(lockmw.EventContended) == i+1 })
		leave()
		testenv.Receive(e.Env, "the client's end", answers)
		e.Until("the wait ends", func() bool { return e.Seen(lockmw.EventRefused) == i+1 })
		e.Release(lease)
		e.Until("nothing is left in Redis", func() bool { return len(e.Left()) == 0 })
	}
	e.WantRuns(0)
}

func clientWhoIsGoneGetsNothing(e *env) {
	route := e.route(fine)
	route.Options.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {
		e.Error("the error handler is called, and nobody is there to read its answer")
	}
	for _, route := range []Route{e.route(fine), route} {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		a := e.record(ctx, e.handler(route))
		if a.body != "" || len(a.header) > 0 {
			e.Errorf("answer = %v %q, want neither header nor body", a.header, a.body)
		}
		if a.status < 400 {
			e.Errorf("status = %d, want one that nobody takes for success", a.status)
		}
	}
	e.WantRuns(0)
}
