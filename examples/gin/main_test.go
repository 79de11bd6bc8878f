package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/examples/internal/demo/demotest"
	"github.com/lockmw/kit/internal/test/slow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExample(t *testing.T) {
	slow.Test(t)
	demotest.Run(t, serve)
}
