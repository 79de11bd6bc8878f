package rpctest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/grpclock"
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
