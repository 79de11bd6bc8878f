package main

import (
	"testing"

	"github.com/lockmw/kit/examples/internal/demo/demotest"
)

func TestTheEndOfAProgramWhoseCallsTakeTooLong(t *testing.T) {
	demotest.ShutDown(t, "/shop.v1.Orders/Pay", `{"orderId":"42"}`, routes, shutDown)
}
