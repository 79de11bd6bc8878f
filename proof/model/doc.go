// Package model looks at all states of the lock protocol that can be reached, for a few processes with a few calls.
//
// The scripts are not modelled, they run: the text that Redis gets (lua.go), over as much of Redis as they use (db.go). What is
// modelled is what lies around them (state.go, next.go): the calls of Acquire, the commands on their way, of which none waits for
// another, the messages, the clocks, and what may go wrong. A step is one thing that happens: a command is carried out, a reply or a
// message comes, a second passes, somebody gives up, something fails. explore.go takes every step from every state,
// and says of each state whether the properties hold (check, in next.go), and of all together whether those who wait can have the lock.
//
// docs/model.md says what is in it and what is not, and how to read what it prints. Read db.go and lua.go last.
package model
