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
// The doors (packages httplock, ginlock, echolock and grpclock) do the same
// around a request, with a key from package keyfunc.
//
// # The lease
//
// Acquire returns a Lease: a lock that is held by nobody else until it is
// released. Redis keeps it for the policy's TTL; the Locker's watchdog renews
// it every third of that. The lease's context is the work's context: it ends
// when the lease is released, and before that if the lease is lost.
//
// # The trust window
//
// Redis is the authority on who holds a lock, and the holder only knows what
// Redis last told it. So a lease counts its validity from the moment before
// the question was sent, not from the answer, less a margin for drifting
// clocks (1 % of the TTL and 2 ms). A local timer ends the lease's context a
// guard of TTL/10, at least 50 ms, before that validity ends, whatever the
// network or the watchdog is doing then. A holder that is cut off is told
// before anybody else can have its lock. A process that was stopped finds out
// on its first call of Lease.Valid.
//
// # Waiting
//
// Waiters stand in one queue per key, in Redis, in the order in which they
// came, over all processes. The release itself gives the lock to the first
// live waiter and tells its process, so a hand-over takes one round trip. Where
// several of one process wait for a mutex, a release brings the next of them
// along, so a turn takes one command (cohort.go).
// Jittered retries run beside that and find what no message can tell: a holder
// that died, a foreign program's release, a lost message.
//
// # Kinds
//
// Policy.Mode and Policy.Permits say who may hold a key together: one, readers
// or a writer, or so many. They differ in what is asked of Redis, not in how a
// lease is waited for, renewed, handed over or released; all stand in the one
// queue, so a writer that waits keeps later readers out. AcquireAll takes
// several keys or none. NewQuorum takes each lock at a majority of independent
// servers: there is no queue then, and there are no fences.
//
// # When Redis cannot be reached
//
// A Locker knows whether its Redis can be reached: from what comes of every
// command, and while that is in doubt, from pings on a connection of their own.
// An outage of less than a second, such as a restart, is waited through. In a
// longer one calls are refused at once, with ErrUnavailable that says since when,
// or run without the lock where Policy.FailOpen says so; nothing but a few pings is
// sent. A second after Redis is back at the latest, locks are taken again. In a
// Cluster this is known of each master by itself.
//
// # What is not promised
//
// A lock on one Redis is as good as that Redis's memory. When Redis forgets
// (a restart without persistence, a fail-over to a replica that is behind, an
// eviction, FLUSHALL) or its clock jumps, two holders can overlap until the
// first one's next renewal tells it. Where that matters, hand Lease.Fence to
// the resource and have it refuse a number lower than it has seen. And a
// context can only ask the work to stop: code that ignores its context goes on
// without the lock.
//
// # Reading on
//
// Start at locker.go, then acquire.go (one attempt), wait.go (the queue's near
// end, with waiters.go and cohort.go) and lease.go (what is held); watchdog.go
// renews, release.go gives back, outage.go knows whether Redis can be reached
// (watched.go tells it, away.go is what a claim makes of that), internal/janitor
// cleans up after those who gave up. What a refused caller is told is made in
// refuse.go, from what was seen of the lock (sighting.go) and of how long others were
// held (holds.go); what that means to a client is in refusal.go. multi.go and
// reentrant.go are leases made of leases. What lies in Redis:
// internal/redisstore/lua/lock.lua.
package lockmw
