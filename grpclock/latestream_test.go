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

// Work that goes on elsewhere may learn of the end by the lease, and asks the stream's context then.
func TestContextOfALateStreamHasEndedWhenTheLeaseHas(t *testing.T) {
	interceptor := grpclock.StreamServerInterceptor(newLocker(t), grpclock.Rules{chatMethod: {
		Key: keyfunc.Body("order_id"), Policy: lockmw.Policy{MaxHold: time.Millisecond},
	}})
	for look, ended := range map[string]func(ctx context.Context) bool{
		"Done": func(ctx context.Context) bool {
			select {
			case <-ctx.Done():
				return true
			default:
				return false
			}
		},
		"Err":   func(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) },
		"Cause": func(ctx context.Context) bool { return errors.Is(context.Cause(ctx), lockmw.ErrMaxHold) },
		"a child's Err": func(ctx context.Context) bool {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			return child.Err() != nil && errors.Is(context.Cause(child), lockmw.ErrMaxHold)
		},
		"Err, when it was Done": func(ctx context.Context) bool {
			<-ctx.Done()
			return ctx.Err() != nil && errors.Is(context.Cause(ctx), lockmw.ErrMaxHold)
		},
	} {
		const streams = 50
		seen := 0
		for range streams {
			_ = interceptor(nil, endless{}, &grpc.StreamServerInfo{FullMethod: chatMethod}, func(_ any, s grpc.ServerStream) error {
				ctx := s.Context()
				if err := s.RecvMsg(rpctest.Order()); err != nil {
					return err
				}
				lease, _ := lockmw.FromContext(ctx)
				<-lease.Context().Done()
				if ended(ctx) {
					seen++
				}
				return nil
			})
		}
		if seen != streams {
			t.Errorf("%s: the stream's context has ended in %d of %d streams whose lease has", look, seen, streams)
		}
	}
}
