// Package checks holds the experiments of which each does one thing to the
// library, very often, and compares what it saw with a goal: what is lost, how
// late, how much. Those that need several processes or a history are elsewhere
// in this module.
//
// Each test writes a row of the report (package record). With -short it does
// the same a few times and leaves goals of time wide margins, because such a
// run shares its machine. Random choices come from a seed that is logged;
// PROOF_SEED sets it.
//
// Start reading at helpers_test.go, then any other file: each is one subject.
package checks
