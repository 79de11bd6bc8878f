package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/examples/grpc/shopv1"
)

var errUsage = errors.New("usage: grpc [-addr host:port] [pay ORDER | pack ORDER]")

// ask calls the shop at addr, and prints what it says.
func ask(ctx context.Context, addr string, args []string, out io.Writer) error {
	if len(args) != 2 {
		return errUsage
	}
	id, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return errUsage
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := shopv1.NewOrdersClient(conn)
	switch args[0] {
	case "pay":
		reply, err := client.Pay(ctx, &shopv1.PayRequest{OrderId: id})
		if err != nil {
			return explained(err)
		}
		fmt.Fprintln(out, reply.GetText())
		return nil
	case "pack":
		return pack(ctx, client, id, out)
	}
	return errUsage
}

func pack(ctx context.Context, client shopv1.OrdersClient, id int64, out io.Writer) error {
	stream, err := client.Pack(ctx, &shopv1.PackRequest{OrderId: id})
	if err != nil {
		return explained(err)
	}
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return explained(err)
		}
		fmt.Fprintln(out, reply.GetText())
	}
}

// explained adds what a refusal says to programs: the reason, and when to come
// back.
func explained(err error) error {
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			err = fmt.Errorf("%w\nreason: %s", err, detail.GetReason())
		case *errdetails.RetryInfo:
			err = fmt.Errorf("%w\nretry after: %v", err, detail.GetRetryDelay().AsDuration())
		}
	}
	return err
}
