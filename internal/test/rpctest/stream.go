package rpctest

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func streamingSurvives(e *env) {
	for _, rules := range []grpclock.Rules{usual(), byTenant()} {
		e.serve(&shop{rules: rules})
		s, cancel := e.open(ChatMethod)
		for range 3 { // each answer is there before the next message is sent
			var r testpb.Receipt
			if err := s.SendMsg(Order()); err != nil {
				e.Error(err)
			}
			if err := s.RecvMsg(&r); err != nil || r.GetText() != id {
				e.Errorf("answer = %v, %v; want %s", &r, err, id)
			}
		}
		if err := s.SendMsg(&testpb.Order{OrderId: "another"}); err != nil { // the first one is what counts
			e.Error(err)
		}
		a, texts := e.finish(s)
		cancel()
		e.wantCode(a, codes.OK)
		if len(texts) != 1 || texts[0] != "another" {
			e.Errorf("messages = %q", texts)
		}
		e.WantFree()
	}
	e.WantRuns(8)
}

func slowBodyHoldsNoLock(e *env) {
	ready := make(chan struct{}, 1)
	e.serve(&shop{collect: func(s collecting) error {
		ready <- struct{}{}
		if _, err := s.Recv(); err != nil {
			return err
		}
		if e.Token(lockKey) == "" {
			e.Error("the lock is not held after the first message")
		}
		e.Ran.Add(1)
		return s.SendAndClose(&testpb.Receipt{})
	}})
	s, cancel := e.open(CollectMethod)
	defer cancel()
	testenv.Receive(e.Env, "the handler's start", ready)
	e.WantUnasked()
	if err := s.SendMsg(Order()); err != nil {
		e.Error(err)
	}
	a, _ := e.finish(s)
	e.wantCode(a, codes.OK)
	e.WantFree()
	e.WantRuns(1)
}

// A heardStream tells of each RecvMsg, before it waits for the client.
type heardStream struct {
	grpc.ServerStream
	receives chan<- struct{}
}

func (s heardStream) RecvMsg(m any) error {
	s.receives <- struct{}{}
	return s.ServerStream.RecvMsg(m)
}

// silentClientHoldsNoLock: a handler has nothing to do before the one message of its client has
// come, whatever the key is made from.
func silentClientHoldsNoLock(e *env) {
	for _, rules := range []grpclock.Rules{usual(), byTenant()} {
		receives := make(chan struct{}, 10)
		e.serve(&shop{
			rules: rules,
			around: Around{Stream: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
				return handler(srv, heardStream{ss, receives})
			}},
			watch: func(*testpb.Order, watching) error {
				e.wantHeld()
				return nil
			},
		})
		s, cancel := e.open(WatchMethod)
		testenv.Receive(e.Env, "the wait for the message", receives)
		if left := e.Left(); len(left) > 0 {
			e.Errorf("the client has sent nothing, and there is %q in Redis", left)
		}
		if err := s.SendMsg(Order()); err != nil {
			e.Error(err)
		}
		a, _ := e.finish(s)
		cancel()
		e.wantCode(a, codes.OK)
		e.WantFree()
	}
	e.WantRuns(2)
}

// wantHeld fails the test unless the usual lock is held.
func (e *env) wantHeld() {
	e.Helper()
	if e.Token(lockKey) == "" {
		e.Error("the lock is not held")
	}
}

func streamIsLockedFromStartToEnd(e *env) {
	for _, rules := range []grpclock.Rules{usual(), byTenant()} {
		e.serve(&shop{
			rules: rules,
			watch: func(_ *testpb.Order, s watching) error {
				e.wantHeld()
				return nil
			},
			chat: func(s chatting) error {
				for {
					if _, err := s.Recv(); errors.Is(err, io.EOF) {
						e.wantHeld()
						return nil
					} else if err != nil {
						return err
					}
					e.wantHeld()
					e.Ran.Add(1)
				}
			},
		})
		for _, method := range []string{WatchMethod, ChatMethod} {
			a, _ := e.streamed(method)
			e.wantCode(a, codes.OK)
			e.WantFree() // before the client has the status
		}
	}
	e.serve(&shop{rules: byTenant(), chat: func(chatting) error { // without a message
		e.wantHeld()
		e.Ran.Add(1)
		return nil
	}})
	s, cancel := e.open(ChatMethod)
	defer cancel()
	a, _ := e.finish(s)
	e.wantCode(a, codes.OK)
	e.WantRuns(5)
}

func busyStreamIsRefused(e *env) {
	for _, rules := range []grpclock.Rules{usual(), byTenant()} {
		e.serve(&shop{rules: rules})
		lease := e.hold()
		for _, method := range streams {
			a, texts := e.streamed(method)
			e.wantRefusal(a, codes.Aborted, "LOCK_BUSY")
			if len(texts) > 0 {
				e.Errorf("%s: a refused stream sends %q", method, texts)
			}
		}
		e.WantRuns(0)
		e.Release(lease)
		for _, method := range streams {
			a, texts := e.streamed(method)
			e.wantCode(a, codes.OK)
			if len(texts) != 1 || texts[0] != id {
				e.Errorf("%s: the stream sends %q, want %q", method, texts, id)
			}
		}
		e.WantRuns(3)
		e.Ran.Store(0)
	}
}

func refusalOfAStreamIsFinal(e *env) {
	said := make(chan []error, 1)
	e.serve(&shop{chat: func(s chatting) error {
		var errs []error
		for range 3 {
			_, err := s.Recv()
			errs = append(errs, err)
		}
		errs = append(errs, s.Send(&testpb.Receipt{Text: "all is well"}))
		said <- errs
		return nil // as if nothing had been
	}})
	e.hold()
	s, cancel := e.open(ChatMethod, Order(), &testpb.Order{OrderId: "another"}, Order())
	defer cancel()
	a, texts := e.finish(s)
	e.wantRefusal(a, codes.Aborted, "LOCK_BUSY")
	if len(texts) > 0 {
		e.Errorf("the client got %q, want nothing", texts)
	}
	for i, err := range testenv.Receive(e.Env, "what the handler saw", said) {
		if status.Code(err) != codes.Aborted {
			e.Errorf("call %d of the refused stream: %v, want %v", i+1, err, codes.Aborted)
		}
	}
}

func streamWithoutAMessageIsRefused(e *env) {
	e.serve(&shop{})
	for _, method := range []string{CollectMethod, ChatMethod} {
		s, cancel := e.open(method)
		a, _ := e.finish(s)
		cancel()
		e.wantRefusal(a, codes.InvalidArgument, "LOCK_KEY_INVALID")
	}
	e.WantRuns(0)
	e.WantUnasked()
}

type contextKey struct{}

func streamHasOneContext(e *env) {
	lose := e.ways()["deleted"]
	behind := make(chan context.Context, 1)
	e.serve(&shop{rules: usual(short), chat: func(s chatting) error {
		ctx := s.Context()
		if _, found := lockmw.FromContext(ctx); found {
			e.Error("there is a lease before the first message")
		}
		child, cancel := context.WithCancel(context.WithValue(ctx, contextKey{}, "own"))
		defer cancel()
		if _, err := s.Recv(); err != nil {
			return err
		}
		e.Ran.Add(1)
		if s.Context() != ctx {
			e.Error("the stream has another context after the first message")
		}
		e.wantLease(ctx)
		e.wantLease(child)
		if ctx.Err() != nil || child.Err() != nil {
			e.Errorf("the contexts have ended: %v, %v", ctx.Err(), child.Err())
		}
		o, err := s.Recv()
		if err != nil {
			return err
		}
		if o.GetOrderId() == "lose" {
			lose()
			e.wantEnd(child, lockmw.ErrLost)
			e.wantEnd(ctx, lockmw.ErrLost)
		}
		behind <- ctx
		return nil
	}})
	for last, want := range map[string]error{"lose": lockmw.ErrLost, "keep": lockmw.ErrReleased} {
		s, cancel := e.open(ChatMethod, Order(), &testpb.Order{OrderId: last})
		e.finish(s)
		cancel()
		// A stream's own context ends with it; this one had before.
		if cause := context.Cause(testenv.Receive(e.Env, "the handler's context", behind)); !errors.Is(cause, want) {
			e.Errorf("%s: the context ended with %v, want %v", last, cause, want)
		}
	}
	e.WantRuns(2)
}

// A closedStream is a framework's stream. Once it is closed it notes that it was used, and
// leaves the framework alone, of which it is not known what it would do.
type closedStream struct {
	grpc.ServerStream
	closed, touched *atomic.Bool
}

func (s closedStream) use(do func(any) error, m any) error {
	if s.closed.Load() {
		s.touched.Store(true)
		return nil
	}
	return do(m)
}

func (s closedStream) RecvMsg(m any) error { return s.use(s.ServerStream.RecvMsg, m) }
func (s closedStream) SendMsg(m any) error { return s.use(s.ServerStream.SendMsg, m) }

// streamIsOverWithItsHandler: what a handler has left behind gets errors, and touches nothing
// that is not the call's any more.
func streamIsOverWithItsHandler(e *env) {
	skips := func(keyfunc.Request) (string, error) { return "", keyfunc.Skip }
	late := grpclock.Rules{ShopService + "*": {Key: keyfunc.Join(keyfunc.Body("order_id"), skips)}}
	for name, rules := range map[string]grpclock.Rules{"usual": usual(), "by tenant": byTenant(), "skipped by its message": late} {
		for _, messages := range []int{0, 1, 2} {
			if messages == 0 && name == "skipped by its message" {
				continue
			}
			var closed, touched atomic.Bool
			over, said := make(chan struct{}), make(chan []error, 1)
			e.serve(&shop{
				rules: rules,
				around: Around{Stream: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
					defer close(over)
					defer closed.Store(true)
					return handler(srv, closedStream{ss, &closed, &touched})
				}},
				chat: func(s chatting) error {
					for range messages {
						if _, err := s.Recv(); err != nil {
							return err
						}
					}
					go func() { // ends with the handler
						<-over
						_, received := s.Recv()
						said <- []error{s.Send(&testpb.Receipt{Text: "too late"}), received, s.Send(&testpb.Receipt{Text: "too late"})}
					}()
					return nil
				},
			})
			s, cancel := e.open(ChatMethod, Order(), Order(), Order())
			a, texts := e.finish(s)
			cancel()
			e.wantCode(a, codes.OK)
			for i, err := range testenv.Receive(e.Env, "what is said after the end", said) {
				if status.Code(err) != codes.Canceled {
					e.Errorf("%s, after %d messages: call %d of a stream that is over: %v, want %v", name, messages, i+1, err, codes.Canceled)
				}
			}
			if touched.Load() || len(texts) > 0 {
				e.Errorf("%s, after %d messages: the framework's stream was used after its end; the client got %q", name, messages, texts)
			}
			e.WantFree()
		}
	}
}

// functionMayAskForTheMessage: a function that was not seen to read the
// message at start-up reads it all the same.
func functionMayAskForTheMessage(e *env) {
	swallows := func(r keyfunc.Request) (string, error) {
		if _, called := metadata.FromIncomingContext(r.Context()); !called {
			return "", errors.New("this is no call")
		}
		id, ok, err := r.Body("order_id")
		if err != nil || !ok {
			return "none", nil //nolint:nilerr // on purpose: it must be asked again
		}
		return "order:" + id, nil
	}
	sometimesBoth := keyfunc.Join(keyfunc.Const("order"), sometimes("order_id"))
	for _, key := range []keyfunc.Func{sometimesBoth, swallows} {
		e.serve(&shop{rules: grpclock.Rules{ShopService + "*": {Key: key, Policy: lockmw.Policy{Prefix: prefix}}}})
		lease := e.hold()
		for _, method := range streams {
			a, _ := e.streamed(method)
			e.wantRefusal(a, codes.Aborted, "LOCK_BUSY")
		}
		e.WantRuns(0)
		e.Release(lease)
	}
	for _, method := range streams {
		a, _ := e.streamed(method)
		e.wantCode(a, codes.OK)
	}
	e.WantRuns(3)
}

func skippedStreamTakesNoLock(e *env) {
	skip := func(keyfunc.Request) (string, error) { return "", keyfunc.Skip }
	all := func(key keyfunc.Func) grpclock.Rules { return grpclock.Rules{ShopService + "*": {Key: key}} }
	for _, s := range []*shop{
		{rules: all(skip)},
		{rules: all(keyfunc.Join(keyfunc.Body("order_id"), skip))},
		{options: Options{Skipper: func(context.Context, string) bool { return true }}},
		{rules: grpclock.Rules{PayMethod: {Key: keyfunc.Const("k")}}},
	} {
		e.serve(s)
		for _, method := range streams {
			a, texts := e.streamed(method)
			e.wantCode(a, codes.OK)
			if len(texts) != 1 || texts[0] != id {
				e.Errorf("%s: the stream sends %q, want %q", method, texts, id)
			}
		}
	}
	e.WantUnasked()
	e.WantRuns(12)
}
