package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/engines"
	"github.com/lockmw/kit/proof/history"
)

// This file has the workers that ask for answers (lockmw.Do), each of which is one for all who ask for the same.

const (
	retained   = time.Hour // longer than anybody asks
	mostLate   = 10        // epochs after which somebody asks for an answer still
	otherOneOf = 5         // of how many one is another request under the same key
	failsOneOf = 8         // of how much work one says that it has done nothing
	leavesOne  = 6         // of how many callers one leaves before it has heard anything, perhaps
	looksOneOf = 3         // of how many who are told that nobody knows one says what became of the work
)

// MostJobs is how many jobs a worker has at once. One that asks for answers makes no further ones then: a busy machine is not to be buried under them.
const MostJobs = 20

var (
	errFails   = errors.New("worker: nothing was done")
	errStopped = errors.New("worker: the work was told to stop")
)

// options are those of a worker that asks for answers: it hears what is not kept. That nobody knows of some work is wanted here, and no error.
func (w *worker) options() []lockmw.Option {
	if !slices.ContainsFunc(w.Keys, func(k Key) bool { return k.Asks > 0 }) {
		return nil
	}
	return []lockmw.Option{lockmw.WithObserver(w.observe), lockmw.WithLogger(slog.New(slog.DiscardHandler))}
}

// askAll has some ask for one answer, which is that of now or one of a while ago: a job each.
func (w *worker) askAll(key Key, rnd *rand.Rand) {
	if w.asking.Load() >= MostJobs {
		return
	}
	epoch := clock.Now() / w.Epoch
	if rnd.IntN(4) == 0 {
		epoch -= time.Duration(rnd.Int64N(mostLate))
	}
	for range 1 + rnd.IntN(key.Asks) {
		job := Job{ID: fmt.Sprintf("%s/%d", w.Name, w.ids.Add(1)), Of: key.Name, Key: fmt.Sprintf("%s@%d", key.Name, epoch), Print: "a"}
		if rnd.IntN(otherOneOf) == 0 {
			job.Print = "b"
		}
		w.tell(event{Queued: &job})
	}
}

// ask asks for what a job is about, again and again until that makes no sense any more, or the job is about to be given to another worker. Of a job that is
// discarded the caller leaves, and that is all.
func (w *worker) ask(ctx context.Context, key Key, job Job) {
	engine, ok := w.engine.(engines.Answers)
	if !ok {
		w.tell(event{Failed: w.Engine + " has no answers"})
		return
	}
	w.asking.Add(1)
	defer w.asking.Add(-1)
	began := clock.Now()
	rnd := rand.New(rand.NewPCG(w.Seed, uint64(began)))
	for over := false; !over; {
		switch c := w.call(ctx, engine, key, job, rnd); {
		case c.Came == history.Uncertain && rnd.IntN(looksOneOf) == 0:
			w.resolve(ctx, engine, c, rnd)
		case c.Came == history.Answered, c.Came == history.OtherRequest, c.Came == history.NotKept, c.Came == history.Uncertain, job.Discard:
			over = true
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.Rest + upTo(rnd, w.TTL/10)):
		}
		if clock.Now()-began > 2*w.TTL {
			return
		}
	}
	w.tell(event{Did: job.ID})
}

// call is one call of Do, which tells before it and behind it.
func (w *worker) call(ctx context.Context, engine engines.Answers, key Key, job Job, rnd *rand.Rand) history.Call {
	asking, cancel := w.leaving(ctx, job, rnd)
	defer cancel()
	f := lockmw.Flight{Policy: lockmw.Policy{TTL: w.TTL, Wait: w.Wait}, Retain: retained, Fingerprint: []byte(job.Print)}
	if key.Uncertain {
		f.Crash = lockmw.Uncertain
	}
	c := history.Call{ID: int(w.ids.Add(1)), Key: job.Key, Print: job.Print, Uncertain: key.Uncertain, Worker: w.Name, Asked: clock.Now()}
	h := history.Hold{Key: c.Key, Kind: history.Mutex, Worker: w.Name, Print: c.Print, Asked: c.Asked}
	w.tell(event{Calling: &c})
	answer, shared, err := engine.Do(asking, job.Key, f, func(lock engines.Hold) (string, error) {
		h.Began, h.Fails = clock.Now(), rnd.IntN(failsOneOf) == 0
		h = w.under(ctx, asking, key, rnd, lock, h, 0)
		c.Ran = h.ID
		switch ended := lock.Context().Err() != nil; {
		case ended && (h.Fails || rnd.IntN(2) == 0):
			return "", fmt.Errorf("%w: %w", errStopped, context.Cause(lock.Context()))
		case h.Fails:
			return "", errFails
		}
		return h.Name(), nil
	})
	c.Returned = clock.Now()
	if c.Ran != 0 {
		w.over(h, errors.Is(err, lockmw.ErrLost))
	}
	c.Came = came(c.Ran != 0, asking.Err() != nil, err)
	if c.Came == history.Answered {
		c.Answer, c.Shared = answer, shared
	}
	if unknown, ok := errors.AsType[*lockmw.UncertainError](err); ok {
		c.Work, err = strconv.ParseInt(unknown.ID, 10, 64)
		if err != nil {
			w.tell(event{Failed: err.Error()})
		}
	}
	w.tell(event{Called: &c})
	return c
}

// leaving returns the context of a caller, which may leave before it has heard anything.
func (w *worker) leaving(ctx context.Context, job Job, rnd *rand.Rand) (context.Context, context.CancelFunc) {
	switch {
	case job.Discard, w.isRash():
		return context.WithTimeout(ctx, upTo(rnd, 50*time.Millisecond))
	case rnd.IntN(leavesOne) == 0:
		return context.WithTimeout(ctx, upTo(rnd, w.TTL))
	}
	return context.WithCancel(ctx)
}

// came says what came of a call of Do.
func came(ran, left bool, err error) string {
	switch {
	case err == nil:
		return history.Answered
	case ran && errors.Is(err, lockmw.ErrLost):
		return history.Lost
	case ran && (errors.Is(err, errStopped) || errors.Is(err, errFails) && left): // the work may have been told to stop just now
		return history.Stopped
	case ran && errors.Is(err, errFails):
		return history.Failed
	case errors.Is(err, lockmw.ErrUncertain):
		return history.Uncertain
	case errors.Is(err, lockmw.ErrOtherRequest):
		return history.OtherRequest
	case errors.Is(err, lockmw.ErrAnswerNotKept):
		return history.NotKept
	case errors.Is(err, lockmw.ErrNotAcquired), errors.Is(err, lockmw.ErrUnavailable), errors.Is(err, lockmw.ErrClosed):
		return history.Refused
	}
	return err.Error()
}

// resolve says what became of the work of which a call was told that nobody knows: no matter what, as an operator does who is mistaken.
func (w *worker) resolve(ctx context.Context, engine engines.Answers, c history.Call, rnd *rand.Rand) {
	r := history.Resolution{Key: c.Key, Print: c.Print, Work: c.Work}
	how := lockmw.Again
	switch r.How = history.Undone; rnd.IntN(3) {
	case 0:
		r.How, how = history.Settled, lockmw.Discard
	case 1:
		r.How, r.Answer = history.Done, fmt.Sprintf("what %s/%d says", w.Name, w.ids.Add(1))
		how = lockmw.Done(r.Answer)
	}
	w.tell(event{Resolving: &r})
	_ = engine.Resolve(ctx, c.Key, strconv.FormatInt(c.Work, 10), how) // the judge takes it for possible that it was heard
}

// observe tells of answers that Redis may not have.
func (w *worker) observe(_ context.Context, e lockmw.Event) {
	if e.Kind == lockmw.EventAnswerNotKept {
		w.tell(event{Unkept: &history.Unkept{Key: e.Key, Worker: w.Name}})
	}
}
