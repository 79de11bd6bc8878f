package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func order(service http.Handler, report string) int {
	w := httptest.NewRecorder()
	service.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/reports/"+report, nil))
	return w.Code
}

// queue is what the jobs of a service are put into.
func queue(into *[]job) func(context.Context, job) error {
	return func(_ context.Context, j job) error {
		*into = append(*into, j)
		return nil
	}
}

func task(t *testing.T, j job) *asynq.Task {
	t.Helper()
	payload, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	return asynq.NewTask("report", payload)
}

func TestAReportIsOrderedOnceUntilItIsMade(t *testing.T) {
	locks := locktest.New(t)
	var jobs []job
	service := routes(locks, queue(&jobs))
	if code := order(service, "7"); code != http.StatusAccepted || len(jobs) != 1 || jobs[0].Report != 7 {
		t.Fatalf("%d, and the jobs are %v", code, jobs)
	}
	if code := order(service, "7"); code != http.StatusConflict {
		t.Errorf("while it is in the queue: %d", code)
	}
	w := worker{locks, func(ctx context.Context, _ int) error {
		lease, _ := lockmw.FromContext(ctx)
		if code := order(service, "7"); code != http.StatusConflict || !lease.Valid() {
			t.Errorf("while it is made: %d", code)
		}
		return nil
	}}
	if err := w.ProcessTask(t.Context(), task(t, jobs[0])); err != nil {
		t.Fatal(err)
	}
	if code := order(service, "7"); code != http.StatusAccepted {
		t.Errorf("when it is made: %d", code)
	}
}

// A worker has died, and its job comes again while the lock has its TTL still.
func TestAJobThatComesAgainWaitsForItsLock(t *testing.T) {
	locks := locktest.New(t)
	var jobs []job
	order(routes(locks, queue(&jobs)), "7")
	_, dies, err := locks.Resume(t.Context(), jobs[0].Ticket, making)
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan error, 1)
	w := worker{locks, func(context.Context, int) error { return nil }}
	go func() { made <- w.ProcessTask(context.Background(), task(t, jobs[0])) }()
	locktest.AwaitWaiters(t, locks, "report:7", 1)
	if err := dies.Release(t.Context()); err != nil { // in its place
		t.Fatal(err)
	}
	if err := <-made; err != nil {
		t.Error(err)
	}
}

func TestAnOrderThatIsNotQueuedHasNoLock(t *testing.T) {
	locks := locktest.New(t)
	down := routes(locks, func(context.Context, job) error { return errors.New("the queue is down") })
	if code := order(down, "7"); code != http.StatusServiceUnavailable {
		t.Errorf("%d", code)
	}
	var jobs []job
	if code := order(routes(locks, queue(&jobs)), "7"); code != http.StatusAccepted {
		t.Errorf("then: %d", code)
	}
}

func TestWhenAJobComesAgain(t *testing.T) {
	locks := locktest.New(t)
	locktest.Down(t, locks)
	w := worker{locks, func(context.Context, int) error { return nil }}
	_, _, down := locks.Acquire(t.Context(), "7", lockmw.Policy{Prefix: "report:"})
	if after := again(0, down, nil); after != time.Second || !failed(down) {
		t.Errorf("while Redis is down (%v): after %v", down, after)
	}
	if after := again(0, errors.New("no such report"), nil); after < 15*time.Second { // the least of asynq
		t.Errorf("after %v", after)
	}
	if err := w.ProcessTask(t.Context(), asynq.NewTask("report", []byte("{"))); !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("a job that cannot be read: %v", err)
	}
	if failed(lockmw.ErrNotAcquired) || failed(nil) {
		t.Error("who is refused a lock has not failed")
	}
}
