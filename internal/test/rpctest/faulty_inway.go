package rpctest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/lockmw"
)

// What a broken door does with what it knows of who is in the way.

// named has a refusal tell who has the usual lock.
func (f *Fault) named(l *lockmw.Locker, err error) error {
	if err == nil || !f.Is("names the holder") && !f.Is("shows the holder's note") {
		return err
	}
	info, unknown := l.Inspect(context.Background(), lockKey)
	if unknown != nil || len(info.Holders) == 0 {
		return err
	}
	broken, says := status.Convert(err).Proto(), info.Holders[0].Instance
	if f.Is("shows the holder's note") {
		says = info.Holders[0].Note
	}
	broken.Message += " " + says
	return status.ErrorProto(broken)
}

// asksForItself refuses a call by a look at the lock, in place of an attempt to take it. The refusal is told, but nobody knows whom
// the call has found.
func (f *Fault) asksForItself(ctx context.Context, l *lockmw.Locker) error {
	if !f.Is("asks for itself") {
		return nil
	}
	if info, _ := l.Inspect(ctx, lockKey); !info.Held {
		return nil
	}
	refused := l.Refuse(ctx, lockmw.Policy{Prefix: prefix}, lockmw.ErrNotAcquired)
	told, _ := lockmw.RefusalOf(refused)
	return status.Error(codes.Code(told.GRPCCode), told.Detail)
}
