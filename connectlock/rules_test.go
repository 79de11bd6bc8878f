package connectlock_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
)

func TestUnknownServiceIsReported(t *testing.T) {
	const rule = "/elsewhere.UnknownServiceOfConnect/Pay"
	locks, _ := testenv.Locker(t)
	var log bytes.Buffer
	logger := connectlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	connectlock.Interceptor(locks, grpclock.Rules{rule: {Key: keyfunc.Const("k")}, rpctest.PayMethod: {Key: keyfunc.Const("k")}}, logger)
	_, got, _ := strings.Cut(strings.TrimSpace(log.String()), " ")
	const want = `level=WARN msg="connectlock: a rule is for a service that this program does not know: is it spelled right?" rule=` + rule
	if got != want {
		t.Errorf("logged %s\nwant   %s", got, want)
	}
}

func TestProcedureWithoutARuleCostsNothing(t *testing.T) {
	locks, _ := testenv.Locker(t)
	interceptor := connectlock.Interceptor(locks, grpclock.Rules{rpctest.PayMethod: {Key: keyfunc.Const("k")}})
	response := connect.NewResponse(new(testpb.Receipt))
	call := interceptor.WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) { return response, nil })
	request, ctx := connect.NewRequest(new(testpb.Order)), context.Background()
	if n := testing.AllocsPerRun(100, func() { _, _ = call(ctx, request) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
