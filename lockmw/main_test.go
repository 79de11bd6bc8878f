package lockmw_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/stalls"
)

// machine knows when the machine stood still. In a bubble, whose clock is another, it never did.
var machine *stalls.Meter

func TestMain(m *testing.M) {
	for env, process := range map[string]func(string) error{instanceEnv: tellInstance, childEnv: child, settingsEnv: tellSettings} {
		if of := os.Getenv(env); of != "" {
			if err := process(of); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	machine = stalls.Start() // until the process ends
	redistest.Main(m, goleak.IgnoreCurrent())
}
