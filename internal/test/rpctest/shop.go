package rpctest

import (
	"context"
	"errors"
	"io"

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

// The methods of testpb.ShopServer.
const (
	ShopService   = "/lockmwtest.v1.Shop/"
	PayMethod     = ShopService + "Pay"
	WatchMethod   = ShopService + "Watch"
	CollectMethod = ShopService + "Collect"
	ChatMethod    = ShopService + "Chat"
	RefundMethod  = ShopService + "Refund"
)

// ruled returns one rule for all of the shop's methods.
func ruled(template string, change ...func(*lockmw.Policy)) grpclock.Rules {
	p := lockmw.Policy{Prefix: prefix}
	for _, c := range change {
		c(&p)
	}
	return grpclock.Rules{ShopService + "*": {Key: keyfunc.MustParse(template), Policy: p}}
}

// usual locks all methods by the order, with a policy that may be changed.
func usual(change ...func(*lockmw.Policy)) grpclock.Rules {
	return ruled("order:{body.order_id}", change...)
}

// byTenant locks all methods by metadata; the key is the same as usual.
func byTenant(change ...func(*lockmw.Policy)) grpclock.Rules {
	return ruled("order:{header.x-order}", change...)
}

func patient(p *lockmw.Policy) { p.Wait = testenv.Patience }

type (
	watching   = grpc.ServerStreamingServer[testpb.Receipt]
	collecting = grpc.ClientStreamingServer[testpb.Order, testpb.Receipt]
	chatting   = grpc.BidiStreamingServer[testpb.Order, testpb.Receipt]
)

// A shop is a service. What it is not given it does by answering each message.
type shop struct {
	testpb.UnimplementedShopServer
	e *env

	rules   grpclock.Rules
	options Options
	around  Around

	once        grpclock.IdempotentRules // nil: calls are not answered once
	onceOptions Options

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

// Refund does what Pay does.
func (s *shop) Refund(ctx context.Context, order *testpb.Order) (*testpb.Receipt, error) {
	return s.Pay(ctx, order)
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

// service is what s is served as.
func (e *env) service(s *shop) Service {
	s.e = e
	if s.rules == nil {
		s.rules = usual()
	}
	return Service{
		Locks: e.Locks, Rules: e.fault.rules(s.rules), Options: e.fault.options(s.options),
		Shop: s, Around: s.around, Fault: e.fault,
		Once: e.fault.onceRules(s.once), OnceOptions: e.fault.onceOptions(s.onceOptions),
	}
}

// serve starts a server, and a client.
func (e *env) serve(s *shop) {
	e.Helper()
	e.conn = e.fw.Serve(e.Env, e.service(s))
	e.shop = testpb.NewShopClient(e.conn)
}

// Order returns the usual order.
func Order() *testpb.Order { return &testpb.Order{OrderId: id} }

// context returns a call's context, with metadata that name the usual order.
func (e *env) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), "x-order", id), e.Patience)
}

// pay calls the unary method.
func (e *env) pay() Answer { return e.payFor(Order()) }

func (e *env) payFor(order *testpb.Order) Answer {
	ctx, cancel := e.context()
	defer cancel()
	return e.payWith(ctx, order)
}

func (e *env) payWith(ctx context.Context, order *testpb.Order) Answer {
	return e.invoke(ctx, e.shop.Pay, order)
}

// invoke calls a unary method.
func (e *env) invoke(ctx context.Context, method unary, order *testpb.Order) Answer {
	var a Answer
	reply, err := method(ctx, order, grpc.Header(&a.Header), grpc.Trailer(&a.Trailer))
	a.Status, a.Text = status.Convert(err), reply.GetText()
	return a
}

// A unary is a unary method of a client.
type unary = func(ctx context.Context, order *testpb.Order, opts ...grpc.CallOption) (*testpb.Receipt, error)

// background calls the unary method and returns where its answer will come.
func (e *env) background(ctx context.Context) <-chan Answer {
	answers := make(chan Answer, 1)
	go func() { answers <- e.payWith(ctx, Order()) }() // ends with the server at the latest
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
func (e *env) finish(s grpc.ClientStream) (a Answer, texts []string) {
	e.Helper()
	_ = s.CloseSend()
	for {
		var r testpb.Receipt
		err := s.RecvMsg(&r)
		if err == nil {
			texts = append(texts, r.GetText())
			continue
		}
		a.Status = status.New(codes.OK, "")
		if !errors.Is(err, io.EOF) {
			a.Status = status.Convert(err)
		}
		a.Header, _ = s.Header()
		a.Trailer = s.Trailer()
		return a, texts
	}
}

// streamed opens a stream of the usual order and reads it to its end.
func (e *env) streamed(method string) (Answer, []string) {
	e.Helper()
	s, cancel := e.open(method, Order())
	defer cancel()
	return e.finish(s)
}

// streamedWith does so in a context.
func (e *env) streamedWith(ctx context.Context, method string) (Answer, []string) {
	e.Helper()
	return e.finish(e.openWith(ctx, method, Order()))
}

// streams are the streaming methods.
var streams = []string{WatchMethod, CollectMethod, ChatMethod}
