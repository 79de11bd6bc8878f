//go:build !race

package lockmw_test

const (
	manyKeys    = 100_000
	quorumTurns = 2000

	poolsLoseAllocs = 0
)
