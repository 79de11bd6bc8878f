package rpctest

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// asked makes each key another one.
var asked atomic.Int64

// Ways in which a door that answers calls once can be broken.

// servers counts what was served, for faults that have each server be alone.
var servers atomic.Int64

// onceRules breaks the rules.
func (f *Fault) onceRules(rules grpclock.IdempotentRules) grpclock.IdempotentRules {
	if f == nil || rules == nil {
		return rules
	}
	server := servers.Add(1)
	broken := make(grpclock.IdempotentRules, len(rules))
	for name, rule := range rules {
		key := rule.Key
		switch f.Name {
		case "does not wait for the answer":
			rule.Flight.Policy.Wait = 0
		case "keeps answers for itself":
			rule.Flight.Policy.Prefix += strconv.FormatInt(server, 10)
		case "forgets answers":
			rule.Key = keyfunc.Join(key, func(keyfunc.Request) (string, error) { return strconv.FormatInt(asked.Add(1), 10), nil })
		case "takes users for one":
			rule.Key = func(r keyfunc.Request) (string, error) { return key(userless{r}) }
		case "takes whatever is missing for a key":
			rule.Key = keyfunc.Join(keyfunc.Const("x"), keyfunc.Optional(key))
		case "never skips":
			rule.Key = func(r keyfunc.Request) (string, error) {
				text, err := key(r)
				if errors.Is(err, keyfunc.Skip) {
					return "not skipped", nil
				}
				return text, err
			}
		case "forgets the codec":
			rule.Flight.Codec = nil
		case "forgets the version":
			rule.Flight.Version = ""
		case "forgets the bound":
			rule.Flight.MaxAnswer = 1 << 20
		case "keeps Do's bound":
			rule.Flight.MaxAnswer = 0
		case "forgets what a crash means":
			rule.Flight.Crash = lockmw.RunAgain
		}
		broken[name] = rule
	}
	return broken
}

// A userless request has the same user each time.
type userless struct{ keyfunc.Request }

func (r userless) Header(name string) (string, bool) {
	value, ok := r.Request.Header(name)
	if name == userHeader {
		return "anybody", ok
	}
	return value, ok
}

// onceOptions breaks the options.
func (f *Fault) onceOptions(o Options) Options {
	if f == nil {
		return o
	}
	switch f.Name {
	case "keeps everything":
		o.Keep = func(context.Context, string, error) bool { return true }
	case "keeps nothing":
		o.Keep = func(context.Context, string, error) bool { return false }
	case "keeps replies alone":
		o.Keep = func(_ context.Context, _ string, err error) bool { return err == nil }
	case "ignores WithKeep":
		o.Keep = nil
	case "ignores WithFingerprint":
		o.Fingerprint = nil
	case "takes any request for the same":
		o.Fingerprint = func(context.Context, string, any) ([]byte, error) { return nil, nil }
	case "ignores WithOptionalKey":
		o.OptionalKey = false
	case "ignores WithSkipper":
		o.Skipper = nil
	case "ignores error handlers":
		o.ErrorHandler = nil
	}
	return o
}

// Once puts the fault around an interceptor that answers calls once.
func (f *Fault) Once(sound grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	if f == nil {
		return sound
	}
	return brokenOnce{f, sound}.call
}

// A brokenOnce is an interceptor that answers calls once.
type brokenOnce struct {
	*Fault
	sound grpc.UnaryServerInterceptor
}

func (b brokenOnce) call(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	outer := ctx
	switch b.Name {
	case "answers each call":
		return handler(ctx, req)
	case "takes methods for one":
		info = &grpc.UnaryServerInfo{Server: info.Server, FullMethod: PayMethod}
	case "replays no header":
		ctx = grpc.NewContextWithServerTransportStream(ctx, Transport{Trailer: new(metadata.MD)})
	case "keeps panics":
		defer func() { _ = recover() }()
	}
	ran := false
	var made error
	reply, err = b.sound(ctx, req, info, func(work context.Context, req any) (any, error) {
		ran = true
		var reply any
		reply, made = b.handled(outer, work, req, handler)
		return reply, made
	})
	switch {
	case err == nil:
	case !ran && b.Is("runs what was refused"):
		_, _ = handler(ctx, req)
	case ran && b.Is("does not notice a loss"):
		return reply, made
	case !ran && b.Is("replays no details"):
		s := status.Convert(err)
		return reply, status.Error(s.Code(), s.Message())
	case b.Is("shows the error"):
		return reply, status.Error(status.Code(err), err.Error()+prefix)
	}
	return reply, err
}

// handled calls the handler with what is broken of that.
func (b brokenOnce) handled(outer, work context.Context, req any, handler grpc.UnaryHandler) (any, error) {
	switch b.Name {
	case "hides the call from what is inside":
		return handler(hidden{work, outer}, req)
	case "keeps what is outside":
		_ = grpc.SetHeader(work, metadata.Pairs("x-call", "1"))
		_ = grpc.SetTrailer(work, metadata.Pairs("x-end", "1"))
		return handler(work, req)
	case "ends the work with its client":
		return handler(ended{work, outer}, req)
	case "keeps the deadline":
		return handler(late{work, outer}, req)
	case "doubts whatever was told to stop":
		defer func() {
			if work.Err() != nil {
				lockmw.MarkUncertain(work)
			}
		}()
	case "keeps panics":
		returned := false
		defer func() {
			if !returned {
				_ = recover()
			}
		}()
		reply, err := handler(work, req)
		returned = true
		return reply, err
	}
	return handler(work, req)
}

// A hidden context is that of work, with the values of a call.
type hidden struct {
	context.Context
	call context.Context
}

func (h hidden) Value(key any) any { return h.call.Value(key) }

// An ended context is that of work, and ends with the call.
type ended struct {
	context.Context
	call context.Context
}

func (e ended) Done() <-chan struct{} { return e.call.Done() }
func (e ended) Err() error            { return e.call.Err() }

// A late context is that of work, with the deadline of the call.
type late struct {
	context.Context
	call context.Context
}

func (l late) Deadline() (time.Time, bool) { return l.call.Deadline() }
