package rpctest

import (
	"context"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func busyIsRefused(e *env) {
	e.serve(&shop{})
	lease := e.hold()
	e.wantRefusal(e.pay(), codes.Aborted, "LOCK_BUSY")
	e.WantRuns(0)
	e.wantCode(e.payFor(&testpb.Order{OrderId: "another"}), codes.OK)
	e.Release(lease)
	e.wantCode(e.pay(), codes.OK)
	e.WantRuns(2)
}

// coolDownInvitesNobody is about a client that obeys RetryInfo and the trailer: it does not do again what is done.
func coolDownInvitesNobody(e *env) {
	e.serve(&shop{rules: usual(func(p *lockmw.Policy) { p.MinHold, p.RetryAfter = time.Minute, 10*time.Second })})
	e.wantCode(e.pay(), codes.OK)
	e.wantRefusal(e.pay(), codes.Aborted, "LOCK_COOLDOWN")
	e.WantRuns(1)
}

func waiterIsServed(e *env) {
	e.serve(&shop{rules: usual(patient)})
	e.servedBehind(e.hold())
	e.WantRuns(1)
}

// servedBehind fails the test unless a call waits for the lease, and has its turn when that is released.
func (e *env) servedBehind(lease *lockmw.Lease) {
	e.Helper()
	ctx, cancel := e.context()
	defer cancel()
	answers := e.background(ctx)
	e.Until("the call waits", func() bool { return e.Seen(lockmw.EventContended) == 1 })
	e.WantRuns(0)
	e.Release(lease)
	e.wantCode(testenv.Receive(e.Env, "the answer", answers), codes.OK)
}

func waitEndsWithTheBudget(e *env) {
	e.serve(&shop{rules: usual(func(p *lockmw.Policy) { p.Wait = 20 * time.Millisecond })})
	e.hold()
	e.wantRefusal(e.answered(e.pay), codes.Aborted, "LOCK_WAIT_TIMEOUT")
	e.WantRuns(0)
}

func forever(p *lockmw.Policy) { p.Retries = lockmw.Forever }

func waitEndsWithTheDeadline(e *env) {
	e.hold()
	rare := func(p *lockmw.Policy) { p.RetryInterval = time.Minute } // no question is under way at the deadline
	a := e.answered(func() Answer {
		ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond) // long enough for a first answer
		defer cancel()
		return e.direct(ctx, &shop{rules: usual(forever, rare)})
	})
	e.wantRefusal(a, codes.DeadlineExceeded, "LOCK_WAIT_TIMEOUT")
	e.WantRuns(0)
}

// answered is testenv.Answered.
func (e *env) answered(ask func() Answer) Answer {
	return testenv.Answered(ask, func(a Answer) bool {
		return slices.ContainsFunc(a.Status.Details(), func(detail any) bool {
			info, ok := detail.(*errdetails.ErrorInfo)
			return ok && info.GetReason() == lockmw.CodeBackendUnavailable
		})
	})
}

// direct calls the unary method without a connection.
func (e *env) direct(ctx context.Context, s *shop) Answer {
	e.Helper()
	service := e.service(s)
	answers := make(chan Answer, 1)
	go func() { // ends with the Locker at the latest
		a, _ := e.fw.Direct(ctx, service)
		answers <- a
	}()
	return testenv.Receive(e.Env, "the answer", answers)
}

func fullQueueIsRefused(e *env) {
	e.Locks = e.NewLocker(lockmw.WithMaxWaiters(1, 1))
	e.serve(&shop{rules: usual(patient)})
	lease := e.hold()
	ctx, cancel := e.context()
	defer cancel()
	answers := e.background(ctx)
	e.Until("the first call waits", func() bool { return e.Seen(lockmw.EventContended) == 1 })
	e.wantRefusal(e.pay(), codes.ResourceExhausted, "LOCK_QUEUE_FULL")
	e.WantRuns(0)
	e.Release(lease)
	e.wantCode(testenv.Receive(e.Env, "the answer", answers), codes.OK)
}

func redisThatIsDownIsRefused(e *env) {
	rules := usual()
	rules[WatchMethod] = usual(func(p *lockmw.Policy) { p.Wait = 500 * time.Millisecond })[ShopService+"*"]
	e.serve(&shop{rules: rules})
	e.Backend.(*redistest.Mini).Close()
	start := time.Now()
	e.wantRefusal(e.pay(), codes.Unavailable, "LOCK_BACKEND_UNAVAILABLE")
	for _, method := range streams {
		a, _ := e.streamed(method)
		e.wantRefusal(a, codes.Unavailable, "LOCK_BACKEND_UNAVAILABLE")
	}
	if took := time.Since(start); took > e.Patience { // 0.5 s, on a machine that is busy
		e.Errorf("refused after %v", took)
	}
	e.WantRuns(0)
}

func closedLockerIsRefused(e *env) {
	e.serve(&shop{})
	e.CloseNow(e.Locks)
	e.wantRefusal(e.pay(), codes.Unavailable, "LOCK_CLOSED")
	e.WantRuns(0)
}

func otherDataIsLeftAlone(e *env) {
	ctx := context.Background()
	if err := e.Client.HSet(ctx, e.RedisKey(lockKey), "balance", "100").Err(); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { e.Client.Del(ctx, e.RedisKey(lockKey)) })
	e.serve(&shop{})
	e.wantRefusal(e.pay(), codes.Unavailable, "LOCK_BACKEND_UNAVAILABLE")
	e.WantRuns(0)
	if got := e.Client.HGetAll(ctx, e.RedisKey(lockKey)).Val(); len(got) != 1 || got["balance"] != "100" {
		e.Errorf("the data are %v, want them as they were", got)
	}
}

func nestedLockIsRefused(e *env) {
	lease := e.hold()
	e.wantRefusal(e.direct(lease.Context(), &shop{}), codes.Internal, "LOCK_MISUSE")
	e.WantRuns(0)
}

func waiterWhoLeavesIsForgotten(e *env) {
	e.serve(&shop{rules: usual(forever)})
	lease := e.hold()
	ctx, leave := e.context()
	answers := e.background(ctx)
	e.Until("the call waits", func() bool { return e.Seen(lockmw.EventContended) == 1 })
	leave()
	testenv.Receive(e.Env, "the client's end", answers)
	e.Until("the wait ends", func() bool { return e.Seen(lockmw.EventRefused) == 1 })
	e.Release(lease)
	e.Until("nothing is left in Redis", func() bool { return len(e.Left()) == 0 })
	e.WantRuns(0)
}

func clientWhoIsGoneGetsNothing(e *env) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range []*shop{{}, {options: Options{ErrorHandler: func(context.Context, string, error) error {
		e.Error("the error handler is called, and nobody is there to read its answer")
		return nil
	}}}} {
		a := e.direct(ctx, s)
		e.wantCode(a, codes.Canceled)
		if len(a.Status.Details()) > 0 || len(a.Trailer) > 0 {
			e.Errorf("details %v, trailer %v; want none", a.Status.Details(), a.Trailer)
		}
		e.wantNoSecrets(a)
	}
	e.WantRuns(0)
}
