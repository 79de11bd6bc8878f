package main

import (
	"testing"

	"github.com/lockmw/kit/examples/internal/demo/demotest"
)

func TestTheEndOfAProgramWhoseRequestsTakeTooLong(t *testing.T) {
	demotest.ShutDown(t, "/orders/42/pay", "", routes, shutDown)
}
