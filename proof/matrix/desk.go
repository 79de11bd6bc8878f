package matrix

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/record"
	"github.com/lockmw/kit/proof/worker"
)

// Of how many jobs a desk loses one, has one discarded, and gives one to two workers, both at once.
const (
	losesOneOf    = 20
	discardsOneOf = 20
	doublesOneOf  = 6
)

// A desk gives the jobs of a lane to its workers, as a job queue does: each at least once, now and then to two of them, and again where a worker has
// died, or has not said for three TTLs that it has done the job. Some it loses, and some are not to be done when they are given. A worker has
// worker.MostJobs at once, and the others wait: on a busy machine all of them, given again and again, would leave no time for any.
type desk struct {
	ttl time.Duration

	mu      sync.Mutex
	rnd     *rand.Rand
	workers []*worker.Process // that have not ended, as far as is known
	open    map[string]*openJob
	jobs    Jobs
	closed  bool // it takes no job in any more
}

type openJob struct {
	worker.Job
	to      *worker.Process // to whom it was given last; nil: to nobody yet
	also    *worker.Process // to whom it was given at the same time; nil: to nobody
	at      time.Duration   // when
	given   int             // how often
	crashed bool            // a worker was killed that was to do it
}

// Jobs counts what became of jobs.
type Jobs struct {
	Queued     int `json:"queued"`
	Lost       int `json:"lost"`       // by the queue
	Twice      int `json:"twice"`      // were given to two workers at once
	Again      int `json:"again"`      // how often one was given once more
	Done       int `json:"done"`       // once at least
	AfterCrash int `json:"afterCrash"` // of those done, how many came again since a worker was killed
	Discarded  int `json:"discarded"`
}

func (j *Jobs) add(more Jobs) {
	j.Queued += more.Queued
	j.Lost += more.Lost
	j.Twice += more.Twice
	j.Again += more.Again
	j.Done += more.Done
	j.AfterCrash += more.AfterCrash
	j.Discarded += more.Discarded
}

func (j Jobs) String() string {
	return fmt.Sprintf("%s queued, %d of them lost, %d discarded and %d given to two, %s given once more, %s done, %s of these by another worker than one that was killed",
		record.Thousands(j.Queued), j.Lost, j.Discarded, j.Twice, record.Thousands(j.Again), record.Thousands(j.Done), record.Thousands(j.AfterCrash))
}

func newDesk(seed uint64, ttl time.Duration) *desk {
	return &desk{ttl: ttl, rnd: rand.New(rand.NewPCG(seed, 2)), open: make(map[string]*openJob)}
}

// joins says that a worker may be given jobs.
func (d *desk) joins(p *worker.Process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.workers = append(d.workers, p)
}

// queued takes a job in.
func (d *desk) queued(job worker.Job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.jobs.Queued++
	if d.rnd.IntN(losesOneOf) == 0 {
		d.jobs.Lost++
		return
	}
	job.Discard = d.rnd.IntN(discardsOneOf) == 0
	d.open[job.ID] = &openJob{Job: job}
}

// did says that a job was done, or discarded.
func (d *desk) did(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch open := d.open[id]; {
	case open == nil: // it has been done before
		return
	case open.Discard:
		d.jobs.Discarded++
	default:
		d.jobs.Done++
		if open.crashed {
			d.jobs.AfterCrash++
		}
	}
	delete(d.open, id)
}

// close waits until all jobs are done, and takes none in from then on. It gives up when none has been done for as long as patience, and returns those
// that are left.
func (d *desk) close(patience time.Duration) (left []string) {
	over, since := 0, clock.Now()
	for {
		d.mu.Lock()
		now := d.jobs.Done + d.jobs.Discarded
		if now > over {
			over, since = now, clock.Now()
		}
		d.closed = len(d.open) == 0 || clock.Now()-since > patience
		if d.closed {
			for _, open := range d.open {
				left = append(left, fmt.Sprintf("%s, about %s, was given to a worker %s, for the last time at %v",
					open.ID, open.Key, record.Plural(open.given, "time"), open.at))
			}
			slices.Sort(left)
			d.mu.Unlock()
			return left
		}
		d.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
}

// seen returns the counts.
func (d *desk) seen() Jobs {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs
}

// serve gives jobs to workers until ctx ends.
func (d *desk) serve(ctx context.Context) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, give := range d.due() {
				give()
			}
		}
	}
}

// due returns what is to be given now. Calling it writes to a worker, which may stand still, so nothing is locked then.
func (d *desk) due() (gives []func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.workers = slices.DeleteFunc(d.workers, hasEnded)
	if len(d.workers) == 0 {
		return nil
	}
	now := clock.Now()
	var waiting []*openJob
	has := make(map[*worker.Process]int)
	for _, open := range d.open {
		if open.to == nil || hasEnded(open.to) || now-open.at > d.overdue(open) {
			waiting = append(waiting, open)
		} else {
			has[open.to]++
			has[open.also]++
		}
	}
	for _, open := range waiting {
		free := slices.DeleteFunc(slices.Clone(d.workers), func(p *worker.Process) bool { return has[p] >= worker.MostJobs })
		if len(free) == 0 {
			break
		}
		times := 1
		switch {
		case open.to != nil:
			d.jobs.Again++
			open.crashed = open.crashed || open.to.Killed()
		case d.rnd.IntN(doublesOneOf) == 0 && len(free) > 1:
			d.jobs.Twice++
			times = 2
		}
		open.to = nil
		for _, i := range d.rnd.Perm(len(free))[:times] {
			p, job := free[i], open.Job
			open.also, open.to, open.at, open.given = open.to, p, now, open.given+1
			has[p]++
			gives = append(gives, func() { _ = p.Give(job) }) // to one that ends it is given in vain, and so once more
		}
	}
	return gives
}

// overdue is after how long a job that was given to a worker is given once more. It grows: where a machine is so busy that jobs take long, those that are
// given again and again would have it do nothing else.
func (d *desk) overdue(open *openJob) time.Duration {
	return 3 * d.ttl * time.Duration(min(open.given, 4))
}

// hasEnded reports whether a worker has.
func hasEnded(p *worker.Process) bool {
	select {
	case <-p.Ended():
		return true
	default:
		return false
	}
}
