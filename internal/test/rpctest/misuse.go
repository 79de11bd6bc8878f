package rpctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// tenantOf has the value "tenant" be the metadata of that name.
func tenantOf(header string) Options {
	return Options{Values: func(ctx context.Context, name string) (any, bool) {
		values := metadata.ValueFromIncomingContext(ctx, header)
		if name != "tenant" || len(values) == 0 {
			return nil, false
		}
		return values[0], true
	}}
}

// fromBoth makes a key of both that a call has: metadata and the message.
func fromBoth(ctx context.Context, req any) (string, error) {
	users := metadata.ValueFromIncomingContext(ctx, "x-user")
	order, ok := req.(*testpb.Order)
	if !ok || len(users) == 0 {
		return "", fmt.Errorf("no user, or a %T", req)
	}
	return users[0] + ":" + order.GetOrderId(), nil
}

func nativeKeyWorks(e *env) {
	for _, native := range []func(func(context.Context, any) (string, error)) keyfunc.Func{grpclock.Key, e.fw.Key} { // of either
		e.nativeKeyWorks(keyfunc.Join(keyfunc.Const("order"), native(fromBoth)))
	}
}

func (e *env) nativeKeyWorks(key keyfunc.Func) {
	e.Helper()
	rules := grpclock.Rules{ShopService + "*": {Key: key, Policy: lockmw.Policy{Prefix: prefix}}}
	want := prefix + "order:ann%3A" + id
	held := func() {
		if e.Token(want) == "" {
			e.Errorf("%s is not locked while the handler runs", want)
		}
	}
	e.serve(&shop{
		rules: rules,
		pay:   func(context.Context, *testpb.Order) error { held(); return nil },
		watch: func(*testpb.Order, watching) error { held(); return nil },
		collect: func(s collecting) error {
			_, err := s.Recv()
			held()
			return errors.Join(err, s.SendAndClose(&testpb.Receipt{}))
		},
		chat: func(s chatting) error {
			_, err := s.Recv()
			held()
			return err
		},
	})
	ctx, cancel := e.context()
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "x-user", "ann")
	e.wantCode(e.payWith(ctx, Order()), codes.OK)
	for _, method := range streams {
		a, _ := e.streamedWith(ctx, method)
		e.wantCode(a, codes.OK)
	}
	e.wantRefusal(e.pay(), codes.InvalidArgument, lockmw.CodeKeyInvalid) // no user
}

func nativeKeyIsEscaped(e *env) {
	var got string
	var told error
	key := e.fw.Key(func(_ context.Context, req any) (string, error) { return req.(*testpb.Order).GetOrderId(), nil })
	e.serve(&shop{
		rules: grpclock.Rules{PayMethod: {Key: key, Policy: lockmw.Policy{Prefix: prefix}}},
		pay: func(ctx context.Context, _ *testpb.Order) error {
			lease, _ := lockmw.FromContext(ctx)
			got = lease.Key()
			return nil
		},
		options: Options{ErrorHandler: func(_ context.Context, _ string, err error) error {
			told = err
			return nil
		}},
	})
	for text, want := range map[string]string{
		"order:7":                 "order:7",
		"{a}%\n":                  "%7Ba%7D%25%0A",
		strings.Repeat("a", 1000): strings.Repeat("a", 140) + "#41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3",
	} {
		e.wantCode(e.payFor(&testpb.Order{OrderId: text}), codes.OK)
		if got != prefix+want {
			e.Errorf("key = %q, want %q", got, prefix+want)
		}
	}
	e.wantRefusal(e.payFor(&testpb.Order{}), codes.InvalidArgument, lockmw.CodeKeyInvalid)
	if name := e.fw.Package + ".Key"; !errors.Is(told, keyfunc.ErrMissing) || !strings.HasSuffix(told.Error(), ": "+name) {
		e.Errorf("the error handler is told %v, want %v of %s", told, keyfunc.ErrMissing, name)
	}
}

// nativeKeyOfAnotherDoorIsRefused: that of net/http in a call, and the door's own in
// what is no view of a call.
func nativeKeyOfAnotherDoorIsRefused(e *env) {
	ofHTTP := httplock.Key(func(*http.Request) (string, error) { return "", errors.New("called without a request") })
	own := e.fw.Key(func(context.Context, any) (string, error) { return "", errors.New("called without a call") })
	for name, key := range map[string]keyfunc.Func{
		"httplock.Key":        ofHTTP,
		e.fw.Package + ".Key": func(r keyfunc.Request) (string, error) { return own(struct{ keyfunc.Request }{r}) },
	} {
		var told error
		e.serve(&shop{
			rules: grpclock.Rules{PayMethod: {Key: key, Policy: lockmw.Policy{Prefix: prefix}}},
			options: Options{ErrorHandler: func(_ context.Context, _ string, err error) error {
				told = err
				return nil
			}},
		})
		e.wantRefusal(e.pay(), codes.Internal, lockmw.CodeMisuse)
		want := `keyfunc: mistake of the program: a function from ` + name + ` is used in the middleware of another package`
		if told == nil || !strings.HasSuffix(told.Error(), want) {
			e.Errorf("the error handler is told %v, want … %s", told, want)
		}
	}
	e.WantRuns(0)
	e.WantUnasked()
}

// mistakeOfTheProgramIsTold: what a developer wrote in a function that only some calls
// make fail, so that it is not noticed at the start. The client is told that it is not
// its fault, the log once for each method what is wrong, and observers each time.
func mistakeOfTheProgramIsTold(e *env) {
	for _, tc := range []struct {
		wrote string
		key   keyfunc.Func
		says  string // of a method
	}{
		{"a route parameter", keyfunc.Param("id"), `keyfunc: required value is missing or empty: param "id": route "METHOD" has no such parameter; it has none`},
		{"the route's parameters", keyfunc.MustParse("{params}"), `keyfunc: required value is missing or empty: params: route "METHOD" has no parameters`},
		{"a value without WithValues", keyfunc.Value("tenant"), `keyfunc: mistake of the program: its Key reads the value "tenant", and a context does not tell values by name: add PACKAGE.WithValues(func(ctx context.Context, name string) (any, bool) { … })`},
		{"an optional value without WithValues", keyfunc.MustParse("{value.tenant?}:{body.order_id}"), `keyfunc: mistake of the program: its Key reads the value "tenant", and a context does not tell values by name: add PACKAGE.WithValues(func(ctx context.Context, name string) (any, bool) { … })`},
	} {
		var log testenv.Log
		e.Locks = e.NewLocker(log.Option())
		seen := e.Seen(lockmw.EventRefused)
		sometimes := func(r keyfunc.Request) (string, error) {
			if order, _ := r.Header("x-order"); order == id {
				return tc.key(r)
			}
			return "fine", nil
		}
		e.serve(&shop{rules: grpclock.Rules{ShopService + "*": {Key: sometimes, Policy: lockmw.Policy{Prefix: prefix}}}})
		for range 3 {
			e.wantRefusal(e.pay(), codes.Internal, lockmw.CodeMisuse)
		}
		for range 3 {
			a, _ := e.streamed(WatchMethod)
			e.wantRefusal(a, codes.Internal, lockmw.CodeMisuse)
		}
		e.CloseNow(e.Locks)
		if n := e.Seen(lockmw.EventRefused) - seen; n != 6 {
			e.Errorf("%s: observers were told of %d refusals, want 6", tc.wrote, n)
		}
		var want []string
		for _, method := range []string{PayMethod, WatchMethod} {
			line := fmt.Sprintf("ERROR LOCK_MISUSE lockmw: acquire %q: ", prefix) + strings.NewReplacer("METHOD", method, "PACKAGE", e.fw.Package).Replace(tc.says)
			if !slices.Contains(want, line) {
				want = append(want, line)
			}
		}
		if got := log.Lines(); !slices.Equal(got, want) {
			e.Errorf("%s: logged\n%s\nwant\n%s", tc.wrote, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	e.WantRuns(0)
	e.WantUnasked()
}

// whatIsOptionalMayBeMissing: a key function may serve doors that have a parameter
// and others that do not.
func whatIsOptionalMayBeMissing(e *env) {
	for _, key := range []keyfunc.Func{
		keyfunc.MustParse("{body.order_id}:{param.shelf?}"),
		keyfunc.Join(keyfunc.Body("order_id"), keyfunc.Optional(keyfunc.Param("shelf"))),
	} {
		var got string
		e.serve(&shop{
			rules: grpclock.Rules{PayMethod: {Key: key, Policy: lockmw.Policy{Prefix: prefix}}},
			pay: func(ctx context.Context, _ *testpb.Order) error {
				lease, _ := lockmw.FromContext(ctx)
				got = lease.Key()
				return nil
			},
		})
		e.wantCode(e.pay(), codes.OK)
		if want := prefix + id + ":"; got != want {
			e.Errorf("key = %q, want %q", got, want)
		}
	}
}

// valueThatIsMissingIsTold: a call without a tenant is refused, and does not share the
// lock of others without one.
func valueThatIsMissingIsTold(e *env) {
	var log testenv.Log
	e.Locks = e.NewLocker(log.Option())
	e.serve(&shop{rules: ruled("{value.tenant}:{body.order_id}"), options: tenantOf("x-tenant")})
	ctx, cancel := e.context()
	defer cancel()
	empty := metadata.AppendToOutgoingContext(ctx, "x-tenant", "")
	e.wantRefusal(e.payWith(ctx, Order()), codes.InvalidArgument, lockmw.CodeKeyInvalid)
	e.wantRefusal(e.payWith(empty, Order()), codes.InvalidArgument, lockmw.CodeKeyInvalid)
	for _, method := range streams {
		a, _ := e.streamed(method)
		e.wantRefusal(a, codes.InvalidArgument, lockmw.CodeKeyInvalid)
		e.wantField(a, "value", "tenant", "is missing")
	}
	e.CloseNow(e.Locks)
	want := fmt.Sprintf("WARN LOCK_KEY_INVALID lockmw: acquire %q: invalid key: keyfunc: required value is missing or empty: value \"tenant\"", prefix)
	got := log.Lines()
	if len(got) < 1 || len(got) > 5 || got[0] != want { // one, unless that took seconds
		e.Errorf("logged %q, want %q", got, want)
	}
	e.WantRuns(0)
	e.WantUnasked()
}

// numberInAnotherSpellingIsTold: a key of 042 is another one than that of 42, and a handler
// that reads a number takes both for one. One line says so, without the value.
func numberInAnotherSpellingIsTold(e *env) {
	var log bytes.Buffer
	e.Locks = e.NewLocker(lockmw.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	for _, template := range []string{"{body.order_id}", "{body.order_id|int}"} {
		e.serve(&shop{rules: ruled(template)})
		for _, text := range []string{"42", "-7", "4x", "042", "+42"} {
			if text == "4x" && strings.HasSuffix(template, "|int}") {
				continue
			}
			ctx, cancel := e.context()
			e.wantCode(e.payWith(ctx, &testpb.Order{OrderId: text}), codes.OK)
			cancel()
		}
	}
	e.CloseNow(e.Locks)
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "{body.order_id|int}") || strings.Contains(got, "+42") {
		e.Errorf("logged %q, want one line with {body.order_id|int}", got)
	}
}
