package grpclock_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/grpclock/internal/testpb"
	"github.com/lockmw/kit/internal/rig"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

const (
	shopService   = "/lockmwtest.v1.Shop/"
	payMethod     = shopService + "Pay"
	watchMethod   = shopService + "Watch"
	collectMethod = shopService + "Collect"
	chatMethod    = shopService + "Chat"
)

// doors make the interceptors that a case looks at.
type doors struct {
	unary  func(*lockmw.Locker, grpclock.Rules, options) grpc.UnaryServerInterceptor
	stream func(*lockmw.Locker, grpclock.Rules, options) grpc.StreamServerInterceptor
}

// options are the door's options. Zero means that the option is not given.
type options struct {
	errorHandler func(ctx context.Context, method string, err error) error
	skipper      func(ctx context.Context, method string) bool
	logger       *slog.Logger
	more         []grpclock.Option
}

func (o options) list() []grpclock.Option {
	opts := o.more
	if o.errorHandler != nil {
		opts = append(opts, grpclock.WithErrorHandler(o.errorHandler))
	}
	if o.skipper != nil {
		opts = append(opts, grpclock.WithSkipper(o.skipper))
	}
	if o.logger != nil {
		opts = append(opts, grpclock.WithLogger(o.logger))
	}
	return opts
}

// sound are grpclock's.
var sound = doors{
	unary: func(l *lockmw.Locker, r grpclock.Rules, o options) grpc.UnaryServerInterceptor {
		return grpclock.UnaryServerInterceptor(l, r, o.list()...)
	},
	stream: func(l *lockmw.Locker, r grpclock.Rules, o options) grpc.StreamServerInterceptor {
		return grpclock.StreamServerInterceptor(l, r, o.list()...)
	},
}

// ruled returns one rule for all of the shop's methods.
func ruled(template string, change ...func(*lockmw.Policy)) grpclock.Rules {
	p := lockmw.Policy{Prefix: prefix}
	for _, c := range change {
		c(&p)
	}
	return grpclock.Rules{shopService + "*": {Key: keyfunc.MustParse(template), Policy: p}}
}

// usual locks all methods by the order, with a policy that may be changed.
func usual(change ...func(*lockmw.Policy)) grpclock.Rules {
	return ruled("order:{body.order_id}", change...)
}

// byTenant locks all methods by metadata; the key is the same as usual.
func byTenant(change ...func(*lockmw.Policy)) grpclock.Rules {
	return ruled("order:{header.x-order}", change...)
}

func patient(p *lockmw.Policy) { p.Wait = rig.Patience }

type (
	watching   = grpc.ServerStreamingServer[testpb.Receipt]
	collecting = grpc.ClientStreamingServer[testpb.Order, testpb.Receipt]
	chatting   = grpc.BidiStreamingServer[testpb.Order, testpb.Receipt]
)

// A shop is a service. What it is not given it does by answering each message.
type shop struct {
	testpb.UnimplementedShopServer
	e *env

	rules grpclock.Rules
	options
	around []grpc.ServerOption // interceptors outside of the door

	pay     func(ctx context.Context, order *testpb.Order) error
	watch   func(order *testpb.Order, s watching) error
	collect func(s collecting) error
	chat    func(s chatting) error
}

func (s *shop) Pay(ctx context.Context, order *testpb.Order) (*testpb.Receipt, error) {
	s.e.Ran.Add(1)
	if s.pay != nil {
		if err := s.pay(ctx, order); err != nil {
			return nil, err
		}
	}
	return &testpb.Receipt{Text: order.GetOrderId()}, nil
}

func (s *shop) Watch(order *testpb.Order, stream watching) error {
	s.e.Ran.Add(1)
	if s.watch != nil {
		return s.watch(order, stream)
	}
	return stream.Send(&testpb.Receipt{Text: order.GetOrderId()})
}

func (s *shop) Collect(stream collecting) error {
	if s.collect != nil {
		return s.collect(stream)
	}
	text := ""
	for {
		order, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testpb.Receipt{Text: text})
		}
		if err != nil {
			return err
		}
		s.e.Ran.Add(1)
		text += order.GetOrderId()
	}
}

func (s *shop) Chat(stream chatting) error {
	if s.chat != nil {
		return s.chat(stream)
	}
	for {
		order, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.e.Ran.Add(1)
		if err := stream.Send(&testpb.Receipt{Text: order.GetOrderId()}); err != nil {
			return err
		}
	}
}

// A remote is the client's side.
type remote struct {
	conn *grpc.ClientConn
	shop testpb.ShopClient
}

// serve starts a server on loopback, and a client.
func (e *env) serve(s *shop) {
	e.Helper()
	s.e = e
	if s.rules == nil {
		s.rules = usual()
	}
	opts := slices.Concat(s.around, []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(e.unary(e.Locks, s.rules, s.options)),
		grpc.ChainStreamInterceptor(e.stream(e.Locks, s.rules, s.options)),
		grpc.WaitForHandlers(true),
	})
	server, locks := grpc.NewServer(opts...), e.Locks
	testpb.RegisterShopServer(server, s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		e.Fatal(err)
	}
	e.remote = remote{conn: conn, shop: testpb.NewShopClient(conn)}
	e.Cleanup(func() {
		e.CloseNow(locks) // the server waits for handlers, and they may wait for a lock
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			e.Errorf("serve: %v", err)
		}
	})
}

// The usual order, and the metadata that name it.
func order() *testpb.Order { return &testpb.Order{OrderId: id} }

func (e *env) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), "x-order", id), e.Patience)
}

// pay calls the unary method.
func (e *env) pay() answer { return e.payFor(order()) }

func (e *env) payFor(order *testpb.Order) answer {
	ctx, cancel := e.context()
	defer cancel()
	return e.payWith(ctx, order)
}

func (e *env) payWith(ctx context.Context, order *testpb.Order) answer {
	var a answer
	_, err := e.remote.shop.Pay(ctx, order, grpc.Header(&a.header), grpc.Trailer(&a.trailer))
	a.status = status.Convert(err)
	return a
}

// background calls the unary method and returns where its answer will come.
func (e *env) background(ctx context.Context) <-chan answer {
	answers := make(chan answer, 1)
	go func() { answers <- e.payWith(ctx, order()) }() // ends with the server at the latest
	return answers
}

// open opens a stream that it sends orders to, and then no more.
func (e *env) open(method string, orders ...*testpb.Order) (grpc.ClientStream, context.CancelFunc) {
	e.Helper()
	ctx, cancel := e.context()
	return e.openWith(ctx, method, orders...), cancel
}

func (e *env) openWith(ctx context.Context, method string, orders ...*testpb.Order) grpc.ClientStream {
	e.Helper()
	s, err := e.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		e.Fatal(err)
	}
	for _, order := range orders {
		if err := s.SendMsg(order); err != nil && !errors.Is(err, io.EOF) { // EOF: it has ended
			e.Fatal(err)
		}
	}
	return s
}

// finish reads a stream to its end, and returns that and the texts.
func (e *env) finish(s grpc.ClientStream) (a answer, texts []string) {
	e.Helper()
	_ = s.CloseSend()
	for {
		var r testpb.Receipt
		err := s.RecvMsg(&r)
		if err == nil {
			texts = append(texts, r.GetText())
			continue
		}
		a.status = status.New(codes.OK, "")
		if !errors.Is(err, io.EOF) {
			a.status = status.Convert(err)
		}
		a.header, _ = s.Header()
		a.trailer = s.Trailer()
		return a, texts
	}
}

// streamed opens a stream of the usual order and reads it to its end.
func (e *env) streamed(method string) (answer, []string) {
	e.Helper()
	s, cancel := e.open(method, order())
	defer cancel()
	return e.finish(s)
}

// streamedWith does so in a context.
func (e *env) streamedWith(ctx context.Context, method string) (answer, []string) {
	e.Helper()
	return e.finish(e.openWith(ctx, method, order()))
}

// streams are the streaming methods.
var streams = []string{watchMethod, collectMethod, chatMethod}
