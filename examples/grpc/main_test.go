package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/examples/grpc/shopv1"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// open starts the shop and returns its address.
func open(t *testing.T) string {
	t.Helper()
	t.Setenv("REDIS_ADDR", "")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func TestPaymentsOfOneOrderTakeTurns(t *testing.T) {
	slow.Test(t)
	addr := open(t)
	texts := make([]string, 2)
	var all sync.WaitGroup
	for i := range texts {
		all.Go(func() {
			var out strings.Builder
			if err := run(t.Context(), addr, []string{"pay", "42"}, &out); err != nil {
				t.Error(err)
			}
			texts[i] = out.String()
		})
	}
	all.Wait()
	slices.Sort(texts)
	if texts[0] == texts[1] || !strings.HasPrefix(texts[0], "order 42 is paid (fence ") || !strings.HasPrefix(texts[1], "order 42 is paid (fence ") {
		t.Errorf("the shop says %q, want two payments with different fences", texts)
	}
}

func TestOrderIsPackedByOne(t *testing.T) {
	slow.Test(t)
	addr := open(t)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	first, err := shopv1.NewOrdersClient(conn).Pack(t.Context(), &shopv1.PackRequest{OrderId: 42})
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := first.Recv(); err != nil || reply.GetText() != "order 42 is picked" {
		t.Fatalf("the shop says %v, %v", reply, err)
	}
	var out strings.Builder
	err = run(t.Context(), addr, []string{"pack", "42"}, &out)
	if status.Code(err) != codes.Aborted || !strings.Contains(fmt.Sprint(err), "reason: LOCK_BUSY\nretry after: ") || out.String() != "" {
		t.Errorf("a second one is told %q, %v; want the reason and when to retry", out.String(), err)
	}
	if err := run(t.Context(), addr, []string{"pack", "43"}, &out); err != nil || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("another order is packed: %q, %v; want three lines", out.String(), err)
	}
}

func TestNonsenseIsNotSent(t *testing.T) {
	for _, args := range [][]string{{"pay"}, {"pay", "x"}, {"steal", "42"}, {"pay", "42", "43"}} {
		if err := run(t.Context(), "localhost:1", args, new(strings.Builder)); err == nil || !strings.HasPrefix(err.Error(), "usage: ") {
			t.Errorf("%q: %v, want how to use it", args, err)
		}
	}
}
