//go:build race

package main

// The race detector takes most of the memory and time, so lists are shorter with it.
const (
	manyLocks  = 10_000
	mostMemory = 512 << 10 // KiB
)
