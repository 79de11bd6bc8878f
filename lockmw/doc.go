// Package lockmw takes distributed locks in Redis for Go services.
//
//	locks, err := lockmw.New(client)
//	if err != nil {
//		return err
//	}
//	err = locks.WithLock(ctx, "42", lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second},
//		func(ctx context.Context) error {
//			fmt.Println("nobody else is at work on order 42 now")
//			return ctx.Err() // ctx ends if the lock is lost
//		})
//
// The middlewares (packages httplock, ginlock, echolock, echolock/v5) and the interceptors
// (packages grpclock, connectlock) do the same around a request, with a key from package
// keyfunc.
//
// # The lease
//
// Acquire returns a Lease: a lock that nobody else holds until it is released.
// Redis keeps it for the policy's TTL; the Locker's watchdog, one for all its
// leases, renews it after about a third of that, again and again. Acquire returns
// the lease's context as well, for the work under the lock: it ends when the lease
// is released, and before that if the lease is lost.
//
// # The trust window
//
// Redis is the authority on who holds a lock, and the holder only knows what
// Redis last told it. So a lease is trusted for its TTL counted from the moment
// before the command was sent, not from the reply, less a margin for drifting
// clocks (1 % of the TTL and 2 ms). A local timer ends the lease's context before
// that time is over, by a tenth of the TTL and at least by 50 ms, whatever the
// network or the watchdog is doing then. So a holder that is cut off from Redis is
// told before anybody else can have its lock. A process that was stopped meanwhile
// finds out by its first call of Lease.Valid.
//
// # Waiting
//
// Waiters stand in one queue per key, in Redis, in the order in which they
// came, over all processes. The release itself gives the lock to the first
// live waiter and tells its process, so a hand-over takes one round trip. Where
// several calls of one Locker wait for a mutex, the release of one offers the
// lock to the next in the same command, and passes it on without any command
// until it is the turn of somebody who waits elsewhere: then leases follow one another under one
// token, each with a higher fence, for a second at most, and the next release goes to Redis. Retries at random
// intervals run beside that, and find what no message can tell: a holder that died,
// another program's release, a lost message.
//
// # Kinds
//
// Policy.Mode and Policy.Permits say who may hold a key at the same time: one
// holder (a mutex), many readers or one writer, or a number of holders (a
// semaphore). All stand in the key's one queue, so a writer that waits keeps later
// readers out. AcquireAll and WithLocks take several keys or none. A Locker of
// NewQuorum takes each lock at a majority of independent servers: there is no queue
// then, and there are no fences.
//
// # When Redis cannot be reached
//
// A Locker knows whether its Redis can be reached: from what comes of every
// command, and while that is in doubt, from pings on a connection of their own. A
// call whose policy lets it wait for a second waits through a shorter outage, such
// as a restart. In a longer one calls are refused within 250 ms, with an
// ErrUnavailable that says since when, or run without the lock where
// Policy.FailOpen says so; nothing but a few pings is sent. Locks are taken again
// within a second of Redis's return. In a Cluster this is known of each master by
// itself.
//
// # What is not promised
//
// A lock on one Redis is as good as that Redis's memory. When Redis forgets
// (a restart without persistence, a fail-over to a replica that is behind, an
// eviction, FLUSHALL) or its clock jumps, two holders can overlap until the
// first one's next renewal tells it, within 11 s if the TTL is 30 s. The first one's
// process may pass the lock on for a second at most meanwhile, with fences below the
// other holder's. Where that matters, hand Lease.Fence to the resource and have it
// refuse a number lower than it has seen: package fence does so in databases. A context can only ask the work to stop:
// code that ignores its context goes on without the lock.
//
// # Reading on
//
// The code begins at locker.go and new.go. One call of Acquire, a claim (claim.go), begins in acquire.go (what it asks Redis
// for); wait.go has how it waits for its turn, end.go how it gets its lease or gives up, outage.go what it does without an answer,
// and residue.go what becomes of what its commands have left.
// internal/waitqueue has the waiters of the Locker, and decides which of them Redis has to know.
//
// What is held in Redis is a tenure (tenure.go), by a grant (grant.go), and who holds it is a lease (lease.go); ledger.go keeps
// those for which Close waits (close.go).
// renewal.go says when a tenure is renewed and what comes of it, internal/renew sends the renewals. release.go gives a lock
// back. Do begins in flight.go: calls.go has how its calls come together, keep.go how a lock is given back with an answer,
// resolve.go how somebody says what became of work of which nobody knew. shadow.go has policies that are only tried.
// reentrant.go has leases with a part in another lease's lock, multi.go (how they are taken) and bundle.go (what they
// have) those of several keys. internal/janitor removes from Redis
// what calls that gave up have left. internal/outage knows whether Redis can be reached.
//
// refuse.go makes the error of a call that got no lease, from what was seen of the lock (sighting.go, known.go) and of how long
// others were held (internal/holds); refusal.go says what that means to a client. event.go has the events, observe.go tells them, and
// internal/report has observers and the logger hold up nobody. inspect.go and info.go are for operators. What lies in Redis:
// internal/redisstore/lua/README.md.
package lockmw
