package connectlock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// One list of interceptors may serve handlers and clients: no call takes its lock twice.
func TestClientsTakeNoLock(t *testing.T) {
	s := newShop(t)
	clients := s.NewLocker()
	rules := grpclock.Rules{rpctest.ShopService + "*": {Key: keyfunc.Const("42"), Policy: s.policy}}
	client := s.client(t, connect.WithInterceptors(connectlock.Interceptor(clients, rules)))
	s.pay = func(context.Context) error {
		if n := s.Seen(lockmw.EventAcquired); n != int(s.Ran.Load()) {
			t.Errorf("%d locks were taken for %d calls", n, s.Ran.Load())
		}
		return nil
	}
	if _, err := client.CallUnary(t.Context(), connect.NewRequest(order("42"))); err != nil {
		t.Error(err)
	}
	watch := connect.NewClient[testpb.Order, testpb.Receipt](newClient(s.Env), s.url+rpctest.WatchMethod, connect.WithInterceptors(connectlock.Interceptor(clients, rules)))
	stream, err := watch.CallServerStream(t.Context(), connect.NewRequest(order("42")))
	if err != nil {
		t.Fatal(err)
	}
	for stream.Receive() {
	}
	if err := errors.Join(stream.Err(), stream.Close()); err != nil {
		t.Error(err)
	}
	s.WantRuns(2)
}

// post sends a unary call as a script would: JSON over HTTP/1.1.
func (s *shop) post(t *testing.T, body string, header ...string) (*http.Response, map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.serve(t)+rpctest.PayMethod, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for pair := range slices.Chunk(header, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Error(err)
	}
	return response, answer
}

func TestRefusalIsAnAnswerOfHTTP(t *testing.T) {
	s := newShop(t)
	s.policy.RetryAfter = 1500 * time.Millisecond
	if response, answer := s.post(t, `{"orderId":"42"}`); response.StatusCode != http.StatusOK || answer["text"] != "order:42" {
		t.Errorf("%d %v", response.StatusCode, answer)
	}
	s.Take("order:42")
	response, answer := s.post(t, `{"orderId":"42"}`)
	if response.StatusCode != http.StatusConflict || response.ProtoMajor != 1 || answer["code"] != "aborted" || response.Header.Get("Retry-After") != "2" {
		t.Errorf("%s %d %v %v", response.Proto, response.StatusCode, response.Header, answer)
	}
	if response, answer := s.post(t, `{}`); response.StatusCode != http.StatusBadRequest || len(response.Header["Retry-After"]) > 0 {
		t.Errorf("without a key: %d %v %v", response.StatusCode, response.Header, answer)
	}
}

// A client's deadline is known to the server by a header.
func TestWaitEndsWithTheClientsTimeout(t *testing.T) {
	s := newShop(t)
	s.policy.Retries, s.policy.RetryInterval = lockmw.Forever, time.Minute
	s.Take("order:42")
	response, answer := s.post(t, `{"orderId":"42"}`, "Connect-Timeout-Ms", "1000")
	if response.StatusCode != http.StatusGatewayTimeout || answer["code"] != "deadline_exceeded" || !strings.Contains(fmt.Sprint(answer["details"]), lockmw.CodeWaitTimeout) {
		t.Errorf("%d %v", response.StatusCode, answer)
	}
	s.WantRuns(0)
}

// A binary header has two spellings, with padding and without. Two values of it are refused.
func TestSpellingsOfABinaryHeaderAreOneKey(t *testing.T) {
	s := newShop(t)
	s.key = keyfunc.Header("Shop-Bin")
	for value, want := range map[string]string{
		"YQ==": "order:a", "YQ": "order:a", "YQ==,YQ": "order:a", "YQ==,Yg==": "", "YWI=": "order:ab", "YWI": "order:ab", "Y": "", "": "",
	} {
		response, answer := s.post(t, `{}`, "Shop-Bin", value)
		if got := answer["text"]; got != want && (want != "" || response.StatusCode != http.StatusBadRequest) {
			t.Errorf("%q: %d %v, want %q", value, response.StatusCode, answer, want)
		}
	}
}

func TestAuthorityIsTheHost(t *testing.T) {
	s := newShop(t)
	for _, template := range []string{"{header.:authority}", "{header.host}"} {
		s.key = keyfunc.MustParse(template)
		if _, answer := s.post(t, `{}`); answer["text"] != "order:"+strings.TrimPrefix(s.url, "http://") {
			t.Errorf("%s: %v, want %s", template, answer, s.url)
		}
	}
}

// A method without side effects may be called by GET.
func TestGetIsLocked(t *testing.T) {
	s := newShop(t)
	s.handler = []connect.HandlerOption{connect.WithIdempotency(connect.IdempotencyNoSideEffects)}
	var method string
	s.pay = func(ctx context.Context) error {
		info, _ := connect.CallInfoForHandlerContext(ctx)
		method = info.HTTPMethod()
		return nil
	}
	client := s.client(t, connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	if reply, err := client.CallUnary(t.Context(), connect.NewRequest(order("42"))); err != nil || reply.Msg.GetText() != "order:42" || method != http.MethodGet {
		t.Errorf("%s: %v, %v", method, reply, err)
	}
	s.Take("order:42")
	if _, err := client.CallUnary(t.Context(), connect.NewRequest(order("42"))); connectlock.CodeOf(err) != lockmw.CodeBusy {
		t.Errorf("error = %v", err)
	}
}

// second tells when somebody waits for what comes after the first message of a stream.
type second struct {
	passes
	waits chan<- struct{}
}

func (s second) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, &secondConn{conn, s.waits, 0})
	}
}

type secondConn struct {
	connect.StreamingHandlerConn
	waits    chan<- struct{}
	received int
}

func (c *secondConn) Receive(m any) error {
	if c.received++; c.received == 2 {
		c.waits <- struct{}{}
	}
	return c.StreamingHandlerConn.Receive(m)
}

// A client that does not end its request holds no lock of a stream of one message, and
// one that sends two is not served.
func TestLockIsTakenWhenTheRequestHasEnded(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name+", key of the message", func(t *testing.T) { lockedAtTheEnd(t, keyfunc.Body("order_id"), p.options) })
		t.Run(p.name+", key of a header", func(t *testing.T) { lockedAtTheEnd(t, keyfunc.Header("X-Order"), p.options) })
	}
}

func lockedAtTheEnd(t *testing.T, key keyfunc.Func, options []connect.ClientOption) {
	t.Helper()
	s, waits := newShop(t), make(chan struct{}, 2)
	s.key = key
	s.outer = []connect.Interceptor{second{waits: waits}}
	client := connect.NewClient[testpb.Order, testpb.Receipt](newClient(s.Env), s.serve(t)+rpctest.WatchMethod, options...)
	watch := func(orders int) (text string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
		defer cancel()
		stream := client.CallBidiStream(ctx)
		stream.RequestHeader().Set("X-Order", "42")
		for range orders {
			if err := stream.Send(order("42")); err != nil && !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		}
		testenv.Receive(s.Env, "the message", waits)
		s.WantUnasked()
		if err := stream.CloseRequest(); err != nil {
			t.Error(err)
		}
		for {
			reply, err := stream.Receive()
			if err != nil {
				return text, err
			}
			text += reply.GetText()
		}
	}
	if text, err := watch(2); text != "" || connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("two messages: %q, %v", text, err)
	}
	s.WantRuns(0)
	if text, err := watch(1); text != "42" || !errors.Is(err, io.EOF) {
		t.Errorf("one message: %q, %v", text, err)
	}
	s.WantRuns(1)
	s.WantFree()
}

// marks sets headers in front of the lock.
type marks struct{ passes }

func (marks) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		info, _ := connect.CallInfoForHandlerContext(ctx)
		info.ResponseHeader().Set("X-Mark", "outer")
		info.ResponseTrailer().Set("X-Trail", "outer")
		return next(ctx, req)
	}
}

// When the lock is lost, what the handler has set goes, and what interceptors in front
// have set stays.
func TestLostLockTakesTheHandlersHeadersBackAlone(t *testing.T) {
	s := newShop(t)
	s.outer = []connect.Interceptor{marks{}}
	s.pay = func(ctx context.Context) error {
		info, _ := connect.CallInfoForHandlerContext(ctx)
		info.ResponseHeader().Add("X-Mark", "handler")
		info.ResponseHeader().Add("X-Own", "handler")
		info.ResponseTrailer().Set("X-Trail", "handler")
		s.lose("order:42")
		return nil
	}
	_, err := s.client(t).CallUnary(t.Context(), connect.NewRequest(order("42")))
	e, ok := errors.AsType[*connect.Error](err)
	if !ok || connectlock.CodeOf(err) != lockmw.CodeLost {
		t.Fatalf("error = %v", err)
	}
	if h := e.Meta(); !slices.Equal(h["X-Mark"], []string{"outer"}) || len(h["X-Own"]) > 0 || !slices.Equal(h["X-Trail"], []string{"outer"}) {
		t.Errorf("headers %v", h)
	}
}

// A panic comes to connect.WithRecover, with the lock released.
func TestRecoveryFindsThePanic(t *testing.T) {
	s := newShop(t)
	recovered := make(chan any, 1)
	s.handler = []connect.HandlerOption{connect.WithRecover(func(_ context.Context, _ connect.Spec, _ http.Header, value any) error {
		s.WantFree()
		recovered <- value
		return connect.NewError(connect.CodeDataLoss, errors.New("recovered"))
	})}
	s.pay = func(context.Context) error { panic("no paper") }
	if _, err := s.client(t).CallUnary(t.Context(), connect.NewRequest(order("42"))); connect.CodeOf(err) != connect.CodeDataLoss {
		t.Errorf("error = %v", err)
	}
	if value := testenv.Receive(s.Env, "the panic", recovered); value != "no paper" {
		t.Errorf("recovered %v", value)
	}
}

// Clients of gRPC for Go read refusals of connect's handlers, and the other way round.
func TestClientsOfBothReadTheReason(t *testing.T) {
	s := newShop(t)
	conn, err := grpc.NewClient(strings.TrimPrefix(s.serve(t), "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lease := s.Take("order:42")
	var trailer metadata.MD
	_, err = testpb.NewShopClient(conn).Pay(t.Context(), order("42"), grpc.Trailer(&trailer))
	if status.Code(err) != codes.Aborted || grpclock.CodeOf(err) != lockmw.CodeBusy || len(trailer["grpc-retry-pushback-ms"]) != 1 {
		t.Errorf("a client of gRPC gets %v, code %q, trailer %v", err, grpclock.CodeOf(err), trailer)
	}
	s.Release(lease)
	if reply, err := testpb.NewShopClient(conn).Pay(t.Context(), order("42")); err != nil || reply.GetText() != "order:42" {
		t.Errorf("a client of gRPC gets %v, %v", reply, err)
	}
}
