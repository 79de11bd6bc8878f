package rpctest

import (
	"context"
	"errors"
	"slices"
	"strings"
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

// short is a TTL at which a loss is noticed soon, by the renewal after a third of it. Who does
// not wait for that needs no short TTL: the release notices it.
func short(p *lockmw.Policy) { p.TTL = 1500 * time.Millisecond }

// ways in which a lock is taken away. They are called while it is held, or when it has just
// expired because the machine stood still, which is a loss as well.
func (e *env) ways() map[string]func() {
	ctx := context.Background()
	return map[string]func(){
		"deleted": func() {
			if err := e.Client.Del(ctx, e.RedisKey(lockKey)).Err(); err != nil {
				e.Error(err)
			}
		},
		"taken": func() {
			if err := e.Client.Set(ctx, e.RedisKey(lockKey), "other", e.Patience).Err(); err != nil {
				e.Error(err)
			}
		},
	}
}

// cleared removes what the case has put in the lock's place.
func (e *env) cleared() { e.Client.Del(context.Background(), e.RedisKey(lockKey)) }

// wantEnd fails the test unless ctx ends with that cause.
func (e *env) wantEnd(ctx context.Context, want error) {
	e.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(e.Patience):
	}
	if cause := context.Cause(ctx); !errors.Is(cause, want) {
		e.Errorf("the context ends with %v, want %v", cause, want)
	}
}

func lostLockEndsTheWork(e *env) {
	for name, lose := range e.ways() {
		e.serve(&shop{rules: usual(short), pay: func(ctx context.Context, _ *testpb.Order) error {
			lose()
			e.wantEnd(ctx, lockmw.ErrLost)
			return ctx.Err()
		}})
		e.wantRefusal(e.pay(), codes.Internal, "LOCK_LOST")
		if token := e.Token(lockKey); name == "taken" && token != "other" {
			e.Errorf("the other holder's token became %q", token)
		}
		e.cleared()
	}
	e.WantRuns(2)
}

func lostLockIsAnswered(e *env) {
	for _, lose := range e.ways() {
		for _, rules := range []grpclock.Rules{usual(), byTenant()} {
			e.serve(&shop{
				rules: rules,
				pay:   func(context.Context, *testpb.Order) error { lose(); return nil }, // before it is noticed
				watch: func(_ *testpb.Order, s watching) error {
					err := s.Send(&testpb.Receipt{Text: "paid"})
					lose()
					return err
				},
			})
			e.wantRefusal(e.pay(), codes.Internal, "LOCK_LOST")
			e.cleared()
			a, texts := e.streamed(WatchMethod)
			e.wantRefusal(a, codes.Internal, "LOCK_LOST")
			if len(texts) != 1 {
				e.Errorf("messages = %q, want the one that was sent before", texts)
			}
			e.cleared()
		}
	}
	e.WantRuns(8)
}

// shadowNeitherWaitsNorRefuses: while another one has the lock, calls of a method in shadow are answered at once, as if there were no
// lock.
func shadowNeitherWaitsNorRefuses(e *env) {
	lease := e.hold()
	inShadow := func(ctx context.Context) {
		if inner, found := lockmw.FromContext(ctx); !found || !inner.Shadow() {
			e.Errorf("the handler's lease is %v, want one in shadow", inner)
		}
	}
	e.serve(&shop{
		rules: usual(patient, func(p *lockmw.Policy) { p.Shadow = true }),
		pay:   func(ctx context.Context, _ *testpb.Order) error { inShadow(ctx); return nil },
		watch: func(_ *testpb.Order, w watching) error { inShadow(w.Context()); return nil },
	})
	began := time.Now()
	paid := e.pay()
	watched, _ := e.streamed(WatchMethod)
	if took := time.Since(began); took > e.Patience {
		e.Errorf("answered after %v", took)
	}
	for _, a := range []Answer{paid, watched} {
		if a.Status.Code() != codes.OK {
			e.Errorf("status = %v, want the handler's answer", a.Status)
		}
	}
	if !lease.Valid() {
		e.Error("a shadow has taken the lock from its holder")
	}
	e.WantRuns(2)
}

// asyncReleaseIsNotAwaited: what Redis alone knows comes too late for the answer.
func asyncReleaseIsNotAwaited(e *env) {
	lose := e.ways()["deleted"]
	e.serve(&shop{
		rules: usual(patient, func(p *lockmw.Policy) { p.AsyncRelease = true }),
		pay:   func(context.Context, *testpb.Order) error { lose(); return nil }, // before it is noticed
		watch: func(_ *testpb.Order, _ watching) error { lose(); return nil },
	})
	paid := e.pay()
	e.cleared()
	watched, _ := e.streamed(WatchMethod)
	for _, a := range []Answer{paid, watched} {
		if a.Status.Code() != codes.OK {
			e.Errorf("status = %v, want the handler's answer", a.Status)
		}
	}
	e.cleared()
	e.WantRuns(2)
}

// lostLockTakesHeadersBack: what the handler has set belongs to an answer that
// is not given.
func lostLockTakesHeadersBack(e *env) {
	for _, rules := range []grpclock.Rules{usual(), byTenant()} {
		paid, watched := e.marked(rules, func() {})
		if got := paid.Header[mark]; len(got) != 1 {
			e.Errorf("header = %q, want the handler's", got)
		}
		if p, w := paid.Trailer[mark], watched.Trailer[mark]; len(p) != 1 || len(w) != 2 {
			e.Errorf("trailers = %q and %q, want the handler's", p, w)
		}
		paid, watched = e.marked(rules, e.ways()["deleted"])
		for _, a := range []Answer{paid, watched} {
			e.wantRefusal(a, codes.Internal, "LOCK_LOST") // whose trailer is the door's own
			if len(a.Header[mark]) > 0 || len(a.Trailer[mark]) > 0 {
				e.Errorf("the refusal has the handler's metadata: header %v, trailer %v", a.Header, a.Trailer)
			}
		}
	}
	e.WantRuns(8)
}

// mark is a header or trailer that handlers set.
const mark = "x-mark"

// marked returns the answers of handlers that set a header and trailers and then lose
// their lock by lose.
func (e *env) marked(rules grpclock.Rules, lose func()) (paid, watched Answer) {
	e.Helper()
	md := metadata.Pairs(mark, "the handler's", "grpc-retry-pushback-ms", "1")
	e.serve(&shop{
		rules: rules,
		pay: func(ctx context.Context, _ *testpb.Order) error {
			if err := errors.Join(grpc.SetHeader(ctx, metadata.Pairs(mark, "the handler's")), grpc.SetTrailer(ctx, md)); err != nil {
				e.Error(err)
			}
			lose()
			return nil
		},
		watch: func(_ *testpb.Order, s watching) error {
			s.SetTrailer(metadata.Pairs(mark, "the stream's"))
			if err := grpc.SetTrailer(s.Context(), md); err != nil {
				e.Error(err)
			}
			lose()
			return nil
		},
	})
	paid = e.pay()
	e.cleared()
	watched, _ = e.streamed(WatchMethod)
	e.cleared()
	return paid, watched
}

// sentHeaderIsSent: it goes out when the handler says so, and what comes too
// late is an error as without the door.
func sentHeaderIsSent(e *env) {
	sent, seen := make(chan struct{}), make(chan error, 1)
	e.serve(&shop{pay: func(ctx context.Context, _ *testpb.Order) error {
		_ = grpc.SetHeader(ctx, metadata.Pairs(mark, "1"))
		if err := grpc.SendHeader(ctx, metadata.Pairs(mark, "2")); err != nil {
			e.Error(err)
		}
		close(sent)
		seen <- grpc.SetHeader(ctx, metadata.Pairs(mark, "3"))
		return nil
	}})
	a := e.pay()
	testenv.Receive(e.Env, "that the header is sent", sent)
	if err := testenv.Receive(e.Env, "the late header's error", seen); err == nil {
		e.Errorf("a header is set when it was sent, and nobody says so")
	}
	e.wantCode(a, codes.OK)
	if got := a.Header[mark]; !slices.Equal(got, []string{"1", "2"}) {
		e.Errorf("header = %q, want 1 and 2", got)
	}
}

var errHandler = errors.New("the handler failed")

func lostLockKeepsTheHandlersError(e *env) {
	var got error
	lose := e.ways()["deleted"]
	for _, rules := range []grpclock.Rules{usual(), byTenant()} {
		e.serve(&shop{
			rules: rules,
			options: Options{ErrorHandler: func(_ context.Context, _ string, err error) error {
				got = err
				return nil
			}},
			pay:   func(context.Context, *testpb.Order) error { lose(); return errHandler },
			watch: func(*testpb.Order, watching) error { lose(); return errHandler },
		})
		for _, call := range []func() Answer{e.pay, func() Answer { a, _ := e.streamed(WatchMethod); return a }} {
			got = nil
			e.wantRefusal(call(), codes.Internal, "LOCK_LOST")
			if !errors.Is(got, lockmw.ErrLost) || !errors.Is(got, errHandler) {
				e.Errorf("the error handler's error = %v, want both", got)
			} else if strings.Contains(got.Error(), "\n") {
				e.Errorf("the error has several lines: %q", got)
			}
		}
	}
	e.WantRuns(4)
}

// An end is what a stream's handler saw when its context was over.
type end struct{ receive, send error }

// endOf waits for the end of the stream's lock and then goes on for a bit.
func (e *env) endOf(s grpc.ServerStream, cause error) (seen end) {
	e.wantEnd(s.Context(), cause)
	seen.receive = s.RecvMsg(new(testpb.Order))
	seen.send = s.SendMsg(new(testpb.Receipt))
	return seen
}

// wantEnds serves a chat that goes on after its lock is over, and fails the
// test unless it was told so, and not only by its context.
func (e *env) wantEnds(rules grpclock.Rules, lose func(), cause error, code codes.Code) Answer {
	e.Helper()
	ends := make(chan end, 1)
	e.serve(&shop{rules: rules, chat: func(s chatting) error {
		if _, err := s.Recv(); err != nil {
			return err
		}
		lose()
		seen := e.endOf(s, cause)
		ends <- seen
		return seen.receive
	}})
	s, cancel := e.open(ChatMethod, Order(), Order())
	defer cancel()
	a, texts := e.finish(s)
	seen := testenv.Receive(e.Env, "what the handler saw", ends)
	if status.Code(seen.receive) != code || status.Code(seen.send) != code || len(texts) > 0 {
		e.Errorf("to receive: %v, to send: %v, sent %q; want %v and nothing sent", seen.receive, seen.send, texts, code)
	}
	return a
}

func lostLockEndsAStream(e *env) {
	for _, rules := range []grpclock.Rules{usual(short), byTenant(short)} {
		a := e.wantEnds(rules, e.ways()["deleted"], lockmw.ErrLost, codes.Internal)
		e.wantRefusal(a, codes.Internal, "LOCK_LOST")
	}
}

func longHoldEndsAStream(e *env) {
	brief := func(p *lockmw.Policy) { p.MaxHold = 50 * time.Millisecond }
	for _, rules := range []grpclock.Rules{usual(brief), byTenant(brief)} {
		a := e.wantEnds(rules, func() {}, lockmw.ErrMaxHold, codes.DeadlineExceeded)
		e.wantCode(a, codes.DeadlineExceeded)
		e.wantNoSecrets(a)
		e.WantFree()
	}
}

// A waiting stream tells when somebody waits for its next message.
type waitingStream struct {
	grpc.ServerStream
	waits chan<- struct{}
}

func (s waitingStream) RecvMsg(m any) error {
	s.waits <- struct{}{}
	return s.ServerStream.RecvMsg(m)
}

// lostLockHoldsMessagesBack: one that comes when the lock was lost is not
// worked on, although the handler waited for it before.
func lostLockHoldsMessagesBack(e *env) {
	waits, contexts, ends := make(chan struct{}, 3), make(chan context.Context, 1), make(chan error, 1)
	for _, rules := range []grpclock.Rules{usual(short), byTenant(short)} {
		e.serve(&shop{
			rules: rules,
			around: Around{Stream: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
				return handler(srv, waitingStream{ss, waits})
			}},
			chat: func(s chatting) error {
				if _, err := s.Recv(); err != nil {
					return err
				}
				contexts <- s.Context()
				_, err := s.Recv()
				ends <- err
				return err
			},
		})
		s, cancel := e.open(ChatMethod, Order())
		testenv.Receive(e.Env, "the first message", waits)
		testenv.Receive(e.Env, "the second message", waits)
		e.ways()["deleted"]()
		e.wantEnd(testenv.Receive(e.Env, "the stream's context", contexts), lockmw.ErrLost)
		if err := s.SendMsg(Order()); err != nil {
			e.Error(err)
		}
		if err := testenv.Receive(e.Env, "the end of RecvMsg", ends); status.Code(err) != codes.Internal {
			e.Errorf("the message is received with %v, want %v", err, codes.Internal)
		}
		a, _ := e.finish(s)
		cancel()
		e.wantRefusal(a, codes.Internal, "LOCK_LOST")
	}
}
