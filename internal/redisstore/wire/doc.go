// Package wire carries commands to one Redis server and their replies back, over a
// few connections that all callers share. It knows no lock: a caller brings the
// encoded commands of a [Call], and [Pool.Do] returns the bytes of their replies.
//
//	callers                  a connection                    Redis
//
//	 call A ── append ─┐
//	 call B ── append ─┼─► buffer ── writer (A) ──────────► A B C
//	 call C ── append ─┘                                       │
//	                                                           │
//	 A, B, C ◄── each its reply ── in flight ◄── reader (A) ◄──┘
//	                               A B C
//
// A connection is full duplex. Whoever has commands appends them behind those that
// are in flight, and replies come in the same order. No goroutine belongs to a direction
// for good; the goroutine that calls [Pool.Do], the owner of a call, does what is needed:
//
//   - The writer is the first owner that finds nobody writing. It writes until the
//     buffer is empty, and what others append meanwhile goes along. After 16 writes it
//     hands over to one of those whose commands are still there.
//   - The reader is an owner, too: one whose call is open and that finds nobody
//     reading. It hands the replies of others to them until its own has come. Then
//     the owner of the oldest call in flight is woken and goes on reading. One
//     caller alone so writes and reads without any other goroutine; many make a
//     pipeline.
//   - Where no owner can write or read, a goroutine of the connection's own does. It writes
//     what a caller has appended that left before it was written. It reads when the owner of
//     the oldest call in flight has left, and when a write takes long and nobody reads: the
//     server may be waiting until its replies are read. And it reads on the first few
//     connections while nothing is in flight on them, so that their end is seen.
//
// A pool has up to Size connections, in a fixed order. With up to three calls in flight, the
// next one takes the first connection that is idle. With four to 160 they share the first
// connection. With more, or where that is late, a call takes the first one that is idle
// again, or goes behind those in flight on the first one whose replies are not overdue; then one
// more connection is dialled for later calls, until there are Size. A connection is idle if nobody
// waits for what is in flight on it. An urgent call takes the one with the fewest others.
//
// The server is behind if replies come, but slowly: 64 calls or more are in flight, and the
// oldest has been for more than one and a half times as long as the fastest reply took, and
// 5 ms. Then calls that are Patient are held back in the pool, and are sent as replies come
// (behind.go).
//
// If calls are in flight and nothing comes at all, it depends on for how long:
//
//	10 ms                 The reply is overdue: new calls go past the connection. Where nobody waits for
//	                      the reply (post.go), its way to a server far away and back does not count.
//	100 ms, or twice the  The connection hangs. If all places are taken, one more is
//	time of a dial        dialled, and takes that of the one with the fewest calls in
//	                      flight, which is still read for them (grow.go). When a call is
//	                      out of time, the connections that have rested for as long are
//	                      closed: they may have come to the same end (conn.go, doubt).
//	                      A call that was posted, and is awaited by now, is over (post.go).
//	Options.Silence       The connection is given up, with all calls on it.
//
// Where credentials have changed, [Pool.Retire] has later calls use new connections. The
// old ones go on until nothing is in flight on them, and are closed.
//
// A call may also be posted: its owner leaves as soon as it is on its way. Another call may go behind that over the same connection,
// to be carried out behind it (post.go).
//
// What ends a call, other than its replies:
//
//	its context ends      Do returns, see there how soon. Nobody else notices: the
//	                      replies are still read, and go to the call's Late. A reader
//	                      that wants to leave is interrupted by a read deadline in the
//	                      past, which loses nothing, and another one goes on.
//	its deadline passes   The same, without Late. One tick serves all calls of a
//	                      pool; there is no timer for each.
//	the connection fails  It broke, was silent for too long, or its writer could not
//	                      go on. All its calls end. Those of which nothing was written
//	                      are put on another connection, and tried three times in all,
//	                      while their callers are there; for the others [Error.Sent]
//	                      says that they may have been carried out.
//	it was never sent     No connection could be dialled (the error is that of dialling),
//	                      none was there until its deadline (ErrTimeout), it was held
//	                      back until then (ErrBehind), or the pool is closed.
//
// There is one lock, Pool.mu. It guards the pool, its connections and their calls,
// apart from a connection's input buffer, which is its reader's. Nothing that may block is
// done while it is held: reading, writing, dialling, closing, waking others and calling
// Late come after [Pool.unlock]. Nor is others' code called under it: a caller's context is asked for
// its Done before, and for its Err and its cause afterwards (doneChan, call.go).
//
// In all files p is a pool, k a connection, and c a call. Start at call.go (a call and its
// states) and side.go (who writes and who reads). Then pool.go has how a call finds a
// connection, grow.go where that comes from, conn.go how a call is written and read over it,
// tick.go who looks after time, behind.go the calls that are held back, and retire.go how
// connections are replaced. post.go has calls whose owners do not wait, input.go what
// has arrived, and resp.go the protocol.
package wire
