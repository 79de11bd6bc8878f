package lockmw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/holds"
	"github.com/lockmw/kit/internal/janitor"
	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/redisstore"
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
	quorum     bool
	confirms   bool // replicas confirm grants, so a published one is asked for again
	observers  []func(context.Context, Event)
	note       func(context.Context) string // nil: there are no notes
	reports    *report.Queue                // to the observers and the log
	log        *slog.Logger                 // of reports
	relay      store.Relay                  // the store, if its releases can offer a lock to a waiter that it does not know; otherwise nil
	outage     *outage.Outage               // nil: the store cannot tell whether it can be reached
	waiters    *waitqueue.Set
	watchdog   *renew.Watchdog
	janitor    *janitor.Janitor
	subscriber *subscriber
	refusals   report.Limiter // of their lines in the log
	history    holds.History
	recent     recent.Log // for operators
	stops      []func()   // of those who read Stats

	closing   chan struct{}  // closed when Close begins
	checkOnce sync.Once      // begins the check of the server's settings
	checks    sync.WaitGroup // that check, while it is under way
	closeOnce sync.Once
	closeErr  error // what Close returns, set within closeOnce

	ledgers shards.Of[ledger]
}

// New returns a Locker that keeps its locks in the Redis of client: a single
// server (*redis.Client), a master watched by Sentinels (a *redis.Client too, from
// redis.NewFailoverClient) or a Cluster (*redis.ClusterClient). A proxy that spreads
// keys over servers (twemproxy, Envoy) looks like a single server, and would give one
// key two owners: do not put one in between.
//
// The error says which argument is wrong: a nil client, a *redis.Ring, which gives
// one key two owners when a shard fails, a client that reads from replicas, or what
// an option was given.
//
// The Locker opens connections of its own with client's addresses, TLS and
// credentials, so that locks are renewed while the application has exhausted
// its pool. It reaches Redis when the first lock is asked for: New does no
// I/O, and a Redis that is down does not keep a service from starting. While
// Redis cannot be reached the Locker asks a few times a second whether it is
// back, until Close. The client stays the caller's: Close does not close it. A
// client that is closed before the Locker does no harm, except with Sentinels, which
// nobody is left to ask then: locks stay with the last known master.
func New(client redis.UniversalClient, opts ...Option) (*Locker, error) {
	o, err := gather(opts)
	if err != nil {
		return nil, err
	}
	s, err := redisstore.New(client, o.namespace, o.instance)
	if err != nil {
		return nil, fmt.Errorf("lockmw: %w", err)
	}
	if err := confirm(s, o); err != nil {
		return nil, err
	}
	return newLocker(s, o), nil
}

func newLocker(s store.Store, o options) *Locker {
	l := &Locker{
		observers: o.observers,
		note:      o.note,
		reports:   o.reports,
		log:       o.logger,
		confirms:  o.acks > 0,
		closing:   make(chan struct{}),
	}
	_, relays := s.(store.Relay)
	relays = relays && !l.confirms
	l.waiters = waitqueue.NewSet(o.maxPerKey, o.maxTotal, relays, s.NewToken)
	s, l.outage = outage.Watch(s, l.back)
	l.store = s
	if relays {
		l.relay = s.(store.Relay) //nolint:forcetypeassert // watched or not, it is one
	}
	l.watchdog = renew.New(s)
	l.janitor = janitor.New(s, o.logger)
	l.subscriber = newSubscriber(l)
	for _, begin := range o.readers {
		if stop := begin(l.Stats); stop != nil {
			l.stops = append(l.stops, stop)
		}
	}
	return l
}

// Validate returns nil, or an ErrInvalidPolicy: what Policy.Validate says, or that
// this Locker cannot keep p, as a quorum cannot bound permits. The constructors of
// middlewares and interceptors call it, so that such a mistake shows at the start.
func (l *Locker) Validate(p Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if p.Permits > 0 && l.quorum {
		return badPolicy("Permits", "a quorum cannot bound them: with 3 nodes and 2 permits, 3 holders can have a majority each")
	}
	return nil
}

// Close ends the Locker. From now on Acquire returns ErrClosed, also to those who
// wait. Leases that are held are renewed until they are released, or until ctx ends:
// then Close releases them, their contexts end with the cause ErrReleased, and what
// their work gets from Release is ErrLost. So stop the server first, then call Close,
// with one ctx for both. Leases that were lost are not waited for.
//
// The error is nil when nothing is left in Redis, also if ctx has ended meanwhile.
// Otherwise it says how many leases could not be released, and of how many calls that
// had given up something may be left: such locks end by their TTL.
//
// When Close returns, no goroutine or connection of the Locker is left (go-redis may
// take a second more to notice, where a server was down). That is within two or three
// seconds after ctx has ended, on a quorum within five. An observer or a logger that
// blocks costs half a second of that; what it was not told by then is dropped, and
// its goroutine ends when it returns. Later calls wait for the first and return the
// same.
func (l *Locker) Close(ctx context.Context) error {
	l.closeOnce.Do(func() { l.closeErr = l.shutDown(ctx) })
	return l.closeErr
}

func (l *Locker) shutDown(ctx context.Context) error {
	l.endClaims()
	close(l.closing)
	for led := range l.ledgers.All() {
		led.claims.Wait() // each ends at once, or with the command it has sent, which is bounded
	}
	l.drain(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeBudget)
	defer cancel()
	err := l.releaseAll(ctx)
	l.subscriber.stop()
	if n := l.janitor.Stop(ctx); n > 0 {
		err = errors.Join(err, fmt.Errorf("%w: close: %d abandoned attempts and unanswered releases could not be cleaned up; what they left ends by its TTL", ErrUnavailable, n))
	}
	l.watchdog.Stop()
	l.checks.Wait()
	err = errors.Join(err, l.store.Close())
	l.reports.End(lastReports)
	for _, stop := range l.stops {
		stop()
	}
	return err
}

const (
	closeAtOnce = 32              // releases under way
	closeBudget = 2 * time.Second // for all of them, and for cleaning up
)

// drain waits until all leases are released, or ctx ends. No claim is under way any
// more, so a ledger that is empty stays so.
func (l *Locker) drain(ctx context.Context) {
	for led := range l.ledgers.All() {
		select {
		case <-led.empty():
		case <-ctx.Done():
			return
		}
	}
}

// releaseAll releases all leases. What Redis does not take within ctx ends
// here all the same, and there by its TTL.
func (l *Locker) releaseAll(ctx context.Context) error {
	leases := l.allLeases()
	next := make(chan *Lease)
	var failed atomic.Int64
	var workers sync.WaitGroup
	for range min(closeAtOnce, len(leases)) {
		workers.Go(func() {
			for lease := range next {
				if err := lease.releaseForClose(ctx); err != nil && !errors.Is(err, ErrLost) {
					failed.Add(1)
				}
			}
		})
	}
	for _, lease := range leases {
		next <- lease
	}
	close(next)
	workers.Wait()
	if n := failed.Load(); n > 0 {
		return fmt.Errorf("%w: close: %d of %d leases could not be released; they end by their TTL", ErrUnavailable, n, len(leases))
	}
	return nil
}

// back is called when a server answers again that could not be reached.
func (l *Locker) back() {
	l.subscriber.doubt()
	l.waiters.AskFirsts()
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

// checkServer warns once, in the log and to the observers, about a server that
// may throw held locks away. It runs beside the first acquire: New does no I/O,
// and a server that does not tell (an ACL without INFO) is no reason to refuse.
func (l *Locker) checkServer() {
	s, ok := l.store.(interface {
		EvictionPolicy(context.Context) (string, error)
	})
	if !ok {
		return
	}
	l.checks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if policy, err := s.EvictionPolicy(ctx); err == nil && policy != "noeviction" {
			l.log.Warn("lockmw: Redis may evict held locks when its memory is full; give locks a server with maxmemory-policy noeviction",
				"maxmemory-policy", policy)
			// Who has given no logger sees it all the same.
			l.tellLater(context.Background(), Event{
				Kind: EventServerWarning,
				Err:  fmt.Errorf("lockmw: Redis may evict held locks when its memory is full (maxmemory-policy %s): set noeviction", policy),
			})
		}
	})
}
