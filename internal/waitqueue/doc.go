// Package waitqueue has the waiters of one process: the calls that wait for a key, of
// each key in the order in which they came. It decides which of them the store has to
// know, which of them asks the store, and who is next when somebody of the process gives
// a key back. It sends nothing, holds no lock, and starts no goroutine; package lockmw
// does what it says.
//
// A process is one Locker, with one Set. "The store" is the store of that Locker, in most
// cases Redis, which has a queue of its own over all processes
// (internal/redisstore/lua/queue.lua). Of the waiters that want a key for themselves alone,
// only the first of a process need stand there, and not even that one while another of the
// process has the key. Then the one that has it is the holder of the queue here, and brings
// the next waiter into the store's queue when it gives the key back: its release offers the
// key to that waiter, which means that the same command tells the store who it is, and since
// when it waits. So each process's first is in the store's queue, at its true place, whenever
// the key changes hands, and whoever came first of all is among those. The other waiters
// rest, and cost no command. But one that has rested in front of all others for a while asks
// all the same, so that other processes see that somebody waits.
//
// While nobody else waits, the holder need not give the key back at all. It passes the key
// on to the next waiter, and the store is told nothing.
//
// (The idea of a local queue below a global lock is that of cohort locks: Dice, Marathe,
// Shavit: Lock Cohorting, PPoPP 2012. Those let a process keep the lock for a while although
// others came before.)
//
// A waiter is in one of seven states:
//
//	 joins                                    joins, and nobody of the process
//	   |                                      has the key or waits for it
//	   v          nobody passes the key on          |
//	Resting --------- any more ----------------> Asking <-----------------+
//	   |                                         ^ |  ^                   |
//	   |                               no place  | |  | no place          | the grant
//	   |        a holder gives the key           | |  |                   | came too late,
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
//	                     it takes the key, or gives up, from any state: Gone
//
// Not drawn: a waiter that rests becomes Served when the holder passes the key on to it, and
// one that asks when a message says that the store has granted it the key. One that is
// Doubtful becomes Offered again when another holder gives the key back.
//
// After each change one thing holds: if a waiter rests, somebody sees to its turn. Either
// the queue has a holder, which will pass the key on or offer it. Or the first of the waiters
// that want the key for themselves alone is awake, which is to say it does not rest; it asks
// the store, and is the next holder.
//
// Where to read: state.go has the states, the table of all transitions, and the one function
// that changes a state. waiter.go has a waiter and what it is granted, queue.go the queue of
// one key. set.go has what a waiter goes through, from Join to Take or Leave, and handover.go
// how a key comes to a waiter: PassOn, Offer, and the store's message.
package waitqueue
