package doortest

import (
	"net/http"

	"github.com/lockmw/kit/lockmw"
)

// uncertainErrorsAreKept: with Uncertain, work that may have been done is not done again. So an answer that says no more than that
// something has failed is given again, also where the framework makes it of an error that the handler returns.
func uncertainErrorsAreKept(e *env) {
	route, failed := e.onceRoute(answersAs), e.onceRoute(func(*Exchange) error { return errHandler })
	failed.Path = "/failed/{id}"
	route.Flight.Crash, failed.Flight.Crash = lockmw.Uncertain, lockmw.Uncertain
	handler := e.handler(route, failed)
	for _, status := range []int{200, 206, 404, 408, 500, 502, 503, 504} {
		e.wantKept(handler, status, true)
	}
	for _, status := range []int{307, 401, 403, 409, 412, 425, 429} {
		e.wantKept(handler, status, false)
	}
	e.Ran.Store(0)
	c := click{key: "failed", path: "/failed/" + id}
	first := e.ask(handler, c)
	e.wantStatus(first, http.StatusInternalServerError)
	e.wantReplay(e.ask(handler, c), first)
	e.WantRuns(1)
}
