// Package echodoor is what the doors of Echo v4 and Echo v5 (echolock, echolock/v5)
// have in common. The two versions differ in the type of a context and in some of its
// methods; a door says in a [Version] how its own is used, and translates nothing else.
// This package imports neither of them, so that nobody compiles both.
//
// Start reading at version.go (what is different), then door.go (a request's way
// through the door), idempotent.go (through one that answers once), view.go (what key functions see) and options.go.
package echodoor
