package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/lockmw/kit/examples/internal/demo/demotest"
	"github.com/lockmw/kit/lockmw"
)

func TestTheEndOfAProgramWhoseRequestsTakeTooLong(t *testing.T) {
	demotest.ShutDown(t, "/orders/42/pay", "", func(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) http.Handler {
		return routes(locks, charge)
	}, shutDown)
}
