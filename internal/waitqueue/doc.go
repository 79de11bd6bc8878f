// Package waitqueue has the waiters of one process: the calls that wait for a key, of
// each key in the order in which they came. It decides which of them the store has to
// know, which of them asks the store, and who is next when somebody of the process gives
// a key back. It sends nothing, holds no lock, and starts no goroutine; package lockmw
// does what it says.
//
// Redis has a queue of its own, over all processes (internal/redisstore/lua/queue.lua).
// Of the waiters that want a key for themselves alone, only the first of a process need
// stand there, and not even that one while another of the process has the key: when that
// one gives the key back, it names the next to the store in the same command, and since
// when it waits. So each process's first is in the store's queue, at its true place,
// whenever the key changes hands, and whoever came first of all is among those. The other
// waiters rest, and cost no command. But one that has rested in front of all others for a
// while asks all the same, so that other processes see that somebody waits. (The idea of a local queue below a global lock is
// that of cohort locks: Dice, Marathe, Shavit: Lock Cohorting, PPoPP 2012. Those let a
// process keep the lock for a while although others came before.)
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
//	   |        back, and names it               | |  +---------+         | or has to be
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
// All transitions are in the table of state.go, and nothing else changes a state but
// queue.add, which gives a waiter its first one. Not drawn: one that rests, or asks, may be
// served at once, by one that passes the key on, or by a message; one in doubt may be named
// again.
//
// What holds at all times: while a waiter rests, either the process has the key, and its
// holder passes it on, or the first waiter of those that could rest does not.
package waitqueue
