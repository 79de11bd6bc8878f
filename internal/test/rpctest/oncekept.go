package rpctest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/lockmw"
)

// What is kept of the answer to a call, and what is not. Who gets which answer is in once.go.

// A result is a code of a handler's error, and whether the same is said to the next call.
func keptResults(crash lockmw.Crash) map[codes.Code]bool {
	uncertain := crash == lockmw.Uncertain
	return map[codes.Code]bool{
		codes.InvalidArgument: true, codes.NotFound: true, codes.AlreadyExists: true, codes.FailedPrecondition: true,
		codes.OutOfRange: true, codes.Unimplemented: true,
		codes.Unknown: uncertain, codes.Internal: uncertain, codes.DataLoss: uncertain,
		codes.Canceled: uncertain, codes.DeadlineExceeded: uncertain, codes.Unavailable: uncertain,
		codes.PermissionDenied: false, codes.Unauthenticated: false, codes.ResourceExhausted: false, codes.Aborted: false,
	}
}

func errorsAreAnswers(e *env) { e.errorsAreAnswers(lockmw.RunAgain) }

func uncertainErrorsAreKept(e *env) { e.errorsAreAnswers(lockmw.Uncertain) }

func (e *env) errorsAreAnswers(crash lockmw.Crash) {
	e.Helper()
	var code codes.Code
	e.serveOnce(&shop{pay: func(ctx context.Context, _ *testpb.Order) error {
		s, err := status.New(code, fmt.Sprintf("run %d", e.Ran.Load())).WithDetails(&errdetails.ErrorInfo{Reason: "DECLINED", Domain: "shop"})
		return errors.Join(err, grpc.SetTrailer(ctx, metadata.Pairs("x-total", "12")), s.Err())
	}}, func(f *lockmw.Flight) { f.Crash = crash })
	runs := 0
	for made, kept := range keptResults(crash) {
		code = made
		first := e.clickFor("ann", "secretid-"+code.String(), Order())
		e.wantOwn(first, code)
		again := e.clickFor("ann", "secretid-"+code.String(), Order())
		if !kept {
			e.wantOwn(again, code)
			runs += 2
			continue
		}
		runs++
		e.wantReplayed(again, first)
		if len(again.Status.Details()) != 1 || !slices.Equal(again.Trailer["x-total"], []string{"12"}) {
			e.Errorf("%v: details %v, trailer %v", code, again.Status.Details(), again.Trailer)
		}
	}
	e.WantRuns(runs)
}

func keepDecides(e *env) {
	var code codes.Code
	e.serveOnce(&shop{
		pay: func(context.Context, *testpb.Order) error { return status.Error(code, "no") },
		onceOptions: Options{Keep: func(_ context.Context, method string, err error) bool {
			return method == PayMethod && status.Code(err) == codes.Unavailable
		}},
	})
	for _, code = range []codes.Code{codes.OK, codes.NotFound} {
		e.wantOwn(e.clickFor("ann", "secretid-"+code.String(), Order()), code)
		e.wantOwn(e.clickFor("ann", "secretid-"+code.String(), Order()), code)
	}
	code = codes.Unavailable
	first := e.click()
	e.wantOwn(first, codes.Unavailable)
	e.wantReplayed(e.click(), first)
	e.WantRuns(5)
}

// refusalOfALockIsNoAnswer: also where an error handler makes something of it that is kept otherwise, in the name of a handler.
func refusalOfALockIsNoAnswer(e *env) {
	for _, rewritten := range []bool{false, true} {
		inner := Options{}
		if rewritten {
			inner.ErrorHandler = func(context.Context, string, error) error { return status.Error(codes.FailedPrecondition, "busy") }
		}
		e.serveOnce(&shop{rules: usual(), options: inner, once: onceRules(func(f *lockmw.Flight) { f.Policy.Prefix = fmt.Sprint(prefix, rewritten, ":") })})
		before := int(e.Ran.Load())
		lease := e.hold()
		if a := e.click(); rewritten {
			e.wantOwn(a, codes.FailedPrecondition)
		} else {
			e.wantRefusal(a, codes.Aborted, "LOCK_BUSY")
		}
		e.Release(lease)
		first := e.click()
		e.wantOwn(first, codes.OK)
		e.wantReplayed(e.click(), first)
		e.WantRuns(before + 1)
	}
}

func notAnAnswerIsNotKept(e *env) {
	limited := true
	e.serveOnce(&shop{pay: func(ctx context.Context, _ *testpb.Order) error {
		if limited {
			lockmw.NotAnAnswer(ctx)
			return status.Error(codes.FailedPrecondition, "too fast")
		}
		return nil
	}})
	e.wantOwn(e.click(), codes.FailedPrecondition)
	limited = false
	first := e.click()
	e.wantOwn(first, codes.OK)
	e.wantReplayed(e.click(), first)
	e.WantRuns(2)
}

func largeAnswerIsNotKept(e *env) {
	large := &testpb.Order{OrderId: strings.Repeat("x", 2000)}
	e.serveOnce(&shop{}, func(f *lockmw.Flight) { f.MaxAnswer = 1000 })
	if first := e.clickFor("ann", "secretid-1", large); first.Text != large.GetOrderId() {
		e.Errorf("the first call gets %d bytes, want its own reply; %v", len(first.Text), first.Status)
	}
	for range 2 {
		e.wantRefusal(e.clickFor("ann", "secretid-1", large), codes.AlreadyExists, "IDEMPOTENCY_ANSWER_NOT_KEPT")
	}
	first := e.clickFor("ann", "secretid-2", Order())
	e.wantReplayed(e.clickFor("ann", "secretid-2", Order()), first)
	e.WantRuns(2)
}

// boundMayBeRaised: Do itself keeps 32 KiB, if nothing else is said.
func boundMayBeRaised(e *env) {
	large := &testpb.Order{OrderId: strings.Repeat("x", 40_000)}
	e.serveOnce(&shop{}, func(f *lockmw.Flight) { f.MaxAnswer = 50_000 })
	first := e.clickFor("ann", "secretid-1", large)
	e.wantOwn(first, codes.OK)
	e.wantReplayed(e.clickFor("ann", "secretid-1", large), first)
	e.WantRuns(1)
}

// A shopCodec encodes answers as a program might do it.
type shopCodec struct {
	name    string
	failing *bool
}

func (c shopCodec) Name() string { return c.name }

func (c shopCodec) Encode(key string, answer any) ([]byte, error) {
	if *c.failing {
		return nil, errors.New("no key to encrypt with")
	}
	return json.Marshal(map[string]any{"for": key, "answer": answer})
}

func (c shopCodec) Decode(key string, data []byte, answer any) error {
	var read struct {
		For    string
		Answer json.RawMessage
	}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	if read.For != key {
		return errors.New("it is another one's")
	}
	return json.Unmarshal(read.Answer, answer)
}

// codecEncodesAnswers: the call whose answer cannot be encoded has that all the same, because the work is done.
func codecEncodesAnswers(e *env) {
	failing := false
	e.serveOnce(&shop{pay: func(ctx context.Context, order *testpb.Order) error {
		if order.GetExpress() {
			return status.Error(codes.NotFound, "no")
		}
		return grpc.SetHeader(ctx, metadata.Pairs("x-proof-bin", "\x00\xff"))
	}}, func(f *lockmw.Flight) { f.Codec = shopCodec{"shop", &failing} })
	for request, order := range map[string]*testpb.Order{"secretid-1": Order(), "secretid-2": {Express: true}} {
		first := e.clickFor("ann", request, order)
		again := e.clickFor("ann", request, order)
		e.wantReplayed(again, first)
		if !slices.Equal(again.Header["x-proof-bin"], first.Header["x-proof-bin"]) {
			e.Errorf("x-proof-bin = %q, want %q", again.Header["x-proof-bin"], first.Header["x-proof-bin"])
		}
	}
	e.WantRuns(2)
	failing = true
	e.wantOwn(e.clickFor("ann", "secretid-3", Order()), codes.OK)
	e.wantOwn(e.clickFor("ann", "secretid-3", Order()), codes.OK)
	e.WantRuns(4)
}

// answerThatCannotBeReadIsNoLeave: the work was done, and is not done again because nobody can tell how it ended.
func answerThatCannotBeReadIsNoLeave(e *env) {
	e.serveOnce(&shop{}, func(f *lockmw.Flight) { f.Version = "1" })
	first := e.click()
	e.serveOnce(&shop{}, func(f *lockmw.Flight) { f.Version = "2" })
	e.wantRefusal(e.click(), codes.Internal, "LOCK_MISUSE")
	e.serveOnce(&shop{}, func(f *lockmw.Flight) { f.Version = "1" })
	e.wantReplayed(e.click(), first)
	e.WantRuns(1)
}
