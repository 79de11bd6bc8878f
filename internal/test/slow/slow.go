// Package slow tells a test which kind of run it is part of: the whole one
// (make test) or the quick one (make check).
package slow

import "testing"

// leftOut is what a skipped test says. tools/testreport knows it, too.
const leftOut = "slow: left out by -short"

// Test leaves the test out of a short run (go test -short), which is what make
// check runs, and does nothing in any other. A test calls it first, before it has
// logged or started anything.
//
// It is for a test that needs seconds although its waiting was moved to a
// synctest bubble where that is possible, and its TTLs are as short as they can
// be. No other way to leave a test out is known to tools/testreport, which fails
// a run in which any test was skipped otherwise.
func Test(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip(leftOut)
	}
}
