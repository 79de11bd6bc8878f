package rpctest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func errorHandlerAnswers(e *env) {
	var got error
	own := Options{ErrorHandler: func(_ context.Context, method string, err error) error {
		if !strings.HasPrefix(method, ShopService) {
			e.Errorf("method = %q", method)
		}
		got = err
		return status.Error(codes.OutOfRange, "later")
	}}
	wantOwn := func(a Answer) {
		e.Helper()
		if a.Status.Code() != codes.OutOfRange || a.Status.Message() != "later" || len(a.Trailer["grpc-retry-pushback-ms"])+len(a.Trailer["retry-after"]) > 0 {
			e.Errorf("answer = %v, trailer %v; want the error handler's", a.Status, a.Trailer)
		}
	}
	var refused *lockmw.AcquireError
	lease := e.hold()
	for _, rules := range []grpclock.Rules{usual(), byTenant()} {
		e.serve(&shop{rules: rules, options: own})
		wantOwn(e.pay())
		for _, method := range streams {
			got = nil
			a, _ := e.streamed(method)
			wantOwn(a)
			if !errors.Is(got, lockmw.ErrNotAcquired) || !errors.As(got, &refused) || refused.Key != lockKey {
				e.Errorf("error = %v, want the one of Acquire", got)
			}
		}
	}
	e.Release(lease)

	e.serve(&shop{rules: ruled("{header.x-nothing}"), options: own})
	wantOwn(e.pay())
	if !errors.Is(got, lockmw.ErrInvalidKey) || !errors.Is(got, keyfunc.ErrMissing) || !errors.As(got, &refused) {
		e.Errorf("error = %v, want %v and the reason", got, lockmw.ErrInvalidKey)
	}
	e.WantRuns(0)
}

// An okError is an error whose status says that it is none.
type okError struct{}

func (okError) Error() string              { return "fine" }
func (okError) GRPCStatus() *status.Status { return status.New(codes.OK, "fine") }

func silentErrorHandlerIsNoSuccess(e *env) {
	e.hold()
	for _, silence := range []error{nil, status.Error(codes.OK, ""), okError{}} {
		e.serve(&shop{options: Options{ErrorHandler: func(context.Context, string, error) error { return silence }}})
		e.wantRefusal(e.pay(), codes.Aborted, "LOCK_BUSY")
		a, _ := e.streamed(WatchMethod)
		e.wantRefusal(a, codes.Aborted, "LOCK_BUSY")
	}
	e.WantRuns(0)
}

// errorThatIsHandedOnShowsNothing: an error handler that only logs returns what it got.
// gRPC would send the text, with the key in it, to the client.
func errorThatIsHandedOnShowsNothing(e *env) {
	e.hold()
	for _, handle := range []func(err error) error{
		func(err error) error { return err },
		func(err error) error { return fmt.Errorf("pay: %w", err) },
		func(err error) error { return errors.Join(errors.New("pay"), err) },
		errors.Unwrap, // the reason alone
		func(err error) error { return fmt.Errorf("pay: %w", errors.Unwrap(err)) },
	} {
		e.serve(&shop{options: Options{ErrorHandler: func(_ context.Context, _ string, err error) error { return handle(err) }}})
		e.wantRefusal(e.pay(), codes.Aborted, "LOCK_BUSY")
		for _, method := range streams {
			a, _ := e.streamed(method)
			e.wantRefusal(a, codes.Aborted, "LOCK_BUSY")
		}
	}
	e.handedOnAfterALoss()
	// Interceptors outside still find what it was.
	service := e.service(&shop{options: Options{ErrorHandler: func(_ context.Context, _ string, err error) error { return err }}})
	_, err := e.fw.Direct(context.Background(), service)
	if !errors.Is(err, lockmw.ErrNotAcquired) || err != nil && strings.Contains(err.Error(), id) {
		e.Errorf("error = %v, want one that Is %v, without the key", err, lockmw.ErrNotAcquired)
	}
	e.WantRuns(0)
}

// handedOnAfterALoss: what is told of a lost lock has the handler's error beside it.
func (e *env) handedOnAfterALoss() {
	e.Helper()
	e.cleared()
	for name, handle := range map[string]func(err error) error{
		"all":      func(err error) error { return err },
		"the loss": func(err error) error { return partsOf(err)[len(partsOf(err))-1] },
		"a part of it": func(err error) error {
			parts := partsOf(err)
			return fmt.Errorf("pay: %w", parts[len(parts)-1])
		},
	} {
		for _, failed := range []error{nil, errors.New("the order " + id + " is gone")} {
			e.serve(&shop{
				rules:   usual(),
				options: Options{ErrorHandler: func(_ context.Context, _ string, err error) error { return handle(err) }},
				pay: func(context.Context, *testpb.Order) error {
					e.ways()["deleted"]()
					return failed
				},
			})
			a := e.pay()
			if a.Status.Code() != codes.Internal {
				e.Errorf("%s: %v", name, a.Status)
			}
			e.wantRefusal(a, codes.Internal, "LOCK_LOST")
		}
	}
	e.Ran.Store(0)
	e.hold()
}

// partsOf returns what an error joins, or itself.
func partsOf(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

func errorHandlerHearsOfALostLock(e *env) {
	for _, silent := range []bool{false, true} {
		var got atomic.Pointer[error] // the handler may go on behind a call that was out of time
		e.serve(&shop{
			rules: usual(),
			options: Options{ErrorHandler: func(_ context.Context, _ string, err error) error {
				got.Store(&err)
				if silent {
					return nil
				}
				return status.Error(codes.DataLoss, "lost")
			}},
			pay: func(context.Context, *testpb.Order) error { e.ways()["deleted"](); return nil },
		})
		a := e.pay()
		if silent {
			e.wantRefusal(a, codes.Internal, "LOCK_LOST")
		} else if a.Status.Code() != codes.DataLoss || a.Status.Message() != "lost" {
			e.Errorf("answer = %v, want the error handler's", a.Status)
		}
		if err := got.Load(); err == nil || !errors.Is(*err, lockmw.ErrLost) {
			e.Errorf("error = %v, want %v", err, lockmw.ErrLost)
		}
	}
	e.WantRuns(2)
}

func mistakesPanicAtTheStart(e *env) {
	rule := func(name string, key keyfunc.Func, p lockmw.Policy) grpclock.Rules {
		return grpclock.Rules{name: {Key: key, Policy: p}}
	}
	fine := keyfunc.Const("k")
	parse := keyfunc.MustParse
	each := func(list, template string) grpclock.Rules {
		return rule(PayMethod, keyfunc.Each(list, parse(template)), lockmw.Policy{})
	}
	for want, rules := range map[string]grpclock.Rules{
		"the Rules are nil":                                        nil,
		`rule "` + PayMethod + `": its Key is nil`:                 rule(PayMethod, nil, lockmw.Policy{}),
		`rule "` + PayMethod + `": lockmw: invalid policy: TTL`:    rule(PayMethod, fine, lockmw.Policy{TTL: time.Millisecond}),
		`rule "` + PayMethod + `": lockmw: invalid policy: Prefix`: rule(PayMethod, fine, lockmw.Policy{Prefix: "{"}),
		`rule "": it must be named`:                                rule("", fine, lockmw.Policy{}),
		`rule "*": it must be named`:                               rule("*", fine, lockmw.Policy{}),
		`rule "/": it must be named`:                               rule("/", fine, lockmw.Policy{}),
		`rule "/*": it must be named`:                              rule("/*", fine, lockmw.Policy{}),
		`rule "/Pay": it must be named`:                            rule("/Pay", fine, lockmw.Policy{}),
		`rule "//Pay": it must be named`:                           rule("//Pay", fine, lockmw.Policy{}),
		`rule "a.Shop/Pay": it must be named`:                      rule("a.Shop/Pay", fine, lockmw.Policy{}),
		`rule "/a.Shop/": it must be named`:                        rule("/a.Shop/", fine, lockmw.Policy{}),
		`rule "/a.Shop": it must be named`:                         rule("/a.Shop", fine, lockmw.Policy{}),
		`rule "/a.Shop/P*": it must be named`:                      rule("/a.Shop/P*", fine, lockmw.Policy{}),
		`rule "/a..Shop/Pay": it must be named`:                    rule("/a..Shop/Pay", fine, lockmw.Policy{}),
		`rule "/a/b/Pay": it must be named`:                        rule("/a/b/Pay", fine, lockmw.Policy{}),
		`rule "//a.Shop/Pay": it must be named`:                    rule("//a.Shop/Pay", fine, lockmw.Policy{}),
		`rule "/a.Shop/ Pay": it must be named`:                    rule("/a.Shop/ Pay", fine, lockmw.Policy{}),
		`rule "` + ShopService + `pay": the service has no such method: did you mean ` + PayMethod + `?`: rule(ShopService+"pay", fine, lockmw.Policy{}),
		`rule "` + PayMethod + `": field "id": lockmwtest.v1.Order has no field "id"`:                    rule(PayMethod, parse("{body.id}"), lockmw.Policy{}),
		`rule "` + ShopService + `*": method ` + ChatMethod + `: field "customer.name": lockmwtest.v1.Customer has no field "name"`: {
			ShopService + "*": {Key: parse("{body.customer.name?}x")}, CollectMethod: {Key: fine}, PayMethod: {Key: fine}, WatchMethod: {Key: fine},
		},
		`field "order_id.x": lockmwtest.v1.Order.order_id is not one message`:          rule(PayMethod, parse("{body.order_id.x}"), lockmw.Policy{}),
		`field "items.x": lockmwtest.v1.Order.items is not one message`:                rule(PayMethod, parse("{body.items.x}"), lockmw.Policy{}),
		`field "labels.key": lockmwtest.v1.Order.labels is not one message`:            rule(PayMethod, parse("{body.labels.key}"), lockmw.Policy{}),
		`lockmwtest.v1.Order.items is a list`:                                          rule(PayMethod, parse("{body.items}"), lockmw.Policy{}),
		`lockmwtest.v1.Order.labels is a map`:                                          rule(PayMethod, parse("{body.labels}"), lockmw.Policy{}),
		`lockmwtest.v1.Order.customer is a message`:                                    rule(PayMethod, parse("{body.customer}"), lockmw.Policy{}),
		`lockmwtest.v1.Order.weight is a float`:                                        rule(PayMethod, parse("{body.weight}"), lockmw.Policy{}),
		`lockmwtest.v1.Order.price is a double`:                                        rule(PayMethod, parse("{body.price|hash}"), lockmw.Policy{}),
		`field "order_id": lockmwtest.v1.Order.order_id is not repeated`:               each("body.order_id", "{body.order_id}"),
		`field "none": lockmwtest.v1.Order has no field "none"`:                        each("body.none", "{body.none}"),
		`field "labels": lockmwtest.v1.Order.labels is not repeated`:                   each("body.labels", "{body.labels.key}"),
		`field "items": its elements are no messages, they have no field "id"`:         each("body.items", "{body.items.id}"),
		`field "guests": its elements are of kind message, which has no definite text`: each("body.guests", "{body.guests}"),
		`field "name": lockmwtest.v1.Customer has no field "name"`:                     each("body.guests", "{body.guests.name}"),
		`its Key needs the route parameter "id"`:                                       rule(PayMethod, parse("a:{param.id}"), lockmw.Policy{}),
		`its Key needs the form field "sku"`:                                           rule(PayMethod, parse("{body.order_id}:{form.sku}"), lockmw.Policy{}),
		`its Key needs the cookie "session"`:                                           rule(PayMethod, parse("{cookie.session}"), lockmw.Policy{}),
		`its Key needs the query parameter "sku"`:                                      rule(PayMethod, parse("{body.order_id}:{query.sku}"), lockmw.Policy{}),
		`its Key needs parameters of the route`:                                        rule(PayMethod, keyfunc.Params(), lockmw.Policy{}),
		`rule "/elsewhere.Shop/Pay": its Key needs`:                                    rule("/elsewhere.Shop/Pay", parse("{param.id}"), lockmw.Policy{}),
		`rule "/elsewhere.Shop/*": its Key needs`:                                      rule("/elsewhere.Shop/*", parse("{param.id}"), lockmw.Policy{}),
	} {
		e.wantPanics(e.Locks, rules, Options{}, want)
	}
	e.wantPanics(nil, usual(), Options{}, "the Locker is nil")
	for option, want := range map[string]string{
		"option":           "option 1 is nil",
		"WithErrorHandler": "WithErrorHandler: the function is nil",
		"WithSkipper":      "WithSkipper: the function is nil",
		"WithLogger":       "WithLogger: the logger is nil",
		"WithValues":       "WithValues: the function is nil",
	} {
		e.wantPanics(e.Locks, usual(), Options{Nil: option}, want)
	}
	for wrote, rules := range map[string]grpclock.Rules{
		"tenant": rule(PayMethod, parse("{value.tenant}"), lockmw.Policy{}),
		"shard":  rule(PayMethod, parse("{body.order_id}:{value.shard?}"), lockmw.Policy{}),
		"user":   rule(WatchMethod, keyfunc.Join(e.fw.Key(fromBoth), keyfunc.Optional(keyfunc.Value("user"))), lockmw.Policy{}),
		"each":   each("body.items", "{body.items}:{value.each}"),
		"first":  rule(PayMethod, parse("{value.first}:{value.second}"), lockmw.Policy{}),
		"whole":  rule(ShopService+"*", parse("{value.whole}"), lockmw.Policy{}),
		"far":    rule("/elsewhere.Shop/Pay", parse("{value.far}"), lockmw.Policy{}),
	} {
		e.wantPanics(e.Locks, rules, Options{}, `its Key reads the value "`+wrote+`", and a context does not tell values by name: `+
			`add `+e.fw.Package+`.WithValues(func(ctx context.Context, name string) (any, bool) { … })`)
		e.wantNoPanics(rules, tenantOf("x-tenant"))
	}
	if got := PanicOf(func() { e.fw.Key(nil) }); got != e.fw.Package+": Key: the function is nil" {
		e.Errorf("Key(nil) panics with %q", got)
	}
	for _, rules := range []grpclock.Rules{{}, usual()} { // no mistakes
		e.wantNoPanics(rules, Options{})
	}
}

// construct calls a constructor, and returns the text that it panics with.
func (e *env) construct(constructor string, l *lockmw.Locker, rules grpclock.Rules, o Options) string {
	return PanicOf(func() {
		defer e.fault.recover()
		e.fw.Constructors[constructor](l, e.fault.rules(rules), o)
	})
}

// wantPanics fails the test unless all constructors panic with a text that
// names the package and holds want.
func (e *env) wantPanics(l *lockmw.Locker, rules grpclock.Rules, o Options, want string) {
	e.Helper()
	for constructor := range e.fw.Constructors {
		got := e.construct(constructor, l, rules, o)
		if !strings.HasPrefix(got, e.fw.Package+": "+constructor+": ") || !strings.Contains(got, want) {
			e.Errorf("panic = %q, want %s: %s: … %s", got, e.fw.Package, constructor, want)
		}
	}
}

// wantNoPanics fails the test if a constructor panics.
func (e *env) wantNoPanics(rules grpclock.Rules, o Options) {
	e.Helper()
	for constructor := range e.fw.Constructors {
		if got := e.construct(constructor, e.Locks, rules, o); got != "" {
			e.Errorf("%s: panic = %q, want none", constructor, got)
		}
	}
}

// PanicOf returns the text that f panics with.
func PanicOf(f func()) (text string) {
	defer func() {
		if value := recover(); value != nil {
			text = fmt.Sprint(value)
		}
	}()
	f()
	return ""
}
