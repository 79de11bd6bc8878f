package rpctest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func lockIsHeldWhileTheHandlerRuns(e *env) {
	e.serve(&shop{pay: func(context.Context, *testpb.Order) error {
		if e.Token(lockKey) == "" {
			e.Error("the lock is not held while the handler runs")
		}
		return nil
	}})
	for range 20 {
		e.wantCode(e.pay(), codes.OK)
		e.WantFree() // before the client has the answer
	}
	e.WantRuns(20)
	for _, call := range []func() Answer{e.pay, func() Answer { a, _ := e.streamed(ChatMethod); return a }} {
		e.WantReleasedFirst(func(l *lockmw.Locker) {
			e.Locks = l
			e.serve(&shop{})
		}, func() { e.wantCode(call(), codes.OK) })
	}
}

// wantLease fails the test unless ctx is that of the usual lock's holder.
func (e *env) wantLease(ctx context.Context) {
	e.Helper()
	lease, found := lockmw.FromContext(ctx)
	if !found {
		e.Error("no lease in the handler's context")
		return
	}
	if lease.Key() != lockKey || !lease.Valid() || lease.Fence() == 0 {
		e.Errorf("lease of %q, valid %v, fence %d", lease.Key(), lease.Valid(), lease.Fence())
	}
	if md, _ := metadata.FromIncomingContext(ctx); len(md["x-order"]) == 0 {
		e.Errorf("the call's own context is lost: its metadata are %v", md)
	}
	if _, _, err := e.Locks.Acquire(ctx, lockKey, lockmw.Policy{}); !errors.Is(err, lockmw.ErrReentrant) {
		e.Errorf("to lock the same again is %v, want %v", err, lockmw.ErrReentrant)
	}
}

func handlerFindsItsLease(e *env) {
	for _, rules := range []grpclock.Rules{usual(), byTenant()} {
		e.serve(&shop{
			rules: rules,
			pay: func(ctx context.Context, _ *testpb.Order) error {
				e.wantLease(ctx)
				return nil
			},
			watch: func(_ *testpb.Order, s watching) error {
				e.wantLease(s.Context())
				return nil
			},
		})
		e.wantCode(e.pay(), codes.OK)
		a, _ := e.streamed(WatchMethod)
		e.wantCode(a, codes.OK)
	}
	e.WantRuns(4)
}

// An exit is how a handler ends.
type exit struct {
	name   string
	leave  func() error
	code   codes.Code
	panics any  // what it panics with
	gone   bool // the goroutine ends; grpc then never answers the call
}

func exits() []exit {
	value := &exit{name: "a value of its own"}
	return []exit{
		{name: "return", leave: func() error { return nil }},
		{name: "error", leave: func() error { return status.Error(codes.NotFound, "no") }, code: codes.NotFound},
		{name: "panic", leave: func() error { panic(value) }, panics: value, code: codes.DataLoss},
		{name: "Goexit", leave: func() error { runtime.Goexit(); return nil }, gone: true},
	}
}

// An ending is what the interceptors outside of the door have seen of a call.
type ending struct {
	panicked any
	returned bool
}

// watched returns recovery interceptors, as a server would have them, that
// tell how each call has ended.
func watched(endings chan<- ending) Around {
	end := func(returned *bool, err *error) {
		e := ending{panicked: recover(), returned: *returned}
		if e.panicked != nil {
			*err = status.Error(codes.DataLoss, "panicked")
		}
		endings <- e
	}
	return Around{
		Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
			returned := false
			defer end(&returned, &err)
			reply, err = handler(ctx, req)
			returned = true
			return reply, err
		},
		Stream: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			returned := false
			defer end(&returned, &err)
			err = handler(srv, ss)
			returned = true
			return err
		},
	}
}

const exitTimes = 100

func everyExitReleases(e *env) {
	for _, exit := range exits() {
		endings := make(chan ending, 1)
		e.serve(&shop{
			rules:  usual(patient), // a machine that is busy is no reason to refuse
			around: watched(endings),
			pay:    func(context.Context, *testpb.Order) error { return exit.leave() },
		})
		for range exitTimes {
			ctx, cancel := e.context()
			answers := e.background(ctx)
			e.wantEnding(exit, endings)
			if exit.gone {
				cancel()
			}
			if a := testenv.Receive(e.Env, "the answer", answers); !exit.gone && a.Status.Code() != exit.code {
				e.Fatalf("%s: %v, want %v", exit.name, a.Status, exit.code)
			}
			cancel()
		}
	}
	e.WantRuns(exitTimes * len(exits()))
}

// wantEnding fails the test unless the next call ends by the exit, and leaves
// nothing in Redis.
func (e *env) wantEnding(exit exit, endings <-chan ending) {
	e.Helper()
	got := testenv.Receive(e.Env, "the handler's end", endings)
	if got.panicked != exit.panics || got.returned == (exit.gone || exit.panics != nil) {
		e.Fatalf("%s: panic value %v, returned %v", exit.name, got.panicked, got.returned)
	}
	if left := e.Left(); len(left) > 0 {
		e.Fatalf("%s: left in Redis: %q", exit.name, left)
	}
}

func everyExitOfAStreamReleases(e *env) {
	for _, exit := range exits() {
		for _, rules := range []grpclock.Rules{usual(patient), byTenant(patient)} {
			endings := make(chan ending, 1)
			e.serve(&shop{rules: rules, around: watched(endings), chat: func(s chatting) error {
				if _, err := s.Recv(); err != nil {
					return err
				}
				e.Ran.Add(1)
				return exit.leave()
			}})
			for range exitTimes / 2 {
				s, cancel := e.open(ChatMethod, Order())
				e.wantEnding(exit, endings)
				if !exit.gone {
					a, _ := e.finish(s)
					e.wantCode(a, exit.code)
				}
				cancel()
			}
		}
	}
	e.WantRuns(exitTimes * len(exits()))
}

// secondClickIsRefused is about MinHold: what was done is not done again for that long,
// and what has failed can be tried again at once.
func secondClickIsRefused(e *env) {
	for i, exit := range exits() {
		if exit.gone {
			continue
		}
		for _, keeps := range []bool{false, true} {
			calls := map[string]func() Answer{
				"unary":  e.pay,
				"stream": func() Answer { a, _ := e.streamed(WatchMethod); return a },
			}
			for kind, call := range calls {
				var ran atomic.Int32
				prefix := fmt.Sprint(kind, i, keeps, ":")
				click := func(p *lockmw.Policy) { p.Prefix, p.MinHold, p.MinHoldOnError = prefix, time.Minute, keeps }
				rules := usual(click)
				if kind == "stream" {
					rules = byTenant(click)
				}
				e.serve(&shop{
					rules:  rules,
					around: watched(make(chan ending, 2)),
					pay:    func(context.Context, *testpb.Order) error { ran.Add(1); return exit.leave() },
					watch:  func(*testpb.Order, watching) error { ran.Add(1); return exit.leave() },
				})
				call()
				call()
				want := int32(1)
				if exit.name != "return" && !keeps {
					want = 2
				}
				if got := ran.Load(); got != want {
					e.Errorf("%s, %s, MinHoldOnError %v: the handler ran %d times for two calls, want %d", kind, exit.name, keeps, got, want)
				}
			}
		}
	}
}

// failedWorkVoidsItsTicket is about work that goes on elsewhere: the lock is handed on to the ticket, and work that has failed gives it back.
func failedWorkVoidsItsTicket(e *env) {
	for _, exit := range exits() {
		endings, tickets := make(chan ending, 1), make(chan string, 1)
		leave := func(ctx context.Context) error {
			lease, _ := lockmw.FromContext(ctx)
			tickets <- lease.Ticket(time.Minute)
			return exit.leave()
		}
		e.serve(&shop{
			rules:  byTenant(),
			around: watched(endings),
			pay:    func(ctx context.Context, _ *testpb.Order) error { return leave(ctx) },
			watch:  func(_ *testpb.Order, s watching) error { return leave(s.Context()) },
		})
		for _, unary := range []bool{true, false} {
			ctx, cancel := e.context()
			var call sync.WaitGroup
			call.Go(func() { _ = e.call(ctx, unary) }) // its end is another case's
			ticket := testenv.Receive(e.Env, "the ticket", tickets)
			testenv.Receive(e.Env, "the handler's end", endings)
			e.WantTicket(fmt.Sprintf("%s, unary: %v", exit.name, unary), ticket, exit.name != "return")
			cancel()
			call.Wait()
		}
	}
}

// secondClickOfOneWhoLeftIsRefused is about MinHold as well: that a client has left, or its
// deadline has passed, says nothing of the work. What the handler returns then says it.
func secondClickOfOneWhoLeftIsRefused(e *env) {
	for returned, want := range map[error]codes.Code{nil: codes.Aborted, status.Error(codes.Canceled, "given up"): codes.OK} {
		for _, way := range []string{"unary", "stream"} {
			var ran atomic.Int32
			started, endings := make(chan struct{}, 1), make(chan ending, 2)
			work := func(ctx context.Context) error {
				if ran.Add(1) > 1 {
					return nil
				}
				started <- struct{}{}
				select {
				case <-ctx.Done():
				case <-time.After(e.Patience):
					e.Errorf("%s: the handler does not hear that its client has left", way)
				}
				return returned
			}
			prefix := fmt.Sprint(way, want, ":")
			e.serve(&shop{
				rules:  usual(func(p *lockmw.Policy) { p.Prefix, p.MinHold = prefix, time.Minute }),
				around: watched(endings),
				pay:    func(ctx context.Context, _ *testpb.Order) error { return work(ctx) },
				chat: func(s chatting) error {
					if _, err := s.Recv(); err != nil {
						return err
					}
					return work(s.Context())
				},
			})
			var leave context.CancelFunc
			if way == "unary" {
				var ctx context.Context
				ctx, leave = e.context()
				e.background(ctx)
			} else {
				_, leave = e.open(ChatMethod, Order())
			}
			testenv.Receive(e.Env, "the handler's start", started)
			leave()
			testenv.Receive(e.Env, "the handler's end", endings)
			if got := e.pay().Status.Code(); got != want {
				e.Errorf("%s, the handler returns %v: the second call is answered with %v, want %v", way, returned, got, want)
			}
		}
	}
}

func clientWhoLeavesEndsTheWork(e *env) {
	for _, rules := range []grpclock.Rules{usual(), byTenant()} {
		started, ended := make(chan struct{}), make(chan error, 1)
		work := func(ctx context.Context) {
			started <- struct{}{}
			select {
			case <-ctx.Done():
				ended <- ctx.Err()
			case <-time.After(e.Patience):
				ended <- nil
			}
		}
		e.serve(&shop{
			rules: rules,
			pay:   func(ctx context.Context, _ *testpb.Order) error { work(ctx); return nil },
			watch: func(_ *testpb.Order, s watching) error { work(s.Context()); return nil },
		})
		gone := func(method string, leave context.CancelFunc) {
			testenv.Receive(e.Env, "the handler's start", started)
			leave()
			if err := testenv.Receive(e.Env, "the handler's end", ended); !errors.Is(err, context.Canceled) {
				e.Errorf("%s: the handler's context: %v, want %v", method, err, context.Canceled)
			}
			e.Until("the key is free", func() bool { return len(e.Left()) == 0 })
		}
		ctx, leave := e.context()
		answers := e.background(ctx)
		gone(PayMethod, leave)
		testenv.Receive(e.Env, "the client's end", answers)
		s, leave := e.open(WatchMethod, Order())
		_ = s.CloseSend()
		gone(WatchMethod, leave)
	}
}

func counterIsExact(e *env) {
	const clients, rounds = 20, 6
	var counter atomic.Int64
	add := func() {
		n := counter.Load()
		time.Sleep(100 * time.Microsecond) // so that others could come in between
		counter.Store(n + 1)
	}
	e.serve(&shop{
		rules: usual(func(p *lockmw.Policy) { p.Wait = time.Minute }),
		pay:   func(context.Context, *testpb.Order) error { add(); return nil },
		watch: func(*testpb.Order, watching) error { add(); return nil },
	})
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			for range rounds {
				if err := e.call(ctx, i%2 == 0); err != nil {
					e.Errorf("call: %v", err)
				}
			}
		})
	}
	all.Wait()
	if got := counter.Load(); got != clients*rounds {
		e.Errorf("counter = %d, want %d", got, clients*rounds)
	}
}

// call calls the unary or the server-streaming method.
func (e *env) call(ctx context.Context, unary bool) error {
	if unary {
		_, err := e.shop.Pay(ctx, Order())
		return err
	}
	s, err := e.shop.Watch(ctx, Order())
	if err != nil {
		return err
	}
	if _, err := s.Recv(); err == nil || fmt.Sprint(err) != "EOF" {
		return fmt.Errorf("the stream goes on: %w", err)
	}
	return nil
}
