package doortest

import (
	"net/http"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// What operators change of the policies of routes while the program runs.

// payName is the Name of the policies that settings are for.
const payName = "pay"

// settingCountsForTheNextRequest: a route that lets nobody wait does so from the next request on where a setting says so, and for as
// long as the setting says, and lets nobody wait when the setting is taken away.
func settingCountsForTheNextRequest(e *env) {
	e.SettingsInRedis()
	route := e.route(fine)
	route.Policy.Name = payName
	e.serve(route)
	lease := e.hold()
	e.wantProblem(e.pay(), http.StatusConflict, lockmw.CodeBusy)
	e.SetWait(payName, time.Minute)
	answers := e.background(e.request(http.MethodPost, payPath, nil))
	e.Until("the request waits", func() bool { return e.Seen(lockmw.EventContended) == 1 })
	e.WantRuns(0)
	e.Release(lease)
	e.wantStatus(testenv.Receive(e.Env, "the answer", answers), http.StatusOK)
	lease = e.hold()
	e.SetWait(payName, 20*time.Millisecond)
	e.wantProblem(e.answered(e.pay), http.StatusConflict, lockmw.CodeWaitTimeout)
	e.SetWait(payName, 0)
	e.wantProblem(e.pay(), http.StatusConflict, lockmw.CodeBusy)
	e.Release(lease)
	e.WantRuns(1)
}

// offRunsTheWorkWithoutItsLock, while another process has the lock, which that one keeps. A route of another name is refused.
func offRunsTheWorkWithoutItsLock(e *env) {
	log := e.SwitchOff(payName)
	lease := e.Another().Take(lockKey)
	off := e.route(func(x *Exchange) error {
		e.WantNoLock(x.R.Context())
		return nil
	})
	off.Policy.Name = payName
	on := e.route(fine)
	on.Path, on.Policy.Name = "/on/{id}", "mail"
	e.serve(off, on)
	a := e.pay()
	e.wantStatus(a, http.StatusOK)
	e.wantNoSecrets(a)
	e.WantOff(log, payName, lockKey, 1)
	e.wantProblem(e.do(e.request(http.MethodPost, "/on/"+id, nil)), http.StatusConflict, lockmw.CodeBusy)
	e.WantRuns(1)
	e.Release(lease) // which fails if the lock was taken from it
}

// offIsNotForIdempotent: the work is done under its lock all the same, and once.
func offIsNotForIdempotent(e *env) {
	log := e.SwitchOff(payName)
	started, work := make(chan struct{}, 1), make(chan struct{})
	finish := sync.OnceFunc(func() { close(work) })
	defer finish()
	route := impatient(e.onceRoute(func(x *Exchange) error {
		e.WantLock(x.R.Context())
		if e.Ran.Load() == 1 { // a second one, of a broken door, does not wait
			started <- struct{}{}
			<-work
		}
		return e.receipt(x)
	}))
	route.Flight.Policy.Name = payName
	e.serve(route)
	c := click{key: "k"}
	came := e.background(c.at(e))
	testenv.Receive(e.Env, "the start of the work", started)
	e.WantOn(log, payName)
	other := route
	log = e.SwitchOff(payName)
	other.Locks = e.Locks
	e.wantProblem(e.ask(e.handler(other), c), http.StatusConflict, lockmw.CodeIdempotencyInProgress)
	e.WantOn(log, payName)
	finish()
	first := testenv.Receive(e.Env, "the first answer", came)
	e.wantStatus(first, http.StatusCreated)
	e.wantReplay(e.do(c.at(e)), first)
	e.WantRuns(1)
}
