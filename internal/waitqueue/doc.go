// Package waitqueue has the waiters of one Locker: the calls that wait for a lock, of each
// key in the order in which they came. It decides which of them the store has to know, which
// of them asks the store, and who is next when somebody of the Locker gives a lock back. It
// sends nothing, holds no lock, and starts no goroutine; package lockmw does what it says.
//
// A Locker has one Set, and a process has one Locker in most cases. "The store" is the store
// of that Locker, mostly Redis, which has a queue of its own over all Lockers
// (internal/redisstore/lua/queue.lua). Of the waiters that want a lock for themselves alone,
// only the first of a Locker need stand there, and not even that one while another call of
// the Locker has the lock. Then the one that has it is the holder of the queue here, and
// brings the next waiter into the store's queue when it gives the lock back: its release
// offers the lock to that waiter, which means that the same command tells the store who it
// is, and since when it waits. The first waiter does the same for the next one when its own
// wait is over. So each Locker's first is in the store's queue, at its true
// place, whenever the lock changes hands, and whoever came first of all is among those. The
// other waiters rest, and cost no command. But one that has rested in front of all others for
// a while asks all the same, so that other Lockers see that somebody waits.
//
// Until it is the turn of somebody of another Locker, the holder need not give the lock back at
// all. It passes the lock on to the next waiter, and the store is told nothing.
//
// (The idea of a local queue below a global lock is that of cohort locks: Dice, Marathe,
// Shavit: Lock Cohorting, PPoPP 2012. Those let a process keep the lock for a while although
// others came before.)
//
// A waiter is in one of seven states:
//
//	 joins                                    joins, and nobody of the Locker
//	   |                                      has the lock or waits for it
//	   v          nobody passes the lock on         |
//	Resting --------- any more ----------------> Asking <-----------------+
//	   |                                         ^ |  ^                   |
//	   |                               no place  | |  | no place          | the grant
//	   |        a holder gives the lock          | |  |                   | came too late,
//	   |        back, and offers it to this one  | |  +---------+         | or has to be
//	   +-------------------+        +------------|-+            |         | confirmed
//	                       v        v            |        it has a place  |
//	      no answer     Offered ----------- the holder's -----> Queued    |
//	   Doubtful <---------/ |               answer              |         |
//	      |                 |                                   |         |
//	      |                 +---------------> Served <----------+         |
//	      +----------------------------------> |  |                       |
//	                                           |  +-----------------------+
//	                                           v
//	                     it takes the lock, or gives up, from any state: Gone
//
// Not drawn: a waiter that rests becomes Served when the holder passes the lock on to it, and
// asks when it has rested in front for a while, and becomes Offered when the one before it
// asks for the last time; one that asks becomes Served when a message
// says that the store has granted it the lock. One that is Doubtful becomes Offered again when
// another holder gives the lock back.
//
// After each change one thing holds: if a waiter rests, somebody sees to its turn. Either
// the queue has a holder, which will pass the lock on or offer it. Or the first of the waiters
// that want the lock for themselves alone is awake, which is to say it does not rest; it asks
// the store, and is the next holder.
//
// Where to read: state.go has the states, the table of all transitions, and the one function
// that changes a state. waiter.go has a waiter and what it is granted, queue.go the queue of
// one key. set.go has what a waiter goes through, from Join to Take or Leave, and handover.go
// how a lock comes to a waiter: PassOn, Offer, and the store's message.
package waitqueue
