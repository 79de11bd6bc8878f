package quorum_test

import (
	"flag"
	"testing"

	"github.com/lockmw/kit/internal/redistest"
)

func TestMain(m *testing.M) {
	// The conformance tests mostly wait for each other's clean-ups.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	redistest.Main(m)
}
