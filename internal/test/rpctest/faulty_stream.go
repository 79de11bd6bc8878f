package rpctest

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/lockmw"
)

// brokenStreams is a stream interceptor.
type brokenStreams struct {
	*Fault
	locks *lockmw.Locker
	sound grpc.StreamServerInterceptor
}

func (b brokenStreams) call(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	returned := false
	defer b.around(b.locks, &returned)()
	if b.Name == "does not lock" {
		return handler(srv, ss)
	}
	var ran bool
	var made error
	err := b.sound(srv, outerStream{ss, b.ctx(ss.Context())}, info, func(srv any, locked grpc.ServerStream) error {
		ran = true
		made = handler(srv, brokenStream{locked, b, ss})
		return b.failed(ss.Context(), made)
	})
	returned = true
	switch {
	case err != nil && !ran && b.Name == "runs what was refused":
		_ = handler(srv, ss)
	case errors.Is(err, errTrusted):
		return nil
	case ran && (b.Name == "takes all work for failed" || b.Name == "does not notice a loss" || b.Name == "forgets the refusal of a stream"):
		return made
	}
	return b.named(b.locks, b.spoilt(err))
}

// An outerStream has another context.
type outerStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s outerStream) Context() context.Context { return s.ctx }

// A brokenStream is what a handler gets.
type brokenStream struct {
	grpc.ServerStream
	brokenStreams
	outer grpc.ServerStream
}

func (s brokenStream) Context() context.Context {
	if s.Name == "gives a stream a new context each time" {
		return context.WithValue(s.ServerStream.Context(), contextKey{}, s.Name)
	}
	return s.handlers(s.outer.Context(), s.ServerStream.Context())
}

func (s brokenStream) RecvMsg(m any) error {
	if s.Name == "lets an ended stream go on" && s.ServerStream.Context().Err() != nil {
		return s.outer.RecvMsg(m)
	}
	err := s.ServerStream.RecvMsg(m)
	switch {
	case s.Name == "hides the errors of a stream":
		return nil
	case s.Name == "eats the message":
		proto.Reset(m.(proto.Message))
	case err != nil && s.Name == "keeps a lease that comes too late":
		_, _, _ = s.locks.Acquire(context.Background(), lockKey, lockmw.Policy{})
	}
	return err
}

func (s brokenStream) SendMsg(m any) error {
	switch {
	case s.Name == "keeps messages back":
		return nil
	case s.Name == "lets an ended stream go on" && s.ServerStream.Context().Err() != nil:
		return s.outer.SendMsg(m)
	}
	return s.ServerStream.SendMsg(m)
}
