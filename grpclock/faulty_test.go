package grpclock_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/grpclock/internal/testpb"
	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A faulty door is grpclock's, with the fault of that name around it.
type faulty struct {
	fault string
	redis *redistest.Mini // for faults that go behind the Locker's back
}

func (f faulty) doors() doors {
	return doors{
		unary: func(l *lockmw.Locker, r grpclock.Rules, o options) grpc.UnaryServerInterceptor {
			if f.fault == "checks nothing at the start" {
				defer func() { _ = recover() }()
			}
			return brokenDoor{f, l, sound.unary(l, f.rules(r), f.options(o))}.call
		},
		stream: func(l *lockmw.Locker, r grpclock.Rules, o options) grpc.StreamServerInterceptor {
			if f.fault == "checks nothing at the start" {
				defer func() { _ = recover() }()
			}
			return brokenStreams{f, l, sound.stream(l, f.rules(r), f.options(o))}.call
		},
	}
}

// rules breaks the rules.
func (f faulty) rules(rules grpclock.Rules) grpclock.Rules {
	var calls atomic.Int64
	broken := rules.With(nil)
	for name, rule := range broken {
		key := rule.Key
		switch f.fault {
		case "does not wait":
			rule.Policy.Wait, rule.Policy.Retries = 0, 0
		case "forgets the longest hold":
			rule.Policy.MaxHold = 0
		case "makes a key of its own for each call":
			rule.Key = keyfunc.Join(key, func(keyfunc.Request) (string, error) { return time.Duration(calls.Add(1)).String(), nil })
		case "takes one lock of several":
			rule.Key = func(r keyfunc.Request) (string, error) {
				keys, err := keyfunc.KeysOf(key, r)
				return keys.List()[0], err
			}
		case "ignores native keys":
			rule.Key = keyfunc.Const("any")
		case "does not escape native keys":
			rule.Key = func(r keyfunc.Request) (string, error) {
				key, err := key(r)
				if raw, broken := url.PathUnescape(key); broken == nil {
					key = raw
				}
				return key, err
			}
		case "blames the client":
			rule.Key = func(r keyfunc.Request) (string, error) {
				key, err := key(r)
				if errors.Is(err, keyfunc.ErrMisuse) {
					err = keyfunc.ErrMissing
				}
				return key, err
			}
		case "takes whatever is missing for empty":
			rule.Key = keyfunc.Join(keyfunc.Optional(key), keyfunc.Const("x"))
		case "takes nothing for optional":
			rule.Key = func(r keyfunc.Request) (string, error) {
				key, err := key(r)
				if strings.HasSuffix(key, ":") {
					err = errors.New("a part is missing")
				}
				return key, err
			}
		case "does not know its method":
			rule.Key = func(r keyfunc.Request) (string, error) { return key(nameless{r}) }
		}
		broken[name] = rule
	}
	if rules == nil {
		return nil
	}
	return broken
}

// A nameless request does not know its method.
type nameless struct{ keyfunc.Request }

func (nameless) Method() string { return "" }
func (nameless) Route() string  { return "" }

// options breaks the options.
func (f faulty) options(o options) options {
	handle := o.errorHandler
	switch f.fault {
	case "ignores error handlers":
		o.errorHandler = nil
	case "trusts error handlers":
		o.errorHandler = func(ctx context.Context, method string, err error) error {
			if handle != nil && status.Code(handle(ctx, method, err)) == codes.OK {
				return errTrusted
			}
			return nil
		}
	case "shows the error":
		o.errorHandler = func(_ context.Context, _ string, err error) error { return status.Error(codes.Aborted, err.Error()) }
	case "hides the handler's error":
		o.errorHandler = func(ctx context.Context, method string, err error) error {
			if handle != nil && errors.Is(err, lockmw.ErrLost) {
				err = lockmw.ErrLost
			}
			return handle(ctx, method, err)
		}
	}
	return o
}

var errTrusted = errors.New("the error handler said nothing")

// A brokenDoor is a unary interceptor.
type brokenDoor struct {
	faulty
	locks *lockmw.Locker
	sound grpc.UnaryServerInterceptor
}

func (b brokenDoor) call(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	returned := false
	defer b.around(b.locks, &returned)()
	switch b.fault {
	case "does not lock":
		return handler(ctx, req)
	case "eats the message":
		proto.Reset(req.(proto.Message))
	}
	var ran bool
	var made any
	reply, err = b.sound(b.ctx(ctx), req, info, func(lease context.Context, req any) (any, error) {
		ran = true
		var err error
		made, err = handler(b.handlers(ctx, lease), req)
		return made, err
	})
	returned = true
	switch {
	case err != nil && !ran && b.fault == "runs what was refused":
		_, _ = handler(ctx, req)
	case errors.Is(err, errTrusted):
		return new(testpb.Receipt), nil
	case err != nil && ran && b.fault == "does not notice a loss":
		return made, nil
	}
	return reply, b.spoilt(err)
}

// ctx breaks what the door gets.
func (f faulty) ctx(ctx context.Context) context.Context {
	switch f.fault {
	case "loses the call's context":
		return context.Background()
	case "forgets the trailer":
		return grpc.NewContextWithServerTransportStream(ctx, transport{trailer: new(metadata.MD)})
	case "takes the last of several":
		md, _ := metadata.FromIncomingContext(ctx)
		md = md.Copy()
		for _, values := range md {
			if n := len(values); n > 0 {
				values[0] = values[n-1]
			}
		}
		return metadata.NewIncomingContext(ctx, md)
	}
	return ctx
}

// handlers breaks what the handler gets.
func (f faulty) handlers(outer, lease context.Context) context.Context {
	switch f.fault {
	case "keeps the call's own context":
		return outer
	case "keeps the handler's metadata":
		return grpc.NewContextWithServerTransportStream(lease, grpc.ServerTransportStreamFromContext(outer))
	case "sends no header":
		return grpc.NewContextWithServerTransportStream(lease, transport{trailer: new(metadata.MD)})
	case "takes the last of several":
		md, _ := metadata.FromIncomingContext(outer)
		return metadata.NewIncomingContext(lease, md)
	}
	return lease
}

// around does what should not be done before the door, and returns what
// should not be done behind it.
func (f faulty) around(l *lockmw.Locker, returned *bool) func() {
	again := func() *lockmw.Lease {
		_, lease, _ := l.Acquire(context.Background(), lockKey, lockmw.Policy{})
		return lease
	}
	switch f.fault {
	case "removes other data":
		f.redis.FlushAll()
	case "asks Redis first":
		if _, lease, err := l.Acquire(context.Background(), "early", lockmw.Policy{}); err == nil {
			return func() { _ = lease.Release(context.Background()) }
		}
	case "swallows panics":
		return func() { _ = recover() }
	case "never releases":
		return func() { again() }
	case "releases on return only":
		return func() {
			if !*returned {
				again()
			}
		}
	case "releases late":
		return func() {
			if lease := again(); lease != nil {
				time.AfterFunc(20*time.Millisecond, func() { _ = lease.Release(context.Background()) })
			}
		}
	case "takes the other holder's key away":
		return f.redis.FlushAll
	}
	return func() {}
}

// spoilt breaks a refusal.
func (f faulty) spoilt(err error) error {
	s := status.Convert(err)
	switch {
	case err == nil:
	case f.fault == "gives no details":
		return status.Error(s.Code(), s.Message())
	case f.fault == "has one code for all":
		broken := s.Proto()
		broken.Code = int32(codes.Unknown)
		return status.ErrorProto(broken)
	}
	return err
}
