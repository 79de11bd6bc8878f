//go:build !race

package keyfunc_test

// decodeLength is the length of the strings in TestJoinedKeyCanBeDecoded:
// 259 strings, 17 million tuples.
const decodeLength = 3
