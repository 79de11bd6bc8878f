package lockmw_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(instanceEnv) != "" {
		if err := tellInstance(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if addr := os.Getenv(childEnv); addr != "" {
		if err := child(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	redistest.Main(m)
}
