package connectlock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
)

func TestUnknownServiceIsReported(t *testing.T) {
	rule := fmt.Sprintf("/elsewhere.Unknown%d/Pay", time.Now().UnixNano()) // a process reports each once, also with -count=2
	locks, _ := testenv.Locker(t)
	var log bytes.Buffer
	logger := connectlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	connectlock.Interceptor(locks, grpclock.Rules{rule: {Key: keyfunc.Const("k")}, rpctest.PayMethod: {Key: keyfunc.Const("k")}}, logger)
	_, got, _ := strings.Cut(strings.TrimSpace(log.String()), " ")
	want := `level=WARN msg="connectlock: a rule is for a service that this program does not know: is it spelled right?" rule=` + rule
	if got != want {
		t.Errorf("logged %s\nwant   %s", got, want)
	}
}

// The annotation of a .proto file means the same here as for gRPC, and a mistake names this
// package.
func TestAnnotatedReadsWhatGRPCReads(t *testing.T) {
	const service = "lockmwtest.v1.Annotated"
	got, err := connectlock.Annotated(service)
	if err != nil {
		t.Fatal(err)
	}
	want, err := grpclock.Annotated(service)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 || len(got) != len(want) {
		t.Errorf("%d rules, want %d", len(got), len(want))
	}
	for procedure, rule := range want {
		if got[procedure].Policy != rule.Policy || got[procedure].Key == nil {
			t.Errorf("%s: %+v, want %+v and a key", procedure, got[procedure].Policy, rule.Policy)
		}
	}
	if _, err := connectlock.Annotated("elsewhere.Unknown"); err == nil || !strings.HasPrefix(err.Error(), "connectlock: ") {
		t.Errorf("Annotated of a service that is not there = %v, want an error of connectlock", err)
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
