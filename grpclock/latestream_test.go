package grpclock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// An endless stream is one whose own context does not end.
type endless struct{ grpc.ServerStream }

func (endless) Context() context.Context { return context.Background() }

func (endless) RecvMsg(m any) error {
	proto.Merge(m.(proto.Message), rpctest.Order())
	return nil
}

func TestContextOfALateStreamEndsWithItsHandler(t *testing.T) {
	skip := func(keyfunc.Request) (string, error) { return "", keyfunc.Skip }
	for name, key := range map[string]keyfunc.Func{
		"locked":  keyfunc.Body("order_id"),
		"skipped": keyfunc.Join(keyfunc.Body("order_id"), skip),
	} {
		interceptor := grpclock.StreamServerInterceptor(newLocker(t), grpclock.Rules{chatMethod: {Key: key}})
		for _, messages := range []int{0, 1, 2} {
			contexts := make(chan context.Context, 1)
			err := interceptor(nil, endless{}, &grpc.StreamServerInfo{FullMethod: chatMethod}, func(_ any, s grpc.ServerStream) error {
				ctx := s.Context()
				contexts <- ctx
				for range messages {
					if err := s.RecvMsg(rpctest.Order()); err != nil {
						return err
					}
				}
				return ctx.Err()
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if cause := context.Cause(<-contexts); !errors.Is(cause, lockmw.ErrReleased) {
				t.Errorf("%s: after %d messages the context's cause is %v, want %v", name, messages, cause, lockmw.ErrReleased)
			}
		}
	}
}

func TestContextOfALateStreamHasEndedWhenItsEndIsTold(t *testing.T) {
	interceptor := grpclock.StreamServerInterceptor(newLocker(t), grpclock.Rules{chatMethod: {
		Key: keyfunc.Body("order_id"), Policy: lockmw.Policy{MaxHold: time.Millisecond},
	}})
	for range 200 {
		err := interceptor(nil, endless{}, &grpc.StreamServerInfo{FullMethod: chatMethod}, func(_ any, s grpc.ServerStream) error {
			for {
				if err := s.RecvMsg(rpctest.Order()); err != nil {
					if cause := context.Cause(s.Context()); !errors.Is(cause, lockmw.ErrMaxHold) {
						t.Errorf("RecvMsg has told the end (%v), and the context's cause is %v", err, cause)
					}
					return err
				}
			}
		})
		if status.Code(err) != codes.DeadlineExceeded {
			t.Fatalf("the stream ends with %v", err)
		}
	}
}
