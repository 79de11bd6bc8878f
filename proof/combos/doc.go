// Package combos is the combined matrix: rounds that cross a fault with a kind of
// client, a load, a policy, a distance, observers, loggers and a server, drawn at
// random from a seed. Package matrix injects many faults of each kind, but under one
// load and with one client: mistakes that show only with another client, under
// another load at the moment of the fault, or in what counts as "away", are found
// here.
//
// A round (round.go) is one combination (combination.go) on a group of servers (site.go)
// with a fault (faults.go, election.go), from the making of a client to the end of its
// goroutines. Bursts of callers (load.go) take locks, and hand some of them on by tickets (call.go), while observers and
// loggers misbehave (observer.go), through what may stand in front of a server
// (front.go). locker.go is as much of a Locker as a round uses, so that tests of the
// judge can put mistakes in. judge.go says what must not be of a call, judgeall.go of
// all calls together, finish.go what must not be left, and known.go what is known and
// not mended yet. Bounds in time grow with how busy the machine was
// (internal/test/stalls), and a server that was too busy to answer a ping (redistest.Pulse) may
// have been taken for silent. Rounds run in child processes (lane.go), several at a
// time. The short run, which is a part of make test, draws from a fixed seed: new ones are for make combos.
//
//	make combos                                          the whole matrix
//	PROOF_SEED=7 go test -short ./combos                 a short run with another seed
//	PROOF_ROUND=single/redis-server/42 go test ./combos  one round alone
//
// REDIS_SERVERS names further redis-server programs, separated by colons or
// commas.
package combos
