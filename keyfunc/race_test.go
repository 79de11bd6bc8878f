//go:build race

package keyfunc_test

// decodeLength is the length of the strings in TestJoinedKeyCanBeDecoded. The
// race detector makes it ten times as slow, and finds nothing there.
const decodeLength = 2
