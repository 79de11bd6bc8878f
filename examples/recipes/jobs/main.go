// Command jobs takes orders for reports by HTTP and makes the reports in the background. The lock of a report goes along with its job, from
// the order until the report is made, whichever process makes it.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A job is what is queued.
type job struct {
	Report int    `json:"report"`
	Ticket string `json:"ticket"` // of the lock of the order
}

var (
	// ordering has no Wait: a second order is refused until the report is made.
	ordering = lockmw.Policy{Name: "order", Prefix: "report:"}
	// making waits while the request that queued the job has not answered yet, and while another worker has the same job. MaxHold is for a report that
	// hangs: asynq gives up after 30 minutes, and its worker would keep the lock.
	making = lockmw.Policy{Name: "make", Prefix: "report:", Wait: 5 * time.Second, MaxHold: 20 * time.Minute}
)

// inQueue is how long a job may be in the queue and keep its lock. It is also how long nobody can order the report if the queue loses the job.
const inQueue = 10 * time.Minute

// routes returns the service. enqueue puts a job into the queue.
func routes(locks *lockmw.Locker, enqueue func(ctx context.Context, j job) error) http.Handler {
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), ordering)
	mux := http.NewServeMux()
	mux.Handle("POST /reports/{id}", lock(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			http.Error(w, "that is no report", http.StatusBadRequest)
			return
		}
		lease, _ := lockmw.FromContext(r.Context())
		ctx := context.WithoutCancel(r.Context()) // a client that leaves must not make an error of a job that is queued
		if err := enqueue(ctx, job{Report: id, Ticket: lease.Ticket(inQueue)}); err != nil {
			slog.Error("a job was not queued", "report", id, "error", err)
			http.Error(w, "try again later", http.StatusServiceUnavailable) // no job, no ticket: the lock comes free with this answer
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})))
	return mux
}

// A worker makes reports. generate does nothing where the report is there: queues deliver a job more than once.
type worker struct {
	locks    *lockmw.Locker
	generate func(ctx context.Context, report int) error
}

// ProcessTask does one job. Where it returns an error, the job comes again, and has no lock until then.
func (w worker) ProcessTask(ctx context.Context, task *asynq.Task) (err error) {
	var j job
	if err := json.Unmarshal(task.Payload(), &j); err != nil {
		return errors.Join(err, asynq.SkipRetry)
	}
	ctx, lease, err := w.locks.Resume(ctx, j.Ticket, making)
	if errors.Is(err, lockmw.ErrTicketSpent) { // the job has come before, or was in the queue for too long
		ctx, lease, err = w.locks.Acquire(ctx, strconv.Itoa(j.Report), making)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lost(lease.Release(ctx))) }()
	return w.generate(ctx, j.Report) // under ctx, which ends if the lock is lost
}

// lost returns the error of a release where the lock was lost before: somebody else may have made the report at the same time, so the job comes again. A
// release that Redis has not answered is no reason for that: the lock is given back in the background.
func lost(err error) error {
	if errors.Is(err, lockmw.ErrLost) {
		return err
	}
	return nil
}

// again says when a job comes again that was not done.
func again(n int, err error, task *asynq.Task) time.Duration {
	if refusal, ok := lockmw.RefusalOf(err); ok && refusal.RetryAfter > 0 {
		return refusal.RetryAfter // another worker has the report, or Redis is away
	}
	return asynq.DefaultRetryDelayFunc(n, err, task)
}

// failed says whether a try counts as one of the 25 that a job has.
func failed(err error) bool {
	return err != nil && !errors.Is(err, lockmw.ErrNotAcquired)
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	queue := asynq.NewClientFromRedisClient(client)
	service := &http.Server{
		Addr: cmp.Or(os.Getenv("ADDR"), ":8080"),
		Handler: routes(locks, func(ctx context.Context, j job) error {
			payload, err := json.Marshal(j)
			if err != nil {
				return err
			}
			_, err = queue.EnqueueContext(ctx, asynq.NewTask("report", payload))
			return err
		}),
		ReadHeaderTimeout: 5 * time.Second,
	}
	workers := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: 4, RetryDelayFunc: again, IsFailure: failed})
	if err := workers.Start(worker{locks, generate}); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- service.ListenAndServe() }()
	select {
	case err = <-served: // it could not listen
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err = errors.Join(err, service.Shutdown(last))
	workers.Shutdown() // it waits 8 s for jobs, and gives the others back to the queue
	return errors.Join(err, locks.Close(last), client.Close())
}

// generate stands for your queries.
func generate(ctx context.Context, report int) error {
	select {
	case <-time.After(2 * time.Second):
		slog.Info("the report is made", "report", report)
		return nil
	case <-ctx.Done():
		return fmt.Errorf("report %d: %w", report, context.Cause(ctx))
	}
}
