package grpclock_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// newLocker opens a Locker that is asked for nothing.
func newLocker(tb testing.TB) *lockmw.Locker {
	tb.Helper()
	l, _ := testenv.Locker(tb)
	return l
}

// A reading is what a key function reads of a field.
type reading struct {
	text string
	ok   bool
	err  error
}

// call hands a message to the interceptor of a rule whose function reads a
// field in the call, and at start-up, too, if it is to be found there.
func read(t *testing.T, method, path string, atStart bool, message any) (got reading) {
	t.Helper()
	key := func(r keyfunc.Request) (string, error) {
		if _, called := metadata.FromIncomingContext(r.Context()); called || atStart {
			got.text, got.ok, got.err = r.Body(path)
		}
		return "", keyfunc.Skip
	}
	interceptor := grpclock.UnaryServerInterceptor(newLocker(t), grpclock.Rules{method: {Key: key}})
	call(t, interceptor, method, message)
	return got
}

func call(tb testing.TB, interceptor grpc.UnaryServerInterceptor, method string, message any) {
	tb.Helper()
	ctx := metadata.NewIncomingContext(context.Background(), metadata.MD{})
	_, err := interceptor(ctx, message, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) { return nil, nil })
	if err != nil {
		tb.Fatal(err)
	}
}

func TestFieldsHaveTheirText(t *testing.T) {
	set := &testpb.Order{
		OrderId: "a:b", Raw: []byte{0, 255}, Express: true, State: testpb.State_PAID,
		I32: math.MinInt32, I64: math.MinInt64, S32: -1, S64: math.MinInt64, Sf32: -2, Sf64: math.MaxInt64,
		U32: math.MaxUint32, U64: math.MaxUint64, F32: math.MaxUint32, F64: math.MaxUint64,
		Amount: proto.Int32(0), Way: &testpb.Order_Voucher{Voucher: 0}, Renamed: "r",
		Customer: &testpb.Customer{Id: "ann", Parent: &testpb.Customer{}},
	}
	unknown := &testpb.Order{State: 7}
	for _, tc := range []struct {
		order *testpb.Order
		path  string
		want  string
		isSet bool
	}{
		{set, "order_id", "a:b", true},
		{set, "orderId", "a:b", true},
		{set, "raw", "\x00\xff", true},
		{set, "express", "true", true},
		{set, "state", "1", true},
		{unknown, "state", "7", true},
		{set, "i32", "-2147483648", true},
		{set, "i64", "-9223372036854775808", true},
		{set, "s32", "-1", true},
		{set, "s64", "-9223372036854775808", true},
		{set, "sf32", "-2", true},
		{set, "sf64", "9223372036854775807", true},
		{set, "u32", "4294967295", true},
		{set, "u64", "18446744073709551615", true},
		{set, "f32", "4294967295", true},
		{set, "f64", "18446744073709551615", true},
		{set, "amount", "0", true},
		{set, "voucher", "0", true},
		{set, "card", "", false},
		{set, "renamed", "r", true},
		{set, "newName", "r", true},
		{set, "customer.id", "ann", true},
		{set, "customer.parent.id", "", true},
		{set, "customer.parent.parent.id", "", false},
		// What a handler sees of fields that were not sent.
		{unknown, "order_id", "", true},
		{unknown, "raw", "", true},
		{unknown, "express", "false", true},
		{unknown, "i64", "0", true},
		{unknown, "u64", "0", true},
		{unknown, "amount", "", false},
		{unknown, "voucher", "", false},
		{unknown, "customer.id", "", false},
		{nil, "i64", "0", true},
		{nil, "customer.id", "", false},
	} {
		want := reading{tc.want, tc.isSet, nil}
		for _, atStart := range []bool{true, false} {
			if got := read(t, payMethod, tc.path, atStart, tc.order); got != want {
				t.Errorf("%s, found at start-up %v: %+v, want %+v", tc.path, atStart, got, want)
			}
		}
	}
}

// A handler that calls the getters sees 0 in all these messages. A template that
// wants one key for them says so.
func TestMissingNumberIsOneKeyWithZero(t *testing.T) {
	zero := &testpb.Order{Amount: proto.Int32(0), Customer: &testpb.Customer{}, Way: &testpb.Order_Voucher{Voucher: 0}}
	for _, tc := range []struct{ template, missing, zero string }{
		{"{body.i32}", "0", "0"},
		{"p:{body.i32?}", "p:0", "p:0"},
		{"p:{body.amount?}", "p:", "p:0"},
		{"p:{body.amount?|int}", "p:0", "p:0"},
		{"p:{body.voucher?|int}", "p:0", "p:0"},
		{"p:{body.customer.id?}", "p:", "p:"},
	} {
		template := keyfunc.MustParse(tc.template)
		for order, want := range map[*testpb.Order]string{{}: tc.missing, zero: tc.zero} {
			var got string
			key := func(r keyfunc.Request) (string, error) {
				var err error
				if got, err = template(r); err != nil {
					t.Errorf("%s: %v", tc.template, err)
				}
				return "", keyfunc.Skip
			}
			call(t, grpclock.UnaryServerInterceptor(newLocker(t), grpclock.Rules{payMethod: {Key: key}}), payMethod, order)
			if order.GetAmount() != 0 || order.GetVoucher() != 0 || order.GetI32() != 0 {
				t.Error("the handler does not see 0")
			}
			if got != want {
				t.Errorf("%s of {%v}: key = %q, want %q", tc.template, order, got, want)
			}
		}
	}
}

// A legacy message is one of the first API for Go.
type legacy struct {
	OrderID string `protobuf:"bytes,1,opt,name=order_id,json=orderId,proto3"`
}

func (*legacy) Reset()         {}
func (*legacy) String() string { return "" }
func (*legacy) ProtoMessage()  {}

var _ protoadapt.MessageV1 = (*legacy)(nil)

func TestFieldsOfOtherMessagesAreFound(t *testing.T) {
	of := new(testpb.Order).ProtoReflect().Descriptor()
	dynamic := dynamicpb.NewMessage(of)
	dynamic.Set(of.Fields().ByName("order_id"), of.Fields().ByName("order_id").Default())
	bytes, err := proto.Marshal(&testpb.Order{OrderId: "7", Customer: &testpb.Customer{Id: "ann"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(bytes, dynamic); err != nil {
		t.Fatal(err)
	}
	for _, atStart := range []bool{true, false} {
		for message, method := range map[any]string{
			dynamic:                     payMethod,
			&legacy{OrderID: "7"}:       payMethod,
			&testpb.Order{OrderId: "7"}: "/elsewhere.FieldsOfOtherMessages/Pay",
		} {
			if got := read(t, method, "order_id", atStart, message); got.text != "7" || got.err != nil {
				t.Errorf("%T of %s: %+v, want 7", message, method, got)
			}
		}
		if got := read(t, payMethod, "customer.id", atStart, dynamic); got.text != "ann" || got.err != nil {
			t.Errorf("nested in a dynamic message: %+v, want ann", got)
		}
	}
}

func TestFieldsThatCannotBeReadAreErrors(t *testing.T) {
	for _, tc := range []struct {
		path    string
		message any
		want    string
	}{
		{"nothing", &testpb.Order{}, `has no field "nothing"`},
		{"", &testpb.Order{}, `has no field ""`},
		{"customer.", &testpb.Order{}, `has no field ""`},
		{"price", &testpb.Order{}, "is a double"},
		{"items.x", &testpb.Order{}, "is not one message"},
		{"order_id", "a string", "is a string and no proto.Message"},
		{"order_id", nil, "has not come yet"},
	} {
		if got := read(t, payMethod, tc.path, false, tc.message); got.err == nil || !strings.Contains(got.err.Error(), tc.want) {
			t.Errorf("%q of a %T: %v, want … %s", tc.path, tc.message, got.err, tc.want)
		}
	}
}

func TestProbeSurvivesWhatFunctionsDo(t *testing.T) {
	for name, key := range map[string]keyfunc.Func{
		"panics":        func(keyfunc.Request) (string, error) { panic("not yet") },
		"fails":         func(keyfunc.Request) (string, error) { return "", errors.New("not yet") },
		"has no answer": func(r keyfunc.Request) (string, error) { r.Query("q"); r.Header("h"); return "", keyfunc.ErrMissing },
		"asks in vain":  keyfunc.MustParse("{param.a?}{query.b?}:{header.d|int}{header.e|uuid}{header.f|lower|hash}"),
		"skips":         func(keyfunc.Request) (string, error) { return "", keyfunc.Skip },
		"asks for all": func(r keyfunc.Request) (string, error) {
			_, _ = r.Context().Value(tenantKey{}).(string)
			return r.Method() + r.Route(), nil
		},
	} {
		if got := rpctest.PanicOf(func() {
			grpclock.UnaryServerInterceptor(newLocker(t), grpclock.Rules{payMethod: {Key: key}})
		}); got != "" {
			t.Errorf("%s: panic %q", name, got)
		}
	}
}
