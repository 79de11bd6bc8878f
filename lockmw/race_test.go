//go:build race

package lockmw_test

// These are smaller where each one costs ten times as much.
const (
	manyKeys    = 30_000
	quorumTurns = 600

	// The race detector has pools lose things.
	poolsLoseAllocs = 10
)
