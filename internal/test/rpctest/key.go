package rpctest

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func requestWithoutAKeyIsRefused(e *env) {
	long := strings.Repeat("x", 9<<10)
	for _, tc := range []struct {
		name     string
		key      keyfunc.Func
		template string
		order    *testpb.Order
		metadata []string
		field    string
		wrong    string // empty: that it is missing
	}{
		{name: "missing field", template: "{body.order_id}", order: &testpb.Order{}, field: "order_id"},
		{name: "no message on the way", template: "{body.customer.id}", order: &testpb.Order{}, field: "customer.id"},
		{name: "empty field on the way", template: "{body.customer.id}", order: &testpb.Order{Customer: &testpb.Customer{}}, field: "customer.id"},
		{name: "empty bytes", template: "{body.raw}", order: &testpb.Order{}, field: "raw"},
		{name: "unset optional", template: "{body.amount}", order: &testpb.Order{}, field: "amount"},
		{name: "another of the oneof", template: "{body.voucher}", order: &testpb.Order{Way: &testpb.Order_Card{Card: "1"}}, field: "voucher"},
		{name: "no number", template: "{body.order_id|int}", order: &testpb.Order{OrderId: "7a"}, field: "order_id", wrong: "is not an integer"},
		{name: "no UUID", template: "{body.order_id|uuid}", order: &testpb.Order{OrderId: "7"}, field: "order_id", wrong: "is not a UUID"},
		{name: "long field", template: "{body.order_id}", order: &testpb.Order{OrderId: long}, field: "order_id", wrong: "is longer than 8 KiB"},
		{name: "no metadata", template: "{header.x-user}", order: &testpb.Order{}, field: "x-user"},
		{name: "empty metadata", template: "{header.x-user}", order: &testpb.Order{}, metadata: []string{"x-user", ""}, field: "x-user"},
		{name: "no such field", order: &testpb.Order{}, key: sometimes("nothing"), field: "nothing", wrong: "cannot be used"},
		{name: "float", order: &testpb.Order{}, key: sometimes("weight"), field: "weight", wrong: "cannot be used"},
		{name: "braces", order: &testpb.Order{}, key: func(keyfunc.Request) (string, error) { return "{" + id + "}", nil }},
	} {
		if tc.key == nil {
			tc.key = keyfunc.MustParse(tc.template)
		}
		e.serve(&shop{rules: grpclock.Rules{PayMethod: {Key: tc.key, Policy: lockmw.Policy{Prefix: prefix}}}})
		ctx, cancel := e.context()
		a := e.payWith(metadata.AppendToOutgoingContext(ctx, tc.metadata...), tc.order)
		cancel()
		if a.Status.Code() != codes.InvalidArgument {
			e.Errorf("%s: %v", tc.name, a.Status)
		}
		e.wantRefusal(a, codes.InvalidArgument, "LOCK_KEY_INVALID")
		called := "body field"
		if strings.Contains(tc.template, "header") {
			called = "header"
		}
		e.wantField(a, called, tc.field, cmp.Or(tc.wrong, "is missing"))
	}
	e.WantRuns(0)
	e.WantUnasked()
}

// sometimes returns a function that reads a field in calls only, not when it
// is asked at start-up what it reads.
func sometimes(path string) keyfunc.Func {
	body := keyfunc.Body(path)
	return func(r keyfunc.Request) (string, error) {
		if _, called := metadata.FromIncomingContext(r.Context()); !called {
			panic("no metadata: this is no call")
		}
		return body(r)
	}
}

func keySeesWhatTheHandlerSees(e *env) {
	type view struct{ header, field, nested string }
	var inKey, inHandler view
	e.serve(&shop{
		rules: grpclock.Rules{PayMethod: {Key: func(r keyfunc.Request) (string, error) {
			inKey.header, _ = r.Header("X-User")
			inKey.field, _, _ = r.Body("order_id")
			inKey.nested, _, _ = r.Body("customer.id")
			return "spelling", nil
		}}},
		pay: func(ctx context.Context, o *testpb.Order) error {
			if values := metadata.ValueFromIncomingContext(ctx, "x-user"); len(values) > 0 {
				inHandler.header = values[0]
			}
			inHandler.field, inHandler.nested = o.GetOrderId(), o.GetCustomer().GetId()
			return nil
		},
	})
	texts := []string{"", "42", "042", " 42", "a:b", "a%3Ab", "{x}", "\u00e4", "a\u0308", "\x00\n", "\U0001F512"}
	for _, text := range texts {
		for _, user := range [][]string{nil, {""}, {"ann"}, {"ann", "ann"}, {" ann "}} {
			inKey, inHandler = view{}, view{}
			ctx, cancel := e.context()
			md := metadata.MD{"x-user": user}
			answer := e.payWith(metadata.NewOutgoingContext(ctx, md), &testpb.Order{OrderId: text, Customer: &testpb.Customer{Id: text}})
			cancel()
			if e.wantCode(answer, codes.OK); answer.Status.Code() != codes.OK {
				return // the call may run on, and write what is compared here
			}
			if inKey != inHandler {
				e.Errorf("the key saw %+q, the handler %+q", inKey, inHandler)
			}
		}
	}
}

// nameWithTwoValuesIsRefused: some handlers take the first value of a header, and some the last.
func nameWithTwoValuesIsRefused(e *env) {
	for _, tc := range []struct{ template, header, first, second string }{
		{"{header.x-user}", "x-user", "ann", "bob"},
		{"k{header.x-user?}", "x-user", "", "bob"},
		{"{header.data-bin}", "data-bin", "\x00", "\xff"},
	} {
		e.serve(&shop{rules: ruled(tc.template)})
		ctx, cancel := e.context()
		a := e.payWith(metadata.AppendToOutgoingContext(ctx, tc.header, tc.first, tc.header, tc.second), Order())
		cancel()
		e.wantRefusal(a, codes.InvalidArgument, lockmw.CodeKeyInvalid)
		e.wantField(a, "header", tc.header, "is there more than once")
	}
	e.WantRuns(0)
	e.WantUnasked()
}

func everySourceOfAKeyWorks(e *env) {
	for _, tc := range []struct{ template, want string }{
		{"{body.order_id}", id},
		{"{body.orderId}", id},
		{"{body.customer.id}", "ann"},
		{"{body.customer.parent.id}", "eve"},
		{"{body.renamed}", "r"},
		{"{body.newName}", "r"},
		{"{header.X-User}", "first"},
		{"{header.x-user|lower}", "first"},
		{"{header.data-bin}", "%00%FF"},
		{"{method}", PayMethod},
		{"{route}", PayMethod},
		{"{param.no?}-{query.no?}-{value.no?}-{body.card?}-{body.order_id}", "----" + id},
		{"{value.tenant}:{body.order_id}", "blue:" + id},
	} {
		var got atomic.Value // the handler may outlast its call, where a door is broken
		got.Store("")
		e.serve(&shop{rules: ruled(tc.template), options: tenantOf("x-tenant"), pay: func(ctx context.Context, _ *testpb.Order) error {
			lease, _ := lockmw.FromContext(ctx)
			got.Store(lease.Key())
			return nil
		}})
		ctx, cancel := e.context()
		ctx = metadata.AppendToOutgoingContext(ctx, "x-user", "first", "x-user", "first", "data-bin", "\x00\xff", "x-tenant", "blue")
		e.wantCode(e.payWith(ctx, &testpb.Order{
			OrderId: id, Renamed: "r", Customer: &testpb.Customer{Id: "ann", Parent: &testpb.Customer{Id: "eve"}},
		}), codes.OK)
		cancel()
		if got := got.Load(); got != prefix+tc.want {
			e.Errorf("%s: key = %q, want %q", tc.template, got, prefix+tc.want)
		}
	}
}

// severalKeysAreTakenTogether: keyfunc.All and keyfunc.Each.
func severalKeysAreTakenTogether(e *env) {
	order, customer := keyfunc.MustParse("order:{body.order_id}"), keyfunc.MustParse("customer:{body.customer.id}")
	e.takenTogether(keyfunc.All(order, customer), prefix+"order:"+id, prefix+"customer:ann")
	e.takenTogether(keyfunc.Each("body.items", keyfunc.MustParse("{body.items}:{method}")), prefix+"a%3Ab:"+PayMethod, prefix+"c:"+PayMethod)
	e.takenTogether(keyfunc.Each("body.guests", keyfunc.MustParse("{body.guests.parent.id}-{body.guests.id}")), prefix+"bob-ann", prefix+"bob-eve")
}

func (e *env) takenTogether(key keyfunc.Func, keys ...string) {
	e.Helper()
	rules := usual()
	rules[PayMethod] = grpclock.Rule{Key: key, Policy: lockmw.Policy{Prefix: prefix}}
	e.serve(&shop{rules: rules, pay: func(context.Context, *testpb.Order) error {
		for _, key := range keys {
			if e.Token(key) == "" {
				e.Errorf("%s is not locked while the handler runs", key)
			}
		}
		return nil
	}})
	pay := func(want codes.Code) {
		ctx, cancel := e.context()
		defer cancel()
		bob := &testpb.Customer{Id: "bob"}
		e.wantCode(e.payWith(ctx, &testpb.Order{
			OrderId: id, Customer: &testpb.Customer{Id: "ann"}, Items: []string{"a:b", "c", "c"},
			Guests: []*testpb.Customer{{Id: "ann", Parent: bob}, {Id: "eve", Parent: bob}},
		}), want)
	}
	pay(codes.OK)
	for _, key := range keys {
		lease := e.Take(key)
		pay(codes.Aborted)
		e.Release(lease)
	}
	e.WantFree()
	pay(codes.OK)
}

func skippedRequestTakesNoLock(e *env) {
	bySkip := usual()
	bySkip[PayMethod] = grpclock.Rule{Key: keyfunc.Join(keyfunc.Body("order_id"), func(keyfunc.Request) (string, error) {
		return "", fmt.Errorf("a guest: %w", keyfunc.Skip)
	})}
	unlocked := func(ctx context.Context, o *testpb.Order) error {
		if _, found := lockmw.FromContext(ctx); found {
			e.Error("a skipped call has a lease")
		}
		if o.GetOrderId() != id {
			e.Errorf("the handler's order is %v", o)
		}
		return nil
	}
	guest := Options{Skipper: func(ctx context.Context, method string) bool {
		return method == PayMethod && len(metadata.ValueFromIncomingContext(ctx, "x-guest")) > 0
	}}
	elsewhere := grpclock.Rules{WatchMethod: usual()[ShopService+"*"]}
	for _, s := range []*shop{{rules: bySkip}, {options: guest}, {rules: elsewhere}} {
		s.pay = unlocked
		e.serve(s)
		ctx, cancel := e.context()
		e.wantCode(e.payWith(metadata.AppendToOutgoingContext(ctx, "x-guest", "1"), Order()), codes.OK)
		cancel()
	}
	e.WantUnasked()
	e.serve(&shop{options: guest})
	e.hold()
	e.wantRefusal(e.pay(), codes.Aborted, "LOCK_BUSY")
	e.WantRuns(3)
}

func bodyReachesTheHandler(e *env) {
	want := &testpb.Order{
		OrderId: id, Customer: &testpb.Customer{Id: "ann"}, Raw: []byte{0, 255}, Items: []string{"a", "b"},
		Labels: map[string]string{"a": "b"}, Amount: proto.Int32(0), Price: 1.5,
	}
	same := func(got *testpb.Order) {
		if !proto.Equal(got, want) {
			e.Errorf("the handler's message is %v, want %v", got, want)
		}
	}
	e.serve(&shop{
		pay:   func(_ context.Context, o *testpb.Order) error { same(o); return nil },
		watch: func(o *testpb.Order, _ watching) error { same(o); return nil },
		collect: func(s collecting) error {
			for range 2 {
				o, err := s.Recv()
				if err != nil {
					return err
				}
				same(o)
				e.Ran.Add(1)
			}
			return s.SendAndClose(&testpb.Receipt{})
		},
	})
	e.wantCode(e.payFor(want), codes.OK)
	for method, orders := range map[string][]*testpb.Order{WatchMethod: {want}, CollectMethod: {want, want}} {
		s, cancel := e.open(method, orders...)
		a, _ := e.finish(s)
		cancel()
		e.wantCode(a, codes.OK)
	}
	e.WantRuns(4)
}

// wire sends and receives messages that are bytes already.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (wire) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = wire{}

// spellingsOfAFieldAreOneLock: a message may be written in many ways, and a
// client must not dodge the lock by one.
func spellingsOfAFieldAreOneLock(e *env) {
	rules := ruled("order:{body.i32}")
	e.serve(&shop{rules: rules})
	number, text := protowire.Number(6), protowire.Number(1)
	varint := func(b []byte, v ...byte) []byte {
		return append(protowire.AppendTag(b, number, protowire.VarintType), v...)
	}
	lease := e.Take(prefix + "order:7")
	for spelling, message := range map[string][]byte{
		"shortest":      varint(nil, 7),
		"padded":        varint(nil, 0x87, 0x80, 0),
		"twice":         varint(varint(nil, 8), 7),
		"64 bits":       varint(nil, 0x87, 0x80, 0x80, 0x80, 0x10),
		"after another": varint(protowire.AppendString(protowire.AppendTag(nil, text, protowire.BytesType), "x"), 7),
		"after unknown": varint(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1), 7),
	} {
		ctx, cancel := e.context()
		var reply []byte
		err := e.conn.Invoke(ctx, PayMethod, message, &reply, grpc.ForceCodecV2(wire{}))
		cancel()
		if status.Code(err) != codes.Aborted {
			e.Errorf("%s: %v, want %v", spelling, err, codes.Aborted)
		}
	}
	e.wantCode(e.payFor(&testpb.Order{I32: 8}), codes.OK)
	e.Release(lease)
	e.wantCode(e.payFor(&testpb.Order{I32: 7}), codes.OK)
	e.WantRuns(2)
}
