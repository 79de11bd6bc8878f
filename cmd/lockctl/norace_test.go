//go:build !race

package main

// A list of as many locks, and the memory that lockctl may take for it.
const (
	manyLocks  = 100_000
	mostMemory = 96 << 10 // KiB
)
