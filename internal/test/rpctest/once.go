package rpctest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// The headers of which a key of the usual rule is made.
const (
	userHeader    = "x-user"
	requestHeader = "x-request"
)

// onceRules answers the unary methods once, with a Flight that may be changed.
func onceRules(change ...func(*lockmw.Flight)) grpclock.IdempotentRules {
	f := lockmw.Flight{Policy: lockmw.Policy{Prefix: prefix, Wait: testenv.Patience}, Retain: time.Minute}
	for _, c := range change {
		c(&f)
	}
	return grpclock.IdempotentRules{ShopService + "*": {Key: keyfunc.MustParse("{header.x-user}:{header.x-request}"), Flight: f}}
}

func impatient(f *lockmw.Flight) { f.Policy.Wait = 0 }

// serveOnce serves a shop whose unary methods answer once, and take no lock unless it has rules.
func (e *env) serveOnce(s *shop, change ...func(*lockmw.Flight)) {
	e.Helper()
	if s.rules == nil {
		s.rules = grpclock.Rules{}
	}
	if s.once == nil {
		s.once = onceRules(change...)
	}
	e.serve(s)
}

// clicked returns the context of a call that a user has sent as the request of that name. An empty name is left out.
func (e *env) clicked(user, request string) (context.Context, context.CancelFunc) {
	ctx, cancel := e.context()
	var pairs []string
	for name, value := range map[string]string{userHeader: user, requestHeader: request} {
		if value != "" {
			pairs = append(pairs, name, value)
		}
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...), cancel
}

// click sends the usual order as the usual request.
func (e *env) click() Answer { return e.clickFor("ann", "secretid-1", Order()) }

func (e *env) clickFor(user, request string, order *testpb.Order) Answer {
	ctx, cancel := e.clicked(user, request)
	defer cancel()
	return e.payWith(ctx, order)
}

// clickBeside sends the usual order in the background, to the server of this moment.
func (e *env) clickBeside() <-chan Answer {
	answers, pay := make(chan Answer, 1), e.shop.Pay
	go func() { // ends with the server at the latest
		ctx, cancel := e.clicked("ann", "secretid-1")
		defer cancel()
		answers <- e.invoke(ctx, pay, Order())
	}()
	return answers
}

// wantReplayed fails the test unless a is first, given again.
func (e *env) wantReplayed(a, first Answer) {
	e.Helper()
	if a.Text != first.Text || !proto.Equal(a.Status.Proto(), first.Status.Proto()) {
		e.Errorf("answer = %q, %v; want that of the first call, %q, %v", a.Text, a.Status.Proto(), first.Text, first.Status.Proto())
	}
	if got := a.Header["idempotent-replayed"]; !slices.Equal(got, []string{"true"}) {
		e.Errorf("idempotent-replayed = %q, want true", got)
	}
	e.wantNoSecrets(a)
}

// wantOwn fails the test if a was given again.
func (e *env) wantOwn(a Answer, code codes.Code) {
	e.Helper()
	e.wantCode(a, code)
	if got := a.Header["idempotent-replayed"]; len(got) > 0 {
		e.Errorf("idempotent-replayed = %q, want none", got)
	}
}

func answerIsGivenAgain(e *env) {
	e.serveOnce(&shop{pay: func(ctx context.Context, _ *testpb.Order) error {
		return errors.Join(
			grpc.SetHeader(ctx, metadata.Pairs("x-receipt", "7", "x-receipt", "8", "x-proof-bin", "\x00\xff", "set-cookie", "a=b", "date", "now", "accept-x", "y")),
			grpc.SetTrailer(ctx, metadata.Pairs("x-total", "12", "grpc-retry-pushback-ms", "1")),
		)
	}})
	first := e.click()
	e.wantOwn(first, codes.OK)
	for range 2 {
		again := e.click()
		e.wantReplayed(again, first)
		for _, name := range []string{"x-receipt", "x-proof-bin"} {
			if got := again.Header[name]; len(got) == 0 || !slices.Equal(got, first.Header[name]) {
				e.Errorf("%s = %q, want %q", name, got, first.Header[name])
			}
		}
		if got := again.Trailer["x-total"]; !slices.Equal(got, []string{"12"}) {
			e.Errorf("x-total = %q, want 12", got)
		}
		for _, name := range []string{"set-cookie", "accept-x", "grpc-retry-pushback-ms"} {
			if got := slices.Concat(again.Header[name], again.Trailer[name]); len(got) > 0 {
				e.Errorf("%s = %q is given again", name, got)
			}
		}
	}
	e.WantRuns(1)
	e.wantHashedKeys()
}

// whatIsOutsideIsNoAnswer: each call has its own of what interceptors in front have set.
func whatIsOutsideIsNoAnswer(e *env) {
	calls := 0
	e.serveOnce(&shop{
		around: Around{Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			calls++
			number := strconv.Itoa(calls)
			if err := errors.Join(grpc.SetHeader(ctx, metadata.Pairs("x-call", number)), grpc.SetTrailer(ctx, metadata.Pairs("x-end", number))); err != nil {
				e.Error(err)
			}
			return handler(ctx, req)
		}},
		pay: func(ctx context.Context, _ *testpb.Order) error {
			return grpc.SetHeader(ctx, metadata.Pairs("x-call", "the handler's"))
		},
	})
	for _, number := range []string{"1", "2"} {
		a := e.click()
		if header, trailer := a.Header["x-call"], a.Trailer["x-end"]; !slices.Equal(header, []string{number, "the handler's"}) || !slices.Equal(trailer, []string{number}) {
			e.Errorf("call %s has %q and %q", number, header, trailer)
		}
	}
	e.WantRuns(1)
}

// wantHashedKeys fails the test if what a client knows of an answer can be read in the names of Redis's keys.
func (e *env) wantHashedKeys() {
	e.Helper()
	keys, err := e.Client.Keys(context.Background(), e.Namespace+"*").Result()
	if err != nil {
		e.Fatal(err)
	}
	if len(keys) == 0 {
		e.Error("nothing is in Redis")
	}
	for _, key := range keys {
		if strings.Contains(key, id) || strings.Contains(key, "ann") {
			e.Errorf("Redis has the key %q", key)
		}
	}
}

func answerOfAnotherProcessIsGiven(e *env) {
	e.serveOnce(&shop{})
	first := e.click()
	e.wantOwn(first, codes.OK)
	e.Locks = e.NewLocker()
	e.serveOnce(&shop{})
	e.wantReplayed(e.click(), first)
	e.WantRuns(1)
}

// A slowWork is work that goes on until it is ended.
type slowWork struct {
	began chan bool // has room for all handlers of a test
	over  chan bool
	end   func()
}

func newSlowWork() slowWork {
	over := make(chan bool)
	return slowWork{make(chan bool, 100), over, sync.OnceFunc(func() { close(over) })}
}

// end ends work, and waits until nobody is at it. A test defers it, for the handlers that a broken door runs: its Locker is not
// closed in the middle of them.
func (e *env) end(w slowWork) {
	w.end()
	e.Until("all locks are released", func() bool { return e.Seen(lockmw.EventReleased) >= e.Seen(lockmw.EventAcquired) })
}

func (w slowWork) do() {
	w.began <- true
	<-w.over
}

// callsAtTheSameTimeAreAnsweredOnce is about clicks that come while the first one is at work, in its process and in another one.
func callsAtTheSameTimeAreAnsweredOnce(e *env) {
	work := newSlowWork()
	defer e.end(work)
	pay := func(ctx context.Context, _ *testpb.Order) error {
		work.do()
		return grpc.SetHeader(ctx, metadata.Pairs("x-receipt", "7"))
	}
	e.serveOnce(&shop{pay: pay})
	answers := []<-chan Answer{e.clickBeside()}
	testenv.Receive(e.Env, "the handler's beginning", work.began)
	for range 3 {
		answers = append(answers, e.clickBeside())
	}
	e.Locks = e.NewLocker()
	e.serveOnce(&shop{pay: pay})
	for range 3 {
		answers = append(answers, e.clickBeside())
	}
	e.Until("the other process waits", func() bool { return e.Seen(lockmw.EventContended) > 0 })
	work.end()
	own := 0
	for _, answer := range answers {
		a := testenv.Receive(e.Env, "an answer", answer)
		e.wantCode(a, codes.OK)
		if a.Text != id || !slices.Equal(a.Header["x-receipt"], []string{"7"}) {
			e.Errorf("answer = %q with %v", a.Text, a.Header)
		}
		if len(a.Header["idempotent-replayed"]) == 0 {
			own++
		}
	}
	if own != 1 {
		e.Errorf("%d answers were not given again, want 1", own)
	}
	e.WantRuns(1)
}

func otherRequestUnderTheKeyIsRefused(e *env) {
	e.serveOnce(&shop{})
	first := e.click()
	e.wantRefusal(e.clickFor("ann", "secretid-1", &testpb.Order{OrderId: id, Express: true}), codes.InvalidArgument, "IDEMPOTENCY_KEY_REUSED")
	e.wantReplayed(e.click(), first)
	e.WantRuns(1)
}

// fingerprintDecides: a function that leaves out what differs each time.
func fingerprintDecides(e *env) {
	fails := errors.New("it cannot tell")
	e.serveOnce(&shop{onceOptions: Options{Fingerprint: func(_ context.Context, method string, req any) ([]byte, error) {
		order, ok := req.(*testpb.Order)
		if !ok || method != PayMethod {
			return nil, fmt.Errorf("%w: a %T of %s", keyfunc.ErrMisuse, req, method)
		}
		if order.GetI32() == 1 {
			return nil, fails
		}
		return []byte(order.GetOrderId()), nil
	}}})
	first := e.click()
	e.wantReplayed(e.clickFor("ann", "secretid-1", &testpb.Order{OrderId: id, Express: true}), first)
	e.wantRefusal(e.clickFor("ann", "secretid-1", &testpb.Order{OrderId: "another"}), codes.InvalidArgument, "IDEMPOTENCY_KEY_REUSED")
	e.wantRefusal(e.clickFor("ann", "secretid-2", &testpb.Order{I32: 1}), codes.InvalidArgument, "LOCK_KEY_INVALID")
	e.WantRuns(1)
}

func methodsAreApart(e *env) {
	e.serveOnce(&shop{})
	ctx, cancel := e.clicked("ann", "secretid-1")
	defer cancel()
	for _, method := range []unary{e.shop.Pay, e.shop.Refund} {
		first := e.invoke(ctx, method, Order())
		e.wantOwn(first, codes.OK)
		e.wantReplayed(e.invoke(ctx, method, Order()), first)
	}
	e.WantRuns(2)
}

func usersAreApart(e *env) {
	e.serveOnce(&shop{})
	for _, user := range []string{"ann", "bob"} {
		e.wantOwn(e.clickFor(user, "secretid-1", &testpb.Order{OrderId: "of " + user}), codes.OK)
	}
	for _, user := range []string{"ann", "bob"} {
		if a := e.clickFor(user, "secretid-1", &testpb.Order{OrderId: "of " + user}); a.Text != "of "+user {
			e.Errorf("%s gets %q", user, a.Text)
		}
	}
	e.WantRuns(2)
}

// requestIDIsAKey is the way of AIP-155.
func requestIDIsAKey(e *env) {
	rules := grpclock.IdempotentRules{PayMethod: {
		Key:    keyfunc.MustParse("{value.tenant}:{body.customer.id}"),
		Flight: lockmw.Flight{Policy: lockmw.Policy{Prefix: prefix}, Retain: time.Minute},
	}}
	order := func(request string) *testpb.Order {
		return &testpb.Order{OrderId: id, Customer: &testpb.Customer{Id: request}}
	}
	options := tenantOf(userHeader)
	e.serveOnce(&shop{once: rules, onceOptions: options})
	first := e.clickFor("ann", "", order("1"))
	e.wantOwn(first, codes.OK)
	e.wantReplayed(e.clickFor("ann", "", order("1")), first)
	e.wantOwn(e.clickFor("ann", "", order("2")), codes.OK)
	e.wantOwn(e.clickFor("bob", "", order("1")), codes.OK)
	e.wantRefusal(e.clickFor("ann", "", order("")), codes.InvalidArgument, "IDEMPOTENCY_KEY_MISSING")
	e.WantRuns(3)
}

func callInProgressIsTold(e *env) {
	work := newSlowWork()
	defer e.end(work)
	e.serveOnce(&shop{pay: func(context.Context, *testpb.Order) error {
		work.do()
		return nil
	}}, impatient)
	answer := e.clickBeside()
	testenv.Receive(e.Env, "the handler's beginning", work.began)
	e.wantRefusal(e.click(), codes.Aborted, "IDEMPOTENCY_IN_PROGRESS")
	work.end()
	first := testenv.Receive(e.Env, "the answer", answer)
	e.wantOwn(first, codes.OK)
	e.wantReplayed(e.click(), first)
	e.WantRuns(1)
}

func callWithoutAKeyIsRefused(e *env) {
	e.serveOnce(&shop{})
	a := e.clickFor("ann", "", Order())
	e.wantRefusal(a, codes.InvalidArgument, "IDEMPOTENCY_KEY_MISSING")
	if want := `The request has no idempotency key: the header "x-request" is missing.`; a.Status.Message() != want {
		e.Errorf("message = %q, want %q", a.Status.Message(), want)
	}
	e.WantRuns(0)
	e.WantUnasked()
}

// callWithoutAKeyMayRun: what is optional is the client's key, and not what the program itself has to know.
func callWithoutAKeyMayRun(e *env) {
	rules := onceRules()
	whole := rules[ShopService+"*"]
	whole.Key = keyfunc.MustParse("{value.tenant}:{header.x-request}")
	options := tenantOf(userHeader)
	options.OptionalKey = true
	e.serveOnce(&shop{once: grpclock.IdempotentRules{PayMethod: whole}, onceOptions: options})
	e.wantOwn(e.clickFor("ann", "", Order()), codes.OK)
	e.wantOwn(e.clickFor("ann", "", Order()), codes.OK)
	e.wantRefusal(e.clickFor("", "secretid-1", Order()), codes.InvalidArgument, "LOCK_KEY_INVALID")
	e.WantRuns(2)
	e.WantUnasked()
	first := e.click()
	e.wantReplayed(e.click(), first)
	e.WantRuns(3)
}

func skippedCallRuns(e *env) {
	rules := onceRules()
	rules[PayMethod] = grpclock.IdempotentRule{Key: func(keyfunc.Request) (string, error) { return "", keyfunc.Skip }, Flight: rules[ShopService+"*"].Flight}
	for _, s := range []*shop{
		{once: rules},
		{onceOptions: Options{Skipper: func(_ context.Context, method string) bool { return method == PayMethod }}},
	} {
		e.serveOnce(s)
		e.wantOwn(e.click(), codes.OK)
		e.wantOwn(e.click(), codes.OK)
	}
	e.WantRuns(4)
	e.WantUnasked()
}

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

func errorsAreAnswers(e *env)       { e.errorsAreAnswers(lockmw.RunAgain) }
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
