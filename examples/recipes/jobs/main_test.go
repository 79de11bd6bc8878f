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

// A worker dies while it makes a report. Its job comes again while the lock has its TTL still, waits for that, and is done under the lock.
func TestAJobThatComesAgainWaitsForItsLock(t *testing.T) {
	locks := locktest.New(t)
	var jobs []job
	service := routes(locks, queue(&jobs))
	order(service, "7")
	began, died, made := make(chan struct{}), make(chan error, 1), make(chan error, 1)
	dies := worker{locks, func(ctx context.Context, _ int) error {
		close(began)
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	again := worker{locks, func(ctx context.Context, _ int) error {
		if lease, _ := lockmw.FromContext(ctx); !lease.Valid() {
			t.Error("the report is made again without its lock")
		}
		return context.Cause(ctx)
	}}
	j := task(t, jobs[0])
	go func() { died <- dies.ProcessTask(context.Background(), j) }()
	<-began
	go func() { made <- again.ProcessTask(context.Background(), j) }()
	locktest.AwaitWaiters(t, locks, "report:7", 1)
	locktest.Crash(t, locks)
	if err := <-made; err != nil {
		t.Errorf("the job that comes again: %v", err)
	}
	if err := <-died; !errors.Is(err, lockmw.ErrLost) { // a dead process would say nothing
		t.Errorf("the worker that dies: %v, want %v", err, lockmw.ErrLost)
	}
	if code := order(service, "7"); code != http.StatusAccepted {
		t.Errorf("when it is made: %d", code)
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
