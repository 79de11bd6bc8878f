package lockmw

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/janitor"
	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/renew"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// How a Locker begins, and what it does once.

// New returns a Locker that keeps its locks in the Redis of client: a single server
// (*redis.Client), a master watched by Sentinels (a *redis.Client from
// redis.NewFailoverClient), or a Cluster (*redis.ClusterClient). Do not put a proxy in
// between that spreads keys over servers (twemproxy, Envoy). It looks like a single
// server, and would give one key two owners.
//
// The error says which argument is wrong: a nil client; a *redis.Ring, which gives one
// key two owners when a shard fails; a client that reads from replicas; or what an option
// was given.
//
// The Locker opens connections of its own, with client's addresses, TLS and credentials.
// So it renews locks even while the application has exhausted its pool. New waits for no
// answer from Redis: a Redis that is down does not keep a service from starting. The
// Locker reaches Redis when the first lock is asked for; with SettingsInRedis it does so
// at once, in the background. While Redis cannot be reached, the Locker asks a few times
// a second whether it is back, until Close.
//
// The client stays the caller's: Close does not close it. Closing the client before the
// Locker does no harm, except with Sentinels: nobody is left then to ask them, and locks
// stay with the last known master.
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
		reporting: reporting{observers: o.observers, reports: o.reports, log: o.logger},
		namespace: o.namespace,
		note:      o.note,
		confirms:  o.acks > 0,
		closing:   make(chan struct{}),
	}
	l.shadows.perKey, l.shadows.total = o.maxPerKey, o.maxTotal
	l.relays = s.Queues() && !l.confirms
	l.waiters = waitqueue.NewSet(o.maxPerKey, o.maxTotal, l.relays, s.NewToken)
	s, l.outage = outage.Watch(s, l.back)
	l.store = s
	l.watchdog = renew.New(s)
	l.janitor = janitor.New(s, o.logger)
	l.subscriber = newSubscriber(l)
	l.settings = newSettingsKeeper(l, o)
	for _, begin := range o.readers {
		if stop := begin(l.Stats); stop != nil {
			l.stops = append(l.stops, stop)
		}
	}
	l.settings.start()
	return l
}

// back is called when a server answers again that could not be reached. The log tells the end of
// what it has told.
func (l *Locker) back(r outage.Return) {
	if r.Told {
		attrs := []any{"after", r.After.Round(time.Millisecond)}
		if r.Server != "" {
			attrs = append(attrs, "server", r.Server)
		}
		l.log.Info("lockmw: Redis is back", attrs...)
	}
	l.subscriber.doubt()
	l.waiters.AskFirsts()
	l.settings.hint()
}

// checkServer warns once, in the log and to the observers, about a server that
// may throw held locks away. It runs beside the first acquire: New does no I/O,
// and a server that does not tell (an ACL without INFO) is no reason to refuse.
func (l *Locker) checkServer() {
	l.checks.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if policy, err := l.store.EvictionPolicy(ctx); err == nil && policy != "noeviction" {
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
