// Package spellings tests that a client cannot choose its lock by its spelling: whatever
// router, framework and decoder a handler uses, two requests that it takes for one object are under one
// lock, or one of them is refused. table.md says so of each spelling; the test writes
// it (go test ./spellings -update), and docs/keys.md says in words what a service must do itself.
//
// Start reading at trial_test.go (what is asked of a cell), then table_test.go (the
// tables); requests_test.go has what clients send, and the other tests how handlers read it.
package spellings
