// Package sim lets the real engine and the real scripts work in virtual time, with faults, from a seed.
//
// A seed makes a Plan (plan.go): processes, how far away each is, what its callers want, and what fails when. A plan is
// carried out (world.go) in a bubble of testing/synctest: Lockers over connections without sockets, which lead through a fault proxy to
// the embedded Redis. faults.go breaks the way there, and Redis. Hours pass in seconds, and nothing depends on how busy the machine is. judge.go
// says what must not be, held.go where Redis has something else than it should, order.go who may be served before whom, excuse.go what may be why something is,
// patience.go for how long a call may wait, and end.go what may be left;
// answer.go and once.go have the calls of Do, changes.go the operators who change live settings, and explain.go by which policies a call may run then; ticket.go the calls that
// issue tickets and go on by them, handon.go what must not be of these.
// A plan that fails is made smaller (shrink.go) for as long as it fails.
//
//	make sim                     seeds from 1 on, for an hour (FOR, FROM, FAILFAST)
//	make sim SEED=7              one seed again, made smaller if it fails
//
// seeds.txt has the seeds that once failed; each make test runs them.
package sim
