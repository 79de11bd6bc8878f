package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/examples/internal/demo/demotest"
	"github.com/lockmw/kit/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExample(t *testing.T) {
	testenv.Slow(t)
	demotest.Run(t, serve)
}
