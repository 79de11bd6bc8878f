package rpctest

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/lockmw"
)

// The set-up for a payment that docs/answers.md recommends: Idempotent with Uncertain, a lock behind it, and the handler. What becomes of the call when
// something happens to one of the two locks, and the status does not tell what was done.

// soon is a MaxHold. A handler waits for its end, however long that takes.
const soon = 50 * time.Millisecond

func shortHold(p *lockmw.Policy) { p.MaxHold = soon }

// A payment is a shop whose unary methods answer once, behind which there is the usual lock.
type payment struct {
	*env
	request string // of ann
}

// servePayment serves one, whose calls are the request of that name.
func (e *env) servePayment(name string, s *shop, change ...func(*lockmw.Flight)) payment {
	e.Helper()
	e.Ran.Store(0)
	e.serveOnce(s, change...)
	return payment{e, "secretid-" + name}
}

func (p payment) call() Answer { return p.clickFor("ann", p.request, Order()) }

func uncertain(f *lockmw.Flight) { f.Crash = lockmw.Uncertain }

// says is what an error handler makes of every error.
func says(code codes.Code) Options {
	return Options{ErrorHandler: func(context.Context, string, error) error { return status.Error(code, "as you say") }}
}

// wantKnown fails the test if nobody knows of some work whether it was done.
func (e *env) wantKnown() {
	e.Helper()
	if keys := e.UncertainKeys(prefix); len(keys) > 0 {
		e.Errorf("%q is listed as uncertain, want nothing", keys)
	}
}

// wantUncertain fails the test unless nobody knows what became of the call: whoever sends it again is told so, and operators find the work. Then it says
// that the work was not done, and wants it to be done by the next.
func (p payment) wantUncertain() {
	p.Helper()
	ran := int(p.Ran.Load())
	p.wantRefusal(p.call(), codes.FailedPrecondition, lockmw.CodeIdempotencyUncertain)
	p.WantRuns(ran)
	keys := p.UncertainKeys(prefix)
	if len(keys) != 1 {
		p.Errorf("%q are listed as uncertain, want one", keys)
		return
	}
	p.ResolveUncertain(keys[0], lockmw.Again)
	p.wantDoneOnce()
}

// wantDoneOnce fails the test unless the call, whose handler has a reply now, is done by the next one and not by the one behind it.
func (p payment) wantDoneOnce() {
	p.Helper()
	ran := int(p.Ran.Load())
	first := p.call()
	p.wantOwn(first, codes.OK)
	p.wantReplayed(p.call(), first)
	p.WantRuns(ran + 1)
}

// onlyAtFirst is a handler that does f in its first run alone.
func (e *env) onlyAtFirst(f func(ctx context.Context) error) func(context.Context, *testpb.Order) error {
	return func(ctx context.Context, _ *testpb.Order) error {
		if e.Ran.Load() > 1 {
			return nil
		}
		return f(ctx)
	}
}

// refusalOfAnInnerLockLeavesNoDoubt: nothing was done, whatever an error handler makes of the refusal, and although the work was told to stop while it
// waited for the lock.
func refusalOfAnInnerLockLeavesNoDoubt(e *env) {
	for name, tc := range map[string]struct {
		options Options
		ends    bool // MaxHold of Idempotent passes while the call waits
		code    codes.Code
	}{
		"busy":                  {Options{}, false, codes.Aborted},
		"outage":                {says(codes.Unavailable), false, codes.Unavailable},
		"answer":                {says(codes.FailedPrecondition), false, codes.FailedPrecondition},
		"told-to-stop":          {Options{}, true, codes.DeadlineExceeded},
		"told-to-stop-answered": {says(codes.FailedPrecondition), true, codes.FailedPrecondition},
	} {
		rules, hold := usual(), func(*lockmw.Flight) {}
		if tc.ends {
			rules, hold = usual(patient), func(f *lockmw.Flight) { f.Policy.MaxHold = soon }
		}
		p := e.servePayment(name, &shop{rules: rules, options: tc.options}, uncertain, hold)
		lease := e.hold()
		e.wantOwn(p.call(), tc.code)
		e.WantRuns(0)
		e.wantKnown()
		e.Release(lease)
		e.servePayment(name, &shop{rules: usual(patient)}, uncertain).wantDoneOnce() // Redis may not have heard yet that nobody waits
	}
}

// lostInnerLockIsUncertain: the lock's own status does not tell what the handler did. Its client hears that, and nobody else. So it is with the error of
// a handler that has taken a lock itself.
func lostInnerLockIsUncertain(e *env) {
	lose := func(context.Context) error {
		e.ways()["deleted"]()
		return nil
	}
	for name, tc := range map[string]struct {
		rules   grpclock.Rules
		options Options
		pay     func(context.Context) error
		code    codes.Code
	}{
		"status":  {usual(), Options{}, lose, codes.Internal},
		"answer":  {usual(), says(codes.FailedPrecondition), lose, codes.FailedPrecondition},
		"refusal": {usual(), says(codes.Aborted), lose, codes.Aborted},
		"own": {grpclock.Rules{}, Options{}, func(context.Context) error {
			return fmt.Errorf("the order: %w", lockmw.ErrLost)
		}, codes.Unknown},
		"own-too-long": {grpclock.Rules{}, Options{}, func(context.Context) error {
			return fmt.Errorf("the order: %w", lockmw.ErrMaxHold)
		}, codes.Unknown},
		"own-word": {grpclock.Rules{}, Options{}, func(context.Context) error {
			return fmt.Errorf("the bank: %w", lockmw.ErrUncertain)
		}, codes.Unknown},
	} {
		for _, crash := range []lockmw.Crash{lockmw.RunAgain, lockmw.Uncertain} {
			s := &shop{rules: tc.rules, options: tc.options, pay: e.onlyAtFirst(tc.pay)}
			p := e.servePayment(fmt.Sprint(name, crash), s, func(f *lockmw.Flight) { f.Crash = crash })
			if a := p.call(); name == "status" {
				e.wantRefusal(a, codes.Internal, lockmw.CodeLost)
			} else {
				e.wantCode(a, tc.code)
			}
			if crash == lockmw.Uncertain {
				p.wantUncertain()
			} else {
				p.wantDoneOnce()
			}
		}
	}
}

// innerMaxHoldIsUncertain: a handler that the lock behind Idempotent has told to stop, and that fails, does not know what it did. One that has done its
// work all the same says so.
func innerMaxHoldIsUncertain(e *env) {
	for _, crash := range []lockmw.Crash{lockmw.RunAgain, lockmw.Uncertain} {
		p := e.servePayment(fmt.Sprint("fails", crash), &shop{rules: usual(shortHold), pay: e.onlyAtFirst(func(ctx context.Context) error {
			e.wantEnd(ctx, lockmw.ErrMaxHold)
			return status.Error(codes.NotFound, "stopped") // which is kept otherwise
		})}, func(f *lockmw.Flight) { f.Crash = crash })
		e.wantOwn(p.call(), codes.NotFound)
		if crash == lockmw.Uncertain {
			p.wantUncertain()
		} else {
			p.wantDoneOnce()
		}
	}
	e.servePayment("done", &shop{rules: usual(shortHold), pay: func(ctx context.Context, _ *testpb.Order) error {
		e.wantEnd(ctx, lockmw.ErrMaxHold)
		return nil
	}}, uncertain).wantDoneOnce()
}

// nothingWasDoneCountsAfterTheEnd: a handler that was told to stop, and knows that nothing was done, is believed, unless the lock of Idempotent was
// lost.
func nothingWasDoneCountsAfterTheEnd(e *env) {
	undone := e.onlyAtFirst(func(ctx context.Context) error {
		e.wantEnd(ctx, lockmw.ErrMaxHold)
		lockmw.NotAnAnswer(ctx)
		return status.Error(codes.Unavailable, "stopped")
	})
	for name, p := range map[string]func() payment{
		"outer": func() payment {
			return e.servePayment("outer", &shop{pay: undone}, uncertain, func(f *lockmw.Flight) { f.Policy.MaxHold = soon })
		},
		"inner": func() payment { return e.servePayment("inner", &shop{rules: usual(shortHold), pay: undone}, uncertain) },
	} {
		p := p()
		if a := p.call(); a.Status.Code() != codes.Unavailable {
			e.Errorf("%s: status = %v, want the handler's", name, a.Status)
		}
		e.wantKnown()
		p.wantDoneOnce()
	}
	p := e.servePayment("lost", &shop{pay: e.onlyAtFirst(func(ctx context.Context) error {
		if lease, ok := lockmw.FromContext(ctx); ok {
			e.Client.Del(context.Background(), e.RedisKey(lease.Key()))
			seam.RenewNow(e.Locks, lease.Key())
			e.wantEnd(ctx, lockmw.ErrLost)
		}
		lockmw.NotAnAnswer(ctx)
		return status.Error(codes.Unavailable, "stopped")
	})}, uncertain)
	e.wantRefusal(p.call(), codes.Internal, lockmw.CodeLost)
	p.wantUncertain()
}
