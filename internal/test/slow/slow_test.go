package slow

import (
	"testing"

	"github.com/lockmw/kit/internal/test/failtest"
)

// skips notes what Test does to a test.
type skips struct {
	*failtest.T
	said []any
}

func (s *skips) Skip(args ...any) { s.said = append(s.said, args...) }

func TestSlowLeavesATestOutOfAShortRunOnly(t *testing.T) {
	var want []any
	if testing.Short() {
		want = []any{leftOut}
	}
	s := &skips{T: failtest.New(t)}
	Test(s)
	if len(s.said) != len(want) || len(want) > 0 && s.said[0] != want[0] {
		t.Errorf("short = %t: it is skipped with %q, want %q", testing.Short(), s.said, want)
	}
}

// tools/testreport runs it both ways, to see that it knows the mark.
func TestSlowOne(t *testing.T) { Test(t) }
