package doortest

import (
	"net/http"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Who is in the way of a request that is refused.

// operatorsAloneLearnWhoIsInTheWay: the event of a refusal and its line in the log name the other process that has the lock, what that
// one has noted, and for how long it has had the lock. The answer has nothing of that, as wantProblem sees.
func operatorsAloneLearnWhoIsInTheWay(e *env) {
	holder := e.Another()
	lease := holder.Take(lockKey)
	for code, wait := range map[string]time.Duration{
		lockmw.CodeBusy:        0,
		lockmw.CodeWaitTimeout: 500 * time.Millisecond, // long enough for a first answer, which names the holder
	} {
		log := e.Logged()
		route := e.route(fine)
		route.Policy.Wait = wait
		e.serve(route)
		e.wantProblem(e.pay(), http.StatusConflict, code)
		holder.WantTold(log, code)
	}
	e.WantRuns(0)
	e.Release(lease)
	e.operatorsAloneLearnWhoIsAtWork(holder)
}

// operatorsAloneLearnWhoIsAtWork is the same of an Idempotent: holder does the work of the first request.
func (e *env) operatorsAloneLearnWhoIsAtWork(holder *testenv.Holder) {
	e.Helper()
	started, work := make(chan struct{}, 1), make(chan struct{})
	finish := sync.OnceFunc(func() { close(work) })
	defer finish()
	here := impatient(e.onceRoute(func(x *Exchange) error {
		if e.Ran.Load() == 1 { // a second one, of a broken door, does not wait
			started <- struct{}{}
			<-work
		}
		return e.receipt(x)
	}))
	there := here
	there.Locks = holder.Locks
	elsewhere, came := e.handler(there), make(chan answer, 1)
	go func() { came <- e.ask(elsewhere, click{key: "k"}) }() // ends with the work
	testenv.Receive(e.Env, "the start of the work", started)
	holder.Stays()
	log := e.Logged()
	here.Locks = e.Locks
	e.wantProblem(e.ask(e.handler(here), click{key: "k"}), http.StatusConflict, lockmw.CodeIdempotencyInProgress)
	holder.WantTold(log, lockmw.CodeIdempotencyInProgress)
	finish()
	e.wantStatus(testenv.Receive(e.Env, "the first answer", came), http.StatusCreated)
	e.WantRuns(1)
}
