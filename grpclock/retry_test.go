package grpclock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// eager is a retry policy by which a client would not wait.
const eager = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 2, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
	"retryableStatusCodes": ["ABORTED", "INVALID_ARGUMENT"]
}}]}`

// paying is a shop that is paid.
type paying struct{ testpb.UnimplementedShopServer }

func (paying) Pay(context.Context, *testpb.Order) (*testpb.Receipt, error) {
	return &testpb.Receipt{}, nil
}

func TestClientRetriesWhenItIsTold(t *testing.T) {
	r := testenv.New(t, redistest.Embedded(t))
	var attempts atomic.Int32
	refused := make(chan struct{}, 1)
	rules := grpclock.Rules{payMethod: {Key: keyfunc.Body("order_id"), Policy: lockmw.Policy{Prefix: "order:", RetryAfter: time.Second}}}
	count := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		reply, err := handler(ctx, req)
		if attempts.Add(1) == 1 {
			refused <- struct{}{}
		}
		return reply, err
	}
	server := serve(r, rpctest.Service{Locks: r.Locks, Rules: rules, Shop: paying{}, Around: rpctest.Around{Unary: count}})
	conn, err := grpc.NewClient(server.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(eager))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := testpb.NewShopClient(conn)

	_, lease, err := r.Locks.Acquire(t.Context(), "order:"+id, lockmw.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-refused
		_ = lease.Release(context.Background())
	}()
	start := time.Now()
	if _, err := client.Pay(t.Context(), rpctest.Order()); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); attempts.Load() != 2 || took < time.Second {
		t.Errorf("%d attempts in %v, want 2, the second one a second later", attempts.Load(), took)
	}

	attempts.Store(1)
	if _, err := client.Pay(t.Context(), &testpb.Order{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("error = %v, want %v", err, codes.InvalidArgument)
	}
	if got := attempts.Load() - 1; got != 1 {
		t.Errorf("%d attempts of a call that has no key, want 1", got)
	}
}

// silentBank is a shop whose bank has not answered in time.
type silentBank struct {
	testpb.UnimplementedShopServer
	asked atomic.Int32
}

func (b *silentBank) Pay(context.Context, *testpb.Order) (*testpb.Receipt, error) {
	b.asked.Add(1)
	return nil, fmt.Errorf("bank: %w", context.DeadlineExceeded)
}

// With Uncertain, a time-out within the handler is kept as its status. A retry policy asks again after the handler's own answer. It does not after
// one that is given again, because that has a header.
func TestAnErrorThatIsGivenAgainIsNotRetried(t *testing.T) {
	r := testenv.New(t, redistest.Embedded(t))
	var attempts atomic.Int32
	count := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		attempts.Add(1)
		return handler(ctx, req)
	}
	once := grpclock.IdempotentRules{payMethod: {
		Key:    keyfunc.MustParse("{method}:{body.order_id}"),
		Flight: lockmw.Flight{Retain: time.Minute, Crash: lockmw.Uncertain},
	}}
	bank := new(silentBank)
	server := serve(r, rpctest.Service{
		Locks: r.Locks, Rules: grpclock.Rules{}, Once: once, OnceOptions: rpctest.Options{Everybody: true}, Shop: bank, Around: rpctest.Around{Unary: count},
	})
	often := strings.NewReplacer(`"maxAttempts": 2`, `"maxAttempts": 5`, "INVALID_ARGUMENT", "DEADLINE_EXCEEDED").Replace(eager)
	conn, err := grpc.NewClient(server.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(often))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	var header metadata.MD
	_, err = testpb.NewShopClient(conn).Pay(t.Context(), rpctest.Order(), grpc.Header(&header))
	if status.Code(err) != codes.DeadlineExceeded || !slices.Equal(header["idempotent-replayed"], []string{"true"}) {
		t.Errorf("%v with header %v, want the bank's status, given again", err, header)
	}
	if attempts.Load() != 2 || bank.asked.Load() != 1 {
		t.Errorf("%d attempts, and the bank was asked %d times; want 2 and 1", attempts.Load(), bank.asked.Load())
	}
}
