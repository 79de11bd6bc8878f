package door

import (
	"context"
	"errors"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/grpclock"
)

// overGRPC is a door for gRPC calls, over one connection.
type overGRPC struct {
	locks  *locks
	server *grpc.Server
	served chan error
	conn   *grpc.ClientConn
	orders shopv1.OrdersClient
}

type payments struct {
	shopv1.UnimplementedOrdersServer
}

func (payments) Pay(context.Context, *shopv1.PayRequest) (*shopv1.PayReply, error) {
	return &shopv1.PayReply{Text: paid}, nil
}

func serveGRPC(l *locks) (Door, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	var options []grpc.ServerOption
	if l.locks != nil {
		rules := grpclock.Rules{shopv1.Orders_Pay_FullMethodName: {Key: bodyKey, Policy: l.policy}}
		options = append(options, grpc.ChainUnaryInterceptor(grpclock.UnaryServerInterceptor(l.locks, rules)))
	}
	d := &overGRPC{
		locks:  l,
		server: grpc.NewServer(options...),
		served: make(chan error, 1), // the one goroutine that serves
		conn:   conn,
		orders: shopv1.NewOrdersClient(conn),
	}
	shopv1.RegisterOrdersServer(d.server, payments{})
	go func() { d.served <- d.server.Serve(listener) }()
	return d, nil
}

func (d *overGRPC) Request(ctx context.Context, order string) error {
	id, err := strconv.ParseInt(order, 10, 64)
	if err != nil {
		return err
	}
	_, err = d.orders.Pay(ctx, &shopv1.PayRequest{OrderId: id})
	return err
}

func (d *overGRPC) Close() error {
	err := d.conn.Close()
	d.server.GracefulStop()
	return errors.Join(err, <-d.served, d.locks.Close())
}
