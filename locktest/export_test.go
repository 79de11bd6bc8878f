package locktest

import (
	"testing"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// Hurry has the functions that wait for l fail after d.
func Hurry(t testing.TB, l *lockmw.Locker, d time.Duration) {
	t.Helper()
	stageOf(t, "Hurry", l).patience = d
}
