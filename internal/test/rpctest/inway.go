package rpctest

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Who is in the way of a call that is refused.

// operatorsAloneLearnWhoIsInTheWay: the event of a refusal and its line in the log name the other process that has the lock, what that
// one has noted, and for how long it has had the lock. The answer has nothing of that, as wantRefusal sees.
func operatorsAloneLearnWhoIsInTheWay(e *env) {
	holder := e.Another()
	lease := holder.Take(lockKey)
	refused := func(code string, call func() Answer, change ...func(*lockmw.Policy)) {
		e.Helper()
		log := e.Logged()
		e.serve(&shop{rules: usual(change...)})
		e.wantRefusal(call(), codes.Aborted, code)
		holder.WantTold(log, code)
	}
	refused(lockmw.CodeBusy, e.pay)
	refused(lockmw.CodeWaitTimeout, e.pay, func(p *lockmw.Policy) {
		p.Wait = 500 * time.Millisecond // long enough for a first answer, which names the holder
	})
	for _, method := range streams {
		refused(lockmw.CodeBusy, func() Answer { a, _ := e.streamed(method); return a })
	}
	e.WantRuns(0)
	e.Release(lease)
	e.operatorsAloneLearnWhoIsAtWork(holder)
}

// operatorsAloneLearnWhoIsAtWork is the same of a door that answers calls once: holder does the work of the first one.
func (e *env) operatorsAloneLearnWhoIsAtWork(holder *testenv.Holder) {
	e.Helper()
	work := newSlowWork()
	defer e.end(work)
	e.Locks = holder.Locks
	e.serveOnce(&shop{pay: func(context.Context, *testpb.Order) error {
		work.do()
		return nil
	}}, impatient)
	answer := e.clickBeside()
	testenv.Receive(e.Env, "the handler's beginning", work.began)
	holder.Stays()
	log := e.Logged()
	e.serveOnce(&shop{}, impatient)
	e.wantRefusal(e.click(), codes.Aborted, lockmw.CodeIdempotencyInProgress)
	holder.WantTold(log, lockmw.CodeIdempotencyInProgress)
	work.end()
	e.wantOwn(testenv.Receive(e.Env, "the answer", answer), codes.OK)
	e.WantRuns(1)
}
