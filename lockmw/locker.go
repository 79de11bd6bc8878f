package lockmw

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/holds"
	"github.com/lockmw/kit/internal/janitor"
	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/renew"
	"github.com/lockmw/kit/internal/report"
	"github.com/lockmw/kit/internal/shards"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// A Locker takes locks in one Redis. Make one per process with New and share
// it: it is safe for concurrent use, and all its leases share one watchdog
// and one subscription. Close it at the end.
type Locker struct {
	store      store.Store
	namespace  string // of the store's keys
	quorum     bool
	confirms   bool                         // replicas confirm grants, so a published one is asked for again
	reporting                               // what is told to others
	note       func(context.Context) string // nil: there are no notes
	relays     bool                         // releases offer the lock to waiters of which the store does not know
	outage     *outage.Outage
	waiters    *waitqueue.Set
	timers     timers // of those who wait
	watchdog   *renew.Watchdog
	janitor    *janitor.Janitor
	subscriber *subscriber
	history    holds.History
	shadows    shadows         // of policies with Shadow
	settings   *settingsKeeper // nil: without WithSettings
	stops      []func()        // of those who read Stats

	closing   chan struct{} // closed when Close begins
	closeOnce sync.Once
	closeErr  error // what Close returns, set within closeOnce
	serverCheck

	ledgers shards.Of[ledger]
}

// serverCheck is the check of the server's settings, see checkServer.
type serverCheck struct {
	checkOnce sync.Once      // begins it
	checks    sync.WaitGroup // while it is under way
}

// reporting is where a Locker tells what happens, to observers, in the log, and to operators.
type reporting struct {
	observers []func(context.Context, Event)
	reports   *report.Queue  // to the observers and the log
	log       *slog.Logger   // of reports
	refusals  report.Limiter // of their lines in the log
	recent    recent.Log     // for operators
}

// Validate returns nil if p can be used with this Locker. Otherwise the error Is
// ErrInvalidPolicy. It is that of Policy.Validate, or says what this Locker cannot do: a
// quorum, for example, cannot bound permits. The constructors of middlewares and
// interceptors call Validate, so that such a mistake shows at the start.
func (l *Locker) Validate(p Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if p.Permits > 0 && l.quorum {
		return badPolicy("Permits", "a quorum cannot bound them: with 3 nodes and 2 permits, 3 holders can have a majority each")
	}
	if p.Shadow && l.quorum {
		return badPolicy("Shadow", "a quorum has no queue from which a forecast could be made: try the policy with a Locker of New")
	}
	return nil
}

// isClosed reports whether Close has begun.
func (l *Locker) isClosed() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

const (
	// opTimeout bounds one command. A Redis that takes longer is no use for
	// locks, and what came of the command is cleaned up.
	opTimeout = time.Second

	// leastTimeout is what a command gets at least, when the policy's budget
	// is nearly used up or smaller than that.
	leastTimeout = outage.SilentAfter
)
