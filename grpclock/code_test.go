package grpclock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/lockmw"
)

func TestCodeOfReadsTheReason(t *testing.T) {
	with := func(domain string) error {
		s, err := status.New(codes.Aborted, "busy").WithDetails(
			&errdetails.RetryInfo{}, &errdetails.ErrorInfo{Reason: "LOCK_BUSY", Domain: domain})
		if err != nil {
			t.Fatal(err)
		}
		return s.Err()
	}
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"a refusal", with("lockmw"), lockmw.CodeBusy},
		{"a refusal, wrapped", fmt.Errorf("pay: %w", with("lockmw")), lockmw.CodeBusy},
		{"another server's reason", with("shop.example"), ""},
		{"a status without details", status.Error(codes.Aborted, "LOCK_BUSY"), ""},
		{"no status", errors.New("LOCK_BUSY"), ""},
		{"no error", nil, ""},
	} {
		if got := grpclock.CodeOf(tc.err); got != tc.want {
			t.Errorf("%s: CodeOf = %q, want %q", tc.name, got, tc.want)
		}
	}
}

// The numbers in a Refusal are those of gRPC.
func TestRefusalsHaveTheCodesOfGRPC(t *testing.T) {
	for err, want := range map[error]codes.Code{
		lockmw.ErrNotAcquired: codes.Aborted,
		fmt.Errorf("%w: %w", lockmw.ErrNotAcquired, context.DeadlineExceeded): codes.DeadlineExceeded,
		fmt.Errorf("%w: %w", lockmw.ErrNotAcquired, context.Canceled):         codes.Canceled,
		lockmw.ErrQueueFull:     codes.ResourceExhausted,
		lockmw.ErrUnavailable:   codes.Unavailable,
		lockmw.ErrLost:          codes.Internal,
		lockmw.ErrInvalidKey:    codes.InvalidArgument,
		lockmw.ErrInvalidPolicy: codes.Internal,
		lockmw.ErrReentrant:     codes.Internal,
		lockmw.ErrClosed:        codes.Unavailable,
	} {
		refusal, ok := lockmw.RefusalOf(err)
		if got := codes.Code(refusal.GRPCCode); !ok || got != want {
			t.Errorf("%v is %v, want %v", err, got, want)
		}
	}
}
