package rpctest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// What operators change of the policies of methods while the program runs.

// payName is the Name of the policies that settings are for.
const payName = "pay"

func namedPay(p *lockmw.Policy) { p.Name = payName }

// settingCountsForTheNextRequest: a method that lets nobody wait does so from the next call on where a setting says so, and for as long
// as the setting says, and lets nobody wait when the setting is taken away.
func settingCountsForTheNextRequest(e *env) {
	e.SettingsInRedis()
	e.serve(&shop{rules: usual(namedPay)})
	lease := e.hold()
	e.wantRefusal(e.pay(), codes.Aborted, lockmw.CodeBusy)
	e.SetWait(payName, time.Minute)
	e.servedBehind(lease)
	lease = e.hold()
	for code, wait := range map[string]time.Duration{lockmw.CodeWaitTimeout: 20 * time.Millisecond, lockmw.CodeBusy: 0} {
		e.SetWait(payName, wait)
		e.wantRefusal(e.answered(e.pay), codes.Aborted, code)
		for _, method := range streams {
			a := e.answered(func() Answer { a, _ := e.streamed(method); return a })
			e.wantRefusal(a, codes.Aborted, code)
		}
	}
	e.Release(lease)
	e.WantRuns(1)
}

// offRunsTheWorkWithoutItsLock, while another process has the lock, which that one keeps. Methods whose policy has another name are
// refused.
func offRunsTheWorkWithoutItsLock(e *env) {
	log := e.SwitchOff(payName)
	lease := e.Another().Take(lockKey)
	e.serve(&shop{
		rules: usual(namedPay),
		pay:   func(ctx context.Context, _ *testpb.Order) error { e.WantNoLock(ctx); return nil },
		watch: func(_ *testpb.Order, s watching) error { e.WantNoLock(s.Context()); return nil },
	})
	a := e.pay()
	e.wantCode(a, codes.OK)
	e.wantNoSecrets(a)
	for _, method := range streams {
		a, _ := e.streamed(method)
		e.wantCode(a, codes.OK)
		e.wantNoSecrets(a)
	}
	calls := 1 + len(streams)
	e.WantRuns(calls)
	e.WantOff(log, payName, lockKey, calls)
	e.serve(&shop{rules: usual(func(p *lockmw.Policy) { p.Name = "mail" })})
	e.wantRefusal(e.pay(), codes.Aborted, lockmw.CodeBusy)
	e.WantRuns(calls)
	e.Release(lease) // which fails if the lock was taken from it
}

// offIsNotForIdempotent: the work is done under its lock all the same, and once.
func offIsNotForIdempotent(e *env) {
	log := e.SwitchOff(payName)
	work := newSlowWork()
	defer e.end(work)
	named := func(f *lockmw.Flight) { namedPay(&f.Policy) }
	e.serveOnce(&shop{pay: func(ctx context.Context, _ *testpb.Order) error {
		e.WantLock(ctx)
		work.do()
		return nil
	}}, impatient, named)
	answer := e.clickBeside()
	testenv.Receive(e.Env, "the handler's beginning", work.began)
	e.WantOn(log, payName)
	log = e.SwitchOff(payName)
	e.serveOnce(&shop{}, impatient, named)
	e.wantRefusal(e.click(), codes.Aborted, lockmw.CodeIdempotencyInProgress)
	e.WantOn(log, payName)
	work.end()
	first := testenv.Receive(e.Env, "the answer", answer)
	e.wantOwn(first, codes.OK)
	e.wantReplayed(e.click(), first)
	e.WantRuns(1)
}
