package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lockmw/kit/examples/internal/demo/demotest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExample(t *testing.T) { demotest.Run(t, serve) }
