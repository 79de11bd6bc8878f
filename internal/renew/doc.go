// Package renew is the watchdog of a Locker: it has many items renewed in a store, each
// after pauses of its own, in few batches. It knows when renewals are due and which of them
// go together. What a renewal asks for, what its outcome means, and how long the next pause
// is, an Item knows; those are the tenures of package lockmw.
//
// A renewal is in one of these places:
//
//	 Add
//	  |
//	  v    the timer fires            it is due
//	intake ---------------> agenda -------------> batch in flight
//	  |                     |    ^                   |     |
//	  | Remove       Remove |    | Item.Renewed:     |     | Item.Renewed: no pause,
//	  |       or Item.Terms |    | a pause           |     | or Remove
//	  |       says that it  |    +-------------------+     |
//	  v       is over       v                              v
//	 gone                  gone                           gone
//
// Intake (intake.go): what is new waits apart, by key, where others hardly meet it. Most
// leases are short, and come and go there.
//
// Agenda (schedule.go): all others are in a heap, the first due on top, and a timer is set
// to that one. When the timer fires, the intakes are emptied into the heap, and all that
// is due makes a batch, 100 renewals at most; with them go others that are due soon, so
// that 10,000 leases of 30 s cost about 130 batches in the 10 s between two renewals.
//
// In flight (batch.go): a batch is in flight while Store.Renew is called with it and each
// item is told what came of it. Then those that say a pause are on the agenda again. The
// call is bounded by the shortest timeout of its items, so that items whose timeouts
// differ much do not go together. Four batches of a schedule are in flight at most; what is
// due meanwhile waits on the agenda.
//
// There are two schedules, each with an agenda and a timer. A batch lasts as long as the
// slowest of its servers. So in a Cluster the items of a master that cannot be reached go
// by themselves, by the second schedule: otherwise there would be no time left for those
// of the others.
//
// Goroutines: there is none while nothing is due. A batch goes out on the goroutine of the
// timer that fired for it, and that goroutine sends batches until nothing is due. Stop
// waits for all of them, and Remove for the batch that the item is in.
//
// Mutexes are taken in this order: the Watchdog's, and then either one of an intake or
// what Item.Terms takes. So whoever holds a mutex that an item's Terms takes calls no method
// of the Watchdog. Store.Renew, Item.Ask and Item.Renewed are called without any.
package renew
