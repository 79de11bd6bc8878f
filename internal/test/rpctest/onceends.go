package rpctest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What goes wrong around a call that is answered once, and the mistakes of programs. Who gets which answer is in once.go.

// clientWhoLeavesFindsTheAnswer is why there are idempotency keys.
func clientWhoLeavesFindsTheAnswer(e *env) {
	left, done := make(chan bool, 100), make(chan error, 100)
	work := newSlowWork()
	defer e.end(work)
	e.serveOnce(&shop{
		around: Around{Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			stop := context.AfterFunc(ctx, func() { left <- true })
			defer stop()
			return handler(ctx, req)
		}},
		pay: func(ctx context.Context, _ *testpb.Order) error {
			work.do()
			if _, ends := ctx.Deadline(); ends {
				done <- errors.New("the work has the call's deadline")
				return nil
			}
			done <- ctx.Err()
			return nil
		},
	})
	ctx, leave := e.clicked("ann", "secretid-1")
	defer leave()
	answer := make(chan Answer, 1)
	go func() { answer <- e.payWith(ctx, Order()) }() // ends when it leaves
	testenv.Receive(e.Env, "the handler's beginning", work.began)
	leave()
	testenv.Receive(e.Env, "the client's end", answer)
	testenv.Receive(e.Env, "the server's notice of that", left)
	work.end()
	if err := testenv.Receive(e.Env, "the end of the work", done); err != nil {
		e.Errorf("the work has ended with its client: %v", err)
	}
	a := e.click()
	e.wantCode(a, codes.OK)
	if a.Text != id || len(a.Header["idempotent-replayed"]) != 1 {
		e.Errorf("the retry gets %q with %v", a.Text, a.Header)
	}
	e.WantRuns(1)
}

func panicIsNoAnswer(e *env) {
	endings := make(chan ending, 3)
	value := &exit{name: "a value of its own"}
	panics := true
	e.serveOnce(&shop{around: watched(endings), pay: func(context.Context, *testpb.Order) error {
		if panics {
			panic(value)
		}
		return nil
	}})
	e.wantCode(e.click(), codes.DataLoss)
	if got := testenv.Receive(e.Env, "the handler's end", endings); got.panicked != value {
		e.Errorf("panic value %v, want the handler's", got.panicked)
	}
	panics = false
	first := e.click()
	e.wantOwn(first, codes.OK)
	e.wantReplayed(e.click(), first)
	e.WantRuns(2)
}

// deadProcessIsTold: the process dies in the middle of the work. With RunAgain the next call does the work, and with Uncertain it is
// told that nobody knows, until somebody says that it was not done.
func deadProcessIsTold(e *env) {
	for _, crash := range []lockmw.Crash{lockmw.RunAgain, lockmw.Uncertain} {
		e.Ran.Store(0)
		work := ""
		e.serveOnce(&shop{pay: func(ctx context.Context, _ *testpb.Order) error {
			if work == "" {
				lease, _ := lockmw.FromContext(ctx)
				work = lease.Key()
				seam.Crash(e.Locks, func(key string) { e.Client.Del(context.Background(), e.RedisKey(key)) })
			}
			return nil
		}}, func(f *lockmw.Flight) { f.Crash = crash })
		request := fmt.Sprint("secretid-", crash)
		call := func() Answer { return e.clickFor("ann", request, Order()) }
		call() // its client hears nothing
		if crash == lockmw.Uncertain {
			e.wantRefusal(call(), codes.FailedPrecondition, lockmw.CodeIdempotencyUncertain)
			e.WantRuns(1)
			e.ResolveUncertain(work, lockmw.Again)
		}
		first := call()
		e.wantOwn(first, codes.OK)
		e.wantReplayed(call(), first)
		e.WantRuns(2)
	}
}

// handlerThatIsToldToStopIsUncertain: it has failed after its context had ended. With Uncertain nobody knows what it did, and the failure is not kept.
func handlerThatIsToldToStopIsUncertain(e *env) {
	for crash, runs := range map[lockmw.Crash]int{lockmw.RunAgain: 2, lockmw.Uncertain: 1} {
		e.Ran.Store(0)
		e.serveOnce(&shop{pay: func(ctx context.Context, _ *testpb.Order) error {
			<-ctx.Done()
			return status.Error(codes.Unavailable, "stopped")
		}}, func(f *lockmw.Flight) { f.Crash, f.Policy.MaxHold = crash, 50*time.Millisecond })
		call := func() Answer { return e.clickFor("ann", fmt.Sprint("secretid-", crash), Order()) }
		e.wantCode(call(), codes.Unavailable)
		if again := call(); crash == lockmw.Uncertain {
			e.wantRefusal(again, codes.FailedPrecondition, lockmw.CodeIdempotencyUncertain)
		} else {
			e.wantCode(again, codes.Unavailable)
		}
		e.WantRuns(runs)
	}
}

// handlerSaysThatItDoesNotKnow: its own client gets its reply, and the next one is told that nobody knows, or does the work.
func handlerSaysThatItDoesNotKnow(e *env) {
	for crash, runs := range map[lockmw.Crash]int{lockmw.RunAgain: 2, lockmw.Uncertain: 1} {
		e.Ran.Store(0)
		e.serveOnce(&shop{pay: func(ctx context.Context, _ *testpb.Order) error {
			lockmw.MarkUncertain(ctx)
			return nil
		}}, func(f *lockmw.Flight) { f.Crash = crash })
		call := func() Answer { return e.clickFor("ann", fmt.Sprint("secretid-", crash), Order()) }
		e.wantOwn(call(), codes.OK)
		if again := call(); crash == lockmw.Uncertain {
			e.wantRefusal(again, codes.FailedPrecondition, lockmw.CodeIdempotencyUncertain)
		} else {
			e.wantOwn(again, codes.OK)
		}
		e.WantRuns(runs)
	}
}

func callWithoutRedisIsRefused(e *env) {
	e.serveOnce(&shop{}, impatient)
	e.Backend.(*redistest.Mini).Close()
	e.wantRefusal(e.click(), codes.Unavailable, "LOCK_BACKEND_UNAVAILABLE")
	e.WantRuns(0)
}

// lostAnswerIsTold: the lock was lost in the middle, and somebody else may have done the same. What the handler has set belongs to an
// answer that is not given.
func lostAnswerIsTold(e *env) {
	loses := true
	e.serveOnce(&shop{pay: func(ctx context.Context, _ *testpb.Order) error {
		lease, _ := lockmw.FromContext(ctx)
		if loses {
			e.Client.Del(context.Background(), e.RedisKey(lease.Key()))
		}
		return grpc.SetHeader(ctx, metadata.Pairs(mark, "the handler's"))
	}})
	a := e.click()
	e.wantRefusal(a, codes.Internal, "LOCK_LOST")
	if len(a.Header[mark]) > 0 {
		e.Errorf("the refusal has the handler's header: %v", a.Header)
	}
	loses = false
	e.wantOwn(e.click(), codes.OK)
	e.WantRuns(2)
}

func errorHandlerHearsOfARequest(e *env) {
	var told error
	e.serveOnce(&shop{onceOptions: Options{ErrorHandler: func(_ context.Context, _ string, err error) error {
		told = err
		return status.Error(codes.DataLoss, "mine")
	}}})
	e.click()
	a := e.clickFor("ann", "secretid-1", &testpb.Order{OrderId: "another"})
	if a.Status.Code() != codes.DataLoss || a.Status.Message() != "mine" {
		e.Errorf("status = %v, want the error handler's", a.Status)
	}
	if !errors.As(told, new(*lockmw.AcquireError)) || !errors.Is(told, lockmw.ErrOtherRequest) {
		e.Errorf("the error handler is told %v", told)
	}
}

// mistakesOfIdempotentPanicAtTheStart is about those that a lock's rules do not have; see mistakesPanicAtTheStart for the others.
func mistakesOfIdempotentPanicAtTheStart(e *env) {
	fine := keyfunc.MustParse("{header.x-user}:{header.x-request}")
	forNobody := grpclock.IdempotentRules{PayMethod: {Key: fine}}
	rule := func(name string, key keyfunc.Func, f lockmw.Flight) grpclock.IdempotentRules {
		f.Retain = time.Minute
		return grpclock.IdempotentRules{name: {Key: key, Flight: f}}
	}
	for want, rules := range map[string]grpclock.IdempotentRules{
		"the IdempotentRules are nil; no call would be answered once":                        nil,
		`rule "` + PayMethod + `": lockmw: invalid policy: Retain is zero`:                   forNobody,
		`rule "Pay": it must be named`:                                                       rule("Pay", fine, lockmw.Flight{}),
		`rule "` + PayMethod + `": its Key is nil`:                                           rule(PayMethod, nil, lockmw.Flight{}),
		`rule "` + ShopService + `pay": the service has no such method: did you mean`:        rule(ShopService+"pay", fine, lockmw.Flight{}),
		`rule "` + PayMethod + `": field "id": lockmwtest.v1.Order has no field "id"`:        rule(PayMethod, keyfunc.MustParse("{body.id}"), lockmw.Flight{}),
		`rule "` + PayMethod + `": its Key reads the value "user"`:                           rule(PayMethod, keyfunc.MustParse("{value.user}:{header.x-request}"), lockmw.Flight{}),
		`rule "` + PayMethod + `": lockmw: invalid policy: TTL`:                              rule(PayMethod, fine, lockmw.Flight{Policy: lockmw.Policy{TTL: time.Millisecond}}),
		`rule "` + PayMethod + `": lockmw: invalid policy: MinHold`:                          rule(PayMethod, fine, lockmw.Flight{Policy: lockmw.Policy{MinHold: time.Second}}),
		`rule "` + PayMethod + `": lockmw: invalid policy: MaxAnswer`:                        rule(PayMethod, fine, lockmw.Flight{MaxAnswer: -1}),
		`rule "` + WatchMethod + `": it is a stream, and streams have no answer that could`:  rule(WatchMethod, fine, lockmw.Flight{}),
		`rule "` + CollectMethod + `": it is a stream, and streams have no answer`:           rule(CollectMethod, fine, lockmw.Flight{}),
		`rule "` + ChatMethod + `": it is a stream, and streams have no answer`:              rule(ChatMethod, fine, lockmw.Flight{}),
		`rule "/elsewhere.Shop/Pay": this program does not know the service`:                 rule("/elsewhere.Shop/Pay", fine, lockmw.Flight{}),
		`rule "/elsewhere.Shop/*": this program does not know the service`:                   rule("/elsewhere.Shop/*", fine, lockmw.Flight{}),
		`rule "` + PayMethod + `": whose key? It is made of the header "x-request" alone`:    rule(PayMethod, keyfunc.MustParse("{header.x-request}"), lockmw.Flight{}),
		`rule "` + PayMethod + `": whose key? It is made of the body field "order_id" alone`: rule(PayMethod, keyfunc.MustParse("a:{body.order_id}"), lockmw.Flight{}),
		`rule "` + ShopService + `*": method ` + PayMethod + `: whose key?`:                  rule(ShopService+"*", keyfunc.MustParse("{header.x-request}"), lockmw.Flight{}),
	} {
		e.wantOncePanics(rules, Options{}, want)
	}
	for option, want := range map[string]string{
		"option":          "option 1 is nil",
		"WithKeep":        "WithKeep: the function is nil",
		"WithFingerprint": "WithFingerprint: the function is nil",
		"WithValues":      "WithValues: the function is nil",
	} {
		e.wantOncePanics(onceRules(), Options{Nil: option}, want)
	}
	e.wantOncePanics(onceRules(), Options{}, "") // no mistake
	for _, template := range []string{"{header.x-request}", "{body.order_id}"} {
		e.wantOncePanics(rule(PayMethod, keyfunc.MustParse(template), lockmw.Flight{}), Options{Everybody: true}, "")
	}
	keep := func(context.Context, string, error) bool { return true }
	fingerprint := func(context.Context, string, any) ([]byte, error) { return nil, nil }
	for option, o := range map[string]Options{
		"WithKeysOfEverybody": {Everybody: true}, "WithOptionalKey": {OptionalKey: true}, "WithKeep": {Keep: keep}, "WithFingerprint": {Fingerprint: fingerprint},
	} {
		e.wantPanics(e.Locks, usual(), o, option+": it is an option of "+e.fw.Package+".Idempotent: a lock keeps no answers")
	}
}

// wantOncePanics fails the test unless the door that answers calls once panics with a text that names it and holds want, or
// does not panic if want is empty.
func (e *env) wantOncePanics(rules grpclock.IdempotentRules, o Options, want string) {
	e.Helper()
	got := PanicOf(func() {
		defer e.fault.recover()
		e.fw.Idempotent(e.Locks, rules, o)
	})
	if want == "" && got == "" {
		return
	}
	if !strings.HasPrefix(got, e.fw.Package+": Idempotent: ") || want == "" || !strings.Contains(got, want) {
		e.Errorf("panic = %q, want %s: Idempotent: … %s", got, e.fw.Package, want)
	}
}

// streamsGoOn: a rule for all of a service is not for its streams.
func streamsGoOn(e *env) {
	e.serveOnce(&shop{})
	for _, method := range streams {
		for range 2 {
			a, texts := e.streamed(method)
			e.wantCode(a, codes.OK)
			if !slices.Equal(texts, []string{id}) {
				e.Errorf("%s: %q", method, texts)
			}
		}
	}
	e.WantRuns(6)
	e.WantUnasked()
}
