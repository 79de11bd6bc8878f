package grpclock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// retryDelay is when a refused client is told to come back.
func retryDelay(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// A refused client is told to come back after about as long as the jobs of another
// process take, and after a second where nothing is known of them.
func TestRetryDelayIsAsLongAsJobsTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const method = "/shop.v1.Stock/Count"
		r := testenv.New(t, redistest.InMemory(t))
		elsewhere := r.NewLocker()
		policy := lockmw.Policy{Prefix: "order:"}
		interceptor := grpclock.UnaryServerInterceptor(r.Locks, grpclock.Rules{method: {Key: keyfunc.Const("42"), Policy: policy}})
		call := func() error {
			_, err := interceptor(context.Background(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
				return nil, errors.New("the handler ran")
			})
			return err
		}
		for jobs := range 4 {
			_, lease, err := elsewhere.Acquire(context.Background(), "42", policy)
			if err != nil {
				t.Fatal(err)
			}
			least, most := time.Second, 3*time.Second
			if jobs == 0 {
				most = time.Second
			}
			for range 3 { // clients ask at 0, 0.5 and 1 s of a job of 1.5 s
				err := call()
				if got := retryDelay(err); got < least || got > most || grpclock.CodeOf(err) != lockmw.CodeBusy {
					t.Errorf("after %d jobs: %v, RetryDelay %v, code %q; want %v to %v", jobs, err, got, grpclock.CodeOf(err), least, most)
				}
				time.Sleep(500 * time.Millisecond)
			}
			r.Release(lease)
		}
	})
}
