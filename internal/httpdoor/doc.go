// Package httpdoor is what the HTTP doors (httplock, ginlock, and both of echolock by way
// of internal/echodoor) have in common, over net/http types only. A door translates
// between its framework and this package, and does nothing else.
//
// A [Door] is made once per middleware and refuses start-up mistakes. Each
// request makes a [Visit], which the door embeds in its keyfunc.Request:
//
//	v := &view{Visit: door.Visit(r), ...}
//	locked, err := v.Enter(v, w)   // key, then the body, then the lock
//	if err != nil { refuse }       // the handler does not run
//	if !locked { run the handler } // keyfunc.Skip
//	defer v.Leave()                // for a panic or Goexit
//	run the handler with v.Inner()
//	if err := v.Leave(); err != nil { lost: v.TakeBack and refuse, if nothing was written }
//
// A door called Idempotent has one call in the place of Enter and Leave, which runs the handler or gives the response of
// another request that asked for the same: Once.
//
// Start reading at door.go, then visit.go, body.go, json.go, number.go, elements.go
// and form.go (what a key function sees of a body), native.go (one that reads the body
// itself), places.go (what it must not see, because a handler may look somewhere else), facts.go (what it asks for
// again), upload.go (a body that the handler reads
// under the lock), problem.go, response.go and buffer.go (what the client gets). Then idempotent.go (what is done
// once), fingerprint.go (whether two requests are the same) and kept.go (what is kept of a response).
package httpdoor
