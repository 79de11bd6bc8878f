package rpctest

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
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Fault is a way in which a door can be broken. Its methods break what the door is
// given and what it gives; those of nil break nothing.
type Fault struct {
	Name  string
	redis *redistest.Mini // for faults that go behind the Locker's back
}

// Is reports whether it is the fault of that name. A framework asks for those that only
// it can bring about.
func (f *Fault) Is(name string) bool { return f != nil && f.Name == name }

// recover hides a panic of a constructor. It is to be deferred.
func (f *Fault) recover() {
	if f.Is("checks nothing at the start") {
		_ = recover()
	}
}

// Unary puts the fault around a door's interceptor.
func (f *Fault) Unary(l *lockmw.Locker, sound grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if f == nil {
		return sound
	}
	return brokenDoor{f, l, sound}.call
}

// Stream puts the fault around a door's interceptor of streams.
func (f *Fault) Stream(l *lockmw.Locker, sound grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	if f == nil {
		return sound
	}
	return brokenStreams{f, l, sound}.call
}

// rules breaks the rules.
func (f *Fault) rules(rules grpclock.Rules) grpclock.Rules {
	if f == nil || rules == nil {
		return rules
	}
	var calls atomic.Int64
	broken := rules.With(nil)
	for name, rule := range broken {
		key := rule.Key
		switch f.Name {
		case "does not wait":
			rule.Policy.Wait, rule.Policy.Retries, rule.Policy.AsyncRelease = 0, 0, false
		case "enforces what is in shadow":
			rule.Policy.Shadow = false
		case "awaits each release":
			rule.Policy.AsyncRelease = false
		case "forgets the policy's name":
			rule.Policy.Name = ""
		case "forgets the longest hold":
			rule.Policy.MaxHold = 0
		case "takes failed work for done":
			rule.Policy.MinHoldOnError = true
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
		case "trims fields":
			rule.Key = func(r keyfunc.Request) (string, error) { return key(trimmed{r}) }
		case "takes the last of several":
			rule.Key = func(r keyfunc.Request) (string, error) { return key(lastOfSeveral{r}) }
		}
		broken[name] = rule
	}
	return broken
}

// A nameless request does not know its method.
type nameless struct{ keyfunc.Request }

func (nameless) Method() string { return "" }
func (nameless) Route() string  { return "" }

// A trimmed request has its fields without the blanks around them.
type trimmed struct{ keyfunc.Request }

func (r trimmed) Body(path string) (string, bool, error) {
	s, ok, err := r.Request.Body(path)
	return strings.TrimSpace(s), ok, err
}

// A lastOfSeveral request has the last value of each header.
type lastOfSeveral struct{ keyfunc.Request }

func (r lastOfSeveral) Header(name string) (string, bool) {
	values := metadata.ValueFromIncomingContext(r.Context(), name)
	if len(values) == 0 {
		return "", false
	}
	return values[len(values)-1], true
}

// options breaks the options.
func (f *Fault) options(o Options) Options {
	if f == nil {
		return o
	}
	handle := o.ErrorHandler
	switch f.Name {
	case "ignores error handlers":
		o.ErrorHandler = nil
	case "trusts error handlers":
		o.ErrorHandler = func(ctx context.Context, method string, err error) error {
			if handle != nil && status.Code(handle(ctx, method, err)) == codes.OK {
				return errTrusted
			}
			return nil
		}
	case "shows the error":
		o.ErrorHandler = func(_ context.Context, _ string, err error) error { return status.Error(codes.Aborted, err.Error()) }
	case "hides the handler's error":
		o.ErrorHandler = func(ctx context.Context, method string, err error) error {
			if handle != nil && errors.Is(err, lockmw.ErrLost) {
				err = lockmw.ErrLost
			}
			return handle(ctx, method, err)
		}
	}
	return o
}

// failed breaks what the handler of a call returns.
func (f *Fault) failed(call context.Context, err error) error {
	switch {
	case err != nil && f.Name == "hands the lock of failed work on":
		return nil
	case err != nil:
	case f.Name == "takes all work for failed", f.Name == "takes work for failed whose client has left" && call.Err() != nil:
		return status.Error(codes.Internal, "it has not failed")
	}
	return err
}

var errTrusted = errors.New("the error handler said nothing")

// A brokenDoor is a unary interceptor.
type brokenDoor struct {
	*Fault
	locks *lockmw.Locker
	sound grpc.UnaryServerInterceptor
}

func (b brokenDoor) call(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	returned := false
	defer b.around(b.locks, &returned)()
	switch b.Name {
	case "does not lock":
		return handler(ctx, req)
	case "eats the message":
		proto.Reset(req.(proto.Message))
	}
	if err := b.asksForItself(ctx, b.locks); err != nil {
		return nil, err
	}
	var ran bool
	var made any
	reply, err = b.sound(b.ctx(ctx), req, info, func(lease context.Context, req any) (any, error) {
		ran = true
		var err error
		made, err = handler(b.handlers(ctx, lease), req)
		return made, b.failed(ctx, err)
	})
	returned = true
	switch {
	case ran && err != nil && b.Name == "takes all work for failed":
		return made, nil
	case err != nil && !ran && b.Name == "runs what was refused":
		_, _ = handler(ctx, req)
	case errors.Is(err, errTrusted):
		return new(testpb.Receipt), nil
	case err != nil && ran && b.Name == "does not notice a loss":
		return made, nil
	}
	return reply, b.named(b.locks, b.spoilt(err))
}

// ctx breaks what the door gets.
func (f *Fault) ctx(ctx context.Context) context.Context {
	switch f.Name {
	case "loses the call's context":
		return context.Background()
	case "forgets the trailer":
		return grpc.NewContextWithServerTransportStream(ctx, Transport{Trailer: new(metadata.MD)})
	}
	return ctx
}

// handlers breaks what the handler gets.
func (f *Fault) handlers(outer, lease context.Context) context.Context {
	switch f.Name {
	case "keeps the call's own context":
		return outer
	case "keeps the handler's metadata":
		return grpc.NewContextWithServerTransportStream(lease, grpc.ServerTransportStreamFromContext(outer))
	case "sends no header":
		return grpc.NewContextWithServerTransportStream(lease, Transport{Trailer: new(metadata.MD)})
	}
	return lease
}

// around does what should not be done before the door, and returns what
// should not be done behind it.
func (f *Fault) around(l *lockmw.Locker, returned *bool) func() {
	again := func() *lockmw.Lease {
		_, lease, _ := l.Acquire(context.Background(), lockKey, lockmw.Policy{})
		return lease
	}
	switch f.Name {
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
	case "releases late", "releases beside the answer":
		late := 200 * time.Millisecond // later than a busy machine looks at the lock
		if f.Is("releases beside the answer") {
			late = 0
		}
		return func() {
			if lease := again(); lease != nil {
				time.AfterFunc(late, func() { _ = lease.Release(context.Background()) })
			}
		}
	case "takes the other holder's key away":
		return f.redis.FlushAll
	}
	return func() {}
}

// spoilt breaks a refusal.
func (f *Fault) spoilt(err error) error {
	s := status.Convert(err)
	switch {
	case err == nil:
	case f.Name == "names nothing" && s.Code() == codes.InvalidArgument:
		broken := s.Proto()
		broken.Details = broken.GetDetails()[:1]
		return status.ErrorProto(broken)
	case f.Name == "gives no details":
		return status.Error(s.Code(), s.Message())
	case f.Name == "has one code for all":
		broken := s.Proto()
		broken.Code = int32(codes.Unknown)
		return status.ErrorProto(broken)
	}
	return err
}

// A Transport is a stream without a connection.
type Transport struct{ Trailer *metadata.MD }

// Method returns the unary method.
func (Transport) Method() string { return PayMethod }

// SetHeader does nothing.
func (Transport) SetHeader(metadata.MD) error { return nil }

// SendHeader does nothing.
func (Transport) SendHeader(metadata.MD) error { return nil }

// SetTrailer adds md to the trailer.
func (t Transport) SetTrailer(md metadata.MD) error {
	*t.Trailer = metadata.Join(*t.Trailer, md)
	return nil
}
