package locktest_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/internal/test/failtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try runs f as a test of its own, to the end, and returns why it failed.
func try(t *testing.T, f func(t testing.TB)) string {
	t.Helper()
	inner := failtest.New(t)
	inner.Run(func() { f(inner) })
	return strings.TrimSuffix(inner.Said(), "\n")
}
