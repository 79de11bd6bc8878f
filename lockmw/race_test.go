//go:build race

package lockmw_test

// manyKeys is smaller where each costs ten times as much.
const manyKeys = 30_000
