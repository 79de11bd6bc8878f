// Package await waits, in tests, for what must happen: for a value on a channel, or for a
// state that no channel tells of. All of its functions keep one contract:
//
//   - They return as soon as it has happened, and a state that is there already is seen at
//     once.
//   - When their time is over they end the test by tb.Fatalf, with the time and what was
//     waited for. So they belong in the goroutine of the test, and what is text for "not
//     within 20s: …".
//   - They do not look at tb.Context, which has ended when clean-ups run: they may wait, too.
//
// They may be used in a synctest bubble, where its clock counts. The package knows nothing of
// Redis or locks, so that every test may import it.
package await

import (
	"testing"
	"time"
)

// Patience is how long Until and Receive wait: longer than anything lasts that works, on a
// machine that is busy.
const Patience = 20 * time.Second

// pause is the time between two looks at a state.
const pause = time.Millisecond

// Until returns when is() is true.
func Until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	Within(tb, Patience, what, is)
}

// Within is Until with a limit of its own.
func Within(tb testing.TB, limit time.Duration, what string, is func() bool) {
	tb.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(pause) {
		if time.Now().After(end) {
			tb.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// Receive returns what comes from c, or zero when c is closed.
func Receive[T any](tb testing.TB, what string, c <-chan T) T {
	tb.Helper()
	return ReceiveWithin(tb, Patience, what, c)
}

// ReceiveWithin is Receive with a limit of its own.
func ReceiveWithin[T any](tb testing.TB, limit time.Duration, what string, c <-chan T) (value T) {
	tb.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case value = <-c:
	case <-timer.C:
		tb.Fatalf("not within %v: %s", limit, what)
	}
	return value
}
