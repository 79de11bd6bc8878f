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
// (packages grpclock, connectlock) do the same around each request. Package keyfunc makes
// the key of a request.
//
// # The lease
//
// Acquire returns a Lease: a lock that nobody else holds until it is released. Redis keeps
// the lock for the policy's TTL. The Locker's watchdog renews it again and again, each time
// after about a third of the TTL; one watchdog serves all leases of the Locker. Acquire
// also returns the lease's context, for the work under the lock. It ends when the lease is
// released, and before that if the lease is lost.
//
// # For how long a lease is trusted
//
// Redis is the authority on who holds a lock. A holder knows only what Redis last told it.
// So a lease is trusted for its TTL, less a margin for drifting clocks (1 % of the TTL and
// 2 ms). The time counts from the moment before the command was sent, not from the reply. A
// local timer ends the lease's context before that time is over, by a tenth of the TTL and
// at least by 50 ms, whatever the network or the watchdog is doing then. So a holder that
// is cut off from Redis is told before anybody else can have its lock. A process that was
// stopped meanwhile finds out by its first call of Lease.Valid.
//
// # Waiting
//
// The waiters of a key, in all processes, stand in one queue in Redis, in the order in
// which they came. The release itself gives the lock to the first live waiter and tells its
// process, so a hand-over takes one round trip.
//
// Where several calls of one Locker wait for a mutex, a release mostly passes the lock on
// to the next of them without any command. That goes on until somebody who waits elsewhere
// is next, and for a second at most. Each of these leases has a higher fence than the one
// before. Any other release goes to Redis, and offers the lock to the next of
// these calls in the same command.
//
// Besides, waiters try again at random intervals. These retries find what no message can
// tell: a holder that died, another program's release, a lost message.
//
// # Kinds
//
// Policy.Mode and Policy.Permits say who may hold a key at the same time: one holder (a
// mutex), many readers or one writer, or a number of holders (a semaphore). All stand in
// the key's one queue, so a waiting writer keeps later readers out. AcquireAll and
// WithLocks take all of several keys, or none. A Locker of NewQuorum takes each lock at a
// majority of independent servers. It has no queue and no fences.
//
// # When Redis cannot be reached
//
// A Locker knows whether its Redis can be reached. It learns that from the outcome of every
// command and, while there is doubt, from pings on a connection of their own. A call whose
// policy lets it wait for a second waits through a shorter outage, such as a restart. In a
// longer outage, calls are refused within 250 ms, with an ErrUnavailable that says since
// when Redis is away. With Policy.FailOpen they run without the lock instead. Nothing but a
// few pings is sent meanwhile. Within a second of Redis's return, locks are taken again. In
// a Cluster, all this is known of each master separately.
//
// # What is not promised
//
// A lock on one Redis is as good as that Redis's memory. Redis may forget a lock (a restart
// without persistence, a fail-over to a replica that is behind, an eviction, FLUSHALL), or
// its clock may jump. Then two holders can overlap until the next renewal of the first one
// tells it, within 11 s if the TTL is 30 s. Meanwhile the process of the first one may pass
// the lock on, for a second at most, with fences below the other holder's. Where that
// matters, hand Lease.Fence to the resource, and have it refuse a number lower than it has
// seen. Package fence does so in databases.
//
// A context can only ask the work to stop. Code that ignores its context goes on without
// the lock.
//
// # More than a lock
//
//   - One answer for all who ask for the same: Do, Resolve. In routes it is Idempotent, in the
//     packages of the frameworks. See docs/answers.md.
//   - Work that goes on in another process: Lease.Ticket, Locker.Resume. See docs/tickets.md.
//   - A job that one process does: Once, Leader. See docs/code.md.
//   - A policy that is tried on live traffic first: Policy.Shadow. See docs/policy.md.
//   - Policies that operators change while the program runs: WithSettings. See docs/operating.md.
//   - A release that is not awaited: Policy.AsyncRelease. See docs/policy.md.
//   - What goes on: Stats, List, Inspect, Doctor, WithObserver. See docs/operating.md.
//
// Whoever wants to change this package begins with docs/architecture.md. It says which file
// has what ("Where each thing is").
package lockmw
