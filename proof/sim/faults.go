package sim

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/test/faultproxy"
)

// How faults are injected, and healed.

// farther is how much farther away, each way, a process is that is far away.
const farther = 60 * time.Millisecond

// fail has the plan's faults happen, each in a goroutine of its own, and ends when all are over.
func (w *world) fail(ctx context.Context) {
	var faults sync.WaitGroup
	defer faults.Wait()
	for _, f := range w.plan.Faults {
		faults.Go(func() {
			sleep(ctx, f.At)
			if ctx.Err() != nil {
				return
			}
			w.faults.Add(1)
			w.going(f, 1)
			w.inject(f)
			sleep(ctx, f.lasts())
			w.going(f, -1)
			w.heal(f)
		})
	}
}

// going notes that one more fault of a kind is going on, or one less.
func (w *world) going(f Fault, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on[Fault{Kind: f.Kind, Process: f.Process, Key: f.Key, Nobody: f.Nobody}] += n
}

// ill reports whether a fault that counts was on a process' way to Redis since then, or is.
func (w *world) ill(at int, since time.Time, counts func(FaultKind) bool) bool {
	for _, f := range w.plan.Faults {
		if f.Process != at || !counts(f.Kind) {
			continue
		}
		begins := w.began.Add(f.At)
		if ends := begins.Add(f.lasts()); !begins.After(time.Now()) && (f.Kind == Gone || ends.After(since)) {
			return true
		}
	}
	return false
}

// jump is how far the server's clock jumps ahead.
const jump = 5 * time.Second

func (w *world) inject(f Fault) {
	ctx, way := context.Background(), w.parts[f.Process].way
	if f.Nobody {
		w.parts[f.Process].nobody.Store(true)
	}
	switch f.Kind {
	case Cut:
		way.Cut()
	case LostToServer:
		way.BlackHole(faultproxy.ToServer)
	case LostToClient:
		way.BlackHole(faultproxy.ToClient)
	case LostBoth:
		way.BlackHole(faultproxy.Both)
	case Stalled:
		way.Stall(faultproxy.Both)
	case Unread:
		way.StopReading()
	case Far:
		w.distance(w.parts[f.Process], farther)
	case Refused:
		way.Refuse(true)
		way.Cut()
	case Gone:
		w.parts[f.Process].gone.Store(true)
		way.Refuse(true)
		way.Cut()
	case Forgets:
		w.judge.forgets("")
		forgotten := w.desk.forgets()
		w.plain.FlushAll(ctx)
		forgotten()
		w.judge.forgets("")
	case NoScripts:
		w.plain.ScriptFlush(ctx)
	case Deleted:
		w.judge.forgets(f.Key)
		w.plain.Del(ctx, "lock:{"+f.Key+"}")
		w.judge.forgets(f.Key)
	case Forced:
		w.judge.forgets(f.Key)
		_ = w.parts[f.Process].locks.ForceRelease(ctx, f.Key)
		w.judge.forgets(f.Key)
	case NoNewOnes:
		way.Refuse(true)
	case LostMessages:
		way.LoseMessages(func([]byte) bool { return true })
	case LostReplies:
		way.DropReplies(5, func([]byte) bool { return true })
	case Restarted:
		w.judge.forgets("")
		for _, part := range w.parts {
			part.way.Cut()
		}
		forgotten := w.desk.forgets()
		w.plain.FlushAll(ctx)
		forgotten()
		w.plain.ScriptFlush(ctx)
		w.judge.forgets("")
	case Jumped:
		w.judge.jumps(jump)
		w.server.ahead(jump)
		w.judge.forgets(ofTheClock)
	case faultKinds:
	}
}

// heal ends a fault, and has those go on that end later.
func (w *world) heal(f Fault) {
	way := w.parts[f.Process].way
	switch f.Kind {
	case LostMessages:
		way.LoseMessages(nil)
	case LostReplies:
		way.DropReplies(0, nil)
	case LostToServer, LostToClient, LostBoth, Stalled, Unread:
		way.Heal()
	case Far:
		w.distance(w.parts[f.Process], 0)
	case Refused, NoNewOnes:
		if !w.parts[f.Process].gone.Load() {
			way.Refuse(false)
			w.parts[f.Process].nobody.Store(false)
		}
	default: // it is over when it has begun, or for good
		return
	}
	w.mu.Lock()
	var others []Fault
	for other, n := range w.on {
		if n > 0 && other.Process == f.Process && other.Kind.onTheWay() && !other.Kind.passes() {
			others = append(others, other)
		}
	}
	w.mu.Unlock()
	for _, other := range others {
		w.inject(other)
	}
}
