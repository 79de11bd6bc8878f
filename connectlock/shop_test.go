package connectlock_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"connectrpc.com/connect"

	"github.com/lockmw/kit/connectlock"
	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A shop has the unary method and the stream to which a client sends one message, under
// the lock of an order, in the words of connect alone.
type shop struct {
	*testenv.Env
	key     keyfunc.Func
	policy  lockmw.Policy
	options []connectlock.Option
	outer   []connect.Interceptor // in front of the lock
	handler []connect.HandlerOption

	pay  func(ctx context.Context) error
	seen error // by interceptors in front, of the last unary call
	url  string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	return &shop{
		Env: testenv.New(t, redistest.Embedded(t)), key: keyfunc.Body("order_id"),
		policy: lockmw.Policy{Prefix: "order:"}, pay: func(context.Context) error { return nil },
	}
}

func order(id string) *testpb.Order { return &testpb.Order{OrderId: id} }

// lose takes the lock of a key away.
func (s *shop) lose(key string) { s.Client.Del(context.Background(), s.RedisKey(key)) }

// ServeHTTP serves the shop.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rule := grpclock.Rule{Key: s.key, Policy: s.policy}
	rules := grpclock.Rules{rpctest.PayMethod: rule, rpctest.WatchMethod: rule}
	all := append([]connect.Interceptor{watcher{err: &s.seen}}, s.outer...)
	all = append(all, connectlock.Interceptor(s.Locks, rules, s.options...))
	opts := append(slices.Clone(s.handler), connect.WithInterceptors(all...))
	mux := http.NewServeMux()
	mux.Handle(rpctest.PayMethod, connect.NewUnaryHandler(rpctest.PayMethod, func(ctx context.Context, req *connect.Request[testpb.Order]) (*connect.Response[testpb.Receipt], error) {
		s.Ran.Add(1)
		if err := s.pay(ctx); err != nil {
			return nil, err
		}
		lease, _ := lockmw.FromContext(ctx)
		return connect.NewResponse(&testpb.Receipt{Text: lease.Key()}), nil
	}, opts...))
	mux.Handle(rpctest.WatchMethod, connect.NewServerStreamHandler(rpctest.WatchMethod, func(ctx context.Context, req *connect.Request[testpb.Order], stream *connect.ServerStream[testpb.Receipt]) error {
		s.Ran.Add(1)
		if err := s.pay(ctx); err != nil {
			return err
		}
		return stream.Send(&testpb.Receipt{Text: req.Msg.GetOrderId()})
	}, opts...))
	mux.ServeHTTP(w, r)
}

// serve starts a server, unless there is one, and returns its address.
func (s *shop) serve(t *testing.T) string {
	t.Helper()
	if s.url != "" {
		return s.url
	}
	server := httptest.NewUnstartedServer(s)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		s.CloseNow(s.Locks)
		server.Close()
	})
	s.url = server.URL
	return s.url
}

// client returns a client of the unary method.
func (s *shop) client(t *testing.T, opts ...connect.ClientOption) *connect.Client[testpb.Order, testpb.Receipt] {
	t.Helper()
	return connect.NewClient[testpb.Order, testpb.Receipt](newClient(s.Env), s.serve(t)+rpctest.PayMethod, opts...)
}
