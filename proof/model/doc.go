// Package model looks at all states of the lock protocol that can be reached, for a few processes with a few calls.
//
// The scripts are not modelled, they run: the text that Redis gets (lua.go), over as much of Redis as they use (db.go). What is
// modelled is what lies around them: the calls of Acquire, the commands on their way, of which none waits for another, the
// messages, the clocks, and what may go wrong. A step is one thing that happens: a command is carried out, a reply or a message
// comes, a second passes, somebody gives up, something fails. Read it in this order: size.go says what is looked at, state.go
// what a state is, steps.go which steps may be taken from one, machine.go takes one, with what a Locker (locker.go, ticket.go;
// several.go for several keys, rests.go for waiters that rest), Redis (redis.go) and a fault (fault.go, moving.go) do. check.go has the
// properties. explore.go takes every step from every state (names.go has those that differ in the names of Lockers be one), and
// says also whether those who wait can have the lock in the end. db.go and lua.go are Redis, and judge.go compares them with a
// real one.
//
// docs/model.md says what is in it and what is not, and how to read what it prints.
package model
