package grpclock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// named returns rules whose keys are their names.
func named(names ...string) grpclock.Rules {
	rules := make(grpclock.Rules)
	for _, name := range names {
		rules[name] = grpclock.Rule{Key: keyfunc.Const(name)}
	}
	return rules
}

// lockOf returns which lock a call of a method runs under, or "".
func lockOf(t *testing.T, interceptor grpc.UnaryServerInterceptor, method string) string {
	t.Helper()
	key := ""
	_, err := interceptor(t.Context(), rpctest.Order(), &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) {
		if lease, found := lockmw.FromContext(ctx); found {
			key = lease.Key()
		}
		return new(testpb.Receipt), nil
	})
	if err != nil {
		t.Errorf("%s: %v", method, err)
	}
	return key
}

func TestExactRuleWins(t *testing.T) {
	const elsewhere = "/elsewhere.ExactRuleWins/"
	rules := named(payMethod, rpctest.ShopService+"*", elsewhere+"Pay", elsewhere+"*")
	interceptor := grpclock.UnaryServerInterceptor(newLocker(t), rules)
	clear(rules) // they were copied
	for method, want := range map[string]string{
		payMethod:                          payMethod,
		watchMethod:                        rpctest.ShopService + "*",
		rpctest.ShopService + "NotInThere": rpctest.ShopService + "*",
		elsewhere + "Pay":                  elsewhere + "Pay",
		elsewhere + "Ship":                 elsewhere + "*",
		"/lockmwtest.v1.Shopping/Pay":      "",
		"/lockmwtest.v1.Annotated/Pay":     "",
		"/Shop/Pay":                        "",
		"/":                                "",
		"":                                 "",
	} {
		if got := lockOf(t, interceptor, method); got != want {
			t.Errorf("%s runs under %q, want %q", method, got, want)
		}
	}
}

func TestCodeWinsOverAnnotations(t *testing.T) {
	const other = "/lockmwtest.v1.Other/"
	annotated := named(payMethod, watchMethod, other+"Pay", other+"*")
	for _, tc := range []struct {
		code grpclock.Rules
		want []string
	}{
		{nil, []string{payMethod, watchMethod, other + "Pay", other + "*"}},
		{named(payMethod), []string{payMethod, watchMethod, other + "Pay", other + "*"}},
		{named(chatMethod), []string{payMethod, watchMethod, chatMethod, other + "Pay", other + "*"}},
		{named(rpctest.ShopService + "*"), []string{rpctest.ShopService + "*", other + "Pay", other + "*"}},
		{named(rpctest.ShopService+"*", payMethod), []string{rpctest.ShopService + "*", payMethod, other + "Pay", other + "*"}},
		{named(other + "*"), []string{payMethod, watchMethod, other + "*"}},
		{named(other + "Pay"), []string{payMethod, watchMethod, other + "Pay", other + "*"}},
	} {
		mark := lockmw.Policy{Prefix: "code:"}
		for name, rule := range tc.code {
			rule.Policy = mark
			tc.code[name] = rule
		}
		both := annotated.With(tc.code)
		if got, want := slices.Sorted(maps.Keys(both)), slices.Sorted(slices.Values(tc.want)); !slices.Equal(got, want) {
			t.Errorf("with %q: %q, want %q", slices.Sorted(maps.Keys(tc.code)), got, want)
		}
		for name := range tc.code {
			if both[name].Policy != mark {
				t.Errorf("with %q: the rule of %s is not that of code", slices.Sorted(maps.Keys(tc.code)), name)
			}
		}
	}
	if len(annotated) != 4 {
		t.Errorf("With has changed its receiver: %d rules", len(annotated))
	}
	if both := grpclock.Rules(nil).With(nil); both == nil || len(both) > 0 {
		t.Errorf("nothing with nothing = %v, want no rules", both)
	}
}

func TestUnknownServiceIsReportedOnce(t *testing.T) {
	service := fmt.Sprintf("/elsewhere.Unknown%d/", time.Now().UnixNano()) // a process reports each once, also with -count=2
	var log bytes.Buffer
	logger := grpclock.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	locks, rules := newLocker(t), named(service+"Pay", service+"*", payMethod, rpctest.ShopService+"*")
	unary := grpclock.UnaryServerInterceptor(locks, rules, logger)
	grpclock.StreamServerInterceptor(locks, rules, logger)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 {
		t.Errorf("%d lines were logged, want 2:\n%s", len(lines), &log)
	}
	for _, name := range []string{service + "Pay", service + "*"} {
		if n := strings.Count(log.String(), "level=WARN msg=\"grpclock: a rule is for a service that this program does not know: is it spelled right?\" rule="+name+"\n"); n != 1 {
			t.Errorf("%s was reported %d times, want once:\n%s", name, n, &log)
		}
		if got := lockOf(t, unary, strings.Replace(name, "*", "Other", 1)); got != name {
			t.Errorf("%s runs under %q", name, got)
		}
	}
}

// A stream whose rule only the unary interceptor has runs without its lock.
func TestRuleThatTheOtherInterceptorDoesNotHaveIsReported(t *testing.T) {
	const says = "grpclock: a method runs without its lock, because its rule was not given to the other interceptor: give both the same rules"
	call := func(unary grpc.UnaryServerInterceptor) {
		for range 3 {
			lockOf(t, unary, "/elsewhere.Other/Pay")
		}
	}
	for wrote, tc := range map[string]struct {
		serve func(l *lockmw.Locker, logger grpclock.Option)
		want  []string
	}{
		"rules of a service for unary methods only": {func(l *lockmw.Locker, logger grpclock.Option) {
			call(grpclock.UnaryServerInterceptor(l, named(payMethod, chatMethod, watchMethod), logger))
			call(grpclock.UnaryServerInterceptor(l, named(chatMethod), logger))
		}, []string{"rule=" + chatMethod + " needs=grpclock.StreamServerInterceptor", "rule=" + watchMethod + " needs=grpclock.StreamServerInterceptor"}},
		"rules for streams only": {func(l *lockmw.Locker, logger grpclock.Option) {
			stream := grpclock.StreamServerInterceptor(l, named(payMethod, chatMethod), logger)
			_ = stream(nil, silentStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: "/elsewhere.Other/Chat"}, func(any, grpc.ServerStream) error { return nil })
		}, []string{"rule=" + payMethod + " needs=grpclock.UnaryServerInterceptor"}},
		"both have them": {func(l *lockmw.Locker, logger grpclock.Option) {
			unary := grpclock.UnaryServerInterceptor(l, named(rpctest.ShopService+"*"), logger)
			grpclock.StreamServerInterceptor(l, named(rpctest.ShopService+"*"), logger)
			call(unary)
		}, nil},
		"unary rules alone": {func(l *lockmw.Locker, logger grpclock.Option) {
			call(grpclock.UnaryServerInterceptor(l, named(payMethod), logger))
		}, nil},
	} {
		t.Run(wrote, func(t *testing.T) {
			var log bytes.Buffer
			tc.serve(newLocker(t), grpclock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			var got, want []string
			for line := range strings.Lines(log.String()) {
				_, line, _ = strings.Cut(line, " level=")
				got = append(got, strings.TrimSpace(line))
			}
			for _, rule := range tc.want {
				want = append(want, fmt.Sprintf("WARN msg=%q %s", says, rule))
			}
			if !slices.Equal(got, want) {
				t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// Nobody can tell which methods of an unknown service are streams.
func TestRuleOfAnUnknownServiceThatTheOtherInterceptorDoesNotHaveIsReported(t *testing.T) {
	const service = "/elsewhere.Files/"
	serve := map[string]func(l *lockmw.Locker, logger grpclock.Option){
		"streams": func(l *lockmw.Locker, logger grpclock.Option) {
			unary := grpclock.UnaryServerInterceptor(l, named(service+"*"), logger)
			for range 2 {
				lockOf(t, unary, service+"Get")
			}
		},
		"unary methods": func(l *lockmw.Locker, logger grpclock.Option) {
			stream := grpclock.StreamServerInterceptor(l, named(service+"*"), logger)
			for range 2 {
				_ = stream(nil, silentStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: "/elsewhere.Other/Chat"}, func(any, grpc.ServerStream) error { return nil })
			}
		},
		"": func(l *lockmw.Locker, logger grpclock.Option) {
			unary := grpclock.UnaryServerInterceptor(l, named(service+"*", service+"Get"), logger)
			grpclock.StreamServerInterceptor(l, named(service+"*"), logger)
			lockOf(t, unary, service+"Get")
		},
	}
	needs := map[string]string{"streams": "StreamServerInterceptor", "unary methods": "UnaryServerInterceptor"}
	for kind, serve := range serve {
		var log bytes.Buffer
		serve(newLocker(t), grpclock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		n := strings.Count(log.String(), "run without their lock")
		if kind == "" && n > 0 {
			t.Errorf("both have the rule, and it is reported:\n%s", &log)
		}
		if kind != "" && (n != 1 || !strings.Contains(log.String(), "has "+kind+", they run without their lock") ||
			!strings.Contains(log.String(), "rule=/elsewhere.Files/* needs=grpclock."+needs[kind])) {
			t.Errorf("%s: the rule is reported %d times, want once:\n%s", kind, n, &log)
		}
	}
}

// A silentStream has a context, and nothing else is asked of it.
type silentStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s silentStream) Context() context.Context { return s.ctx }

// A typo in a method's name would have it run without its lock.
func TestUnknownMethodOfAKnownServicePanics(t *testing.T) {
	const none = "the service has no such method"
	for name, says := range map[string]string{
		rpctest.ShopService + "pay": none + ": did you mean " + payMethod + "?",
		rpctest.ShopService + "PAY": none + ": did you mean " + payMethod + "?",
		rpctest.ShopService + "Pya": none + ", but " + strings.Join([]string{payMethod, watchMethod, rpctest.CollectMethod, chatMethod, rpctest.RefundMethod}, ", "),
	} {
		for door, open := range map[string]func(){
			"Unary":  func() { grpclock.UnaryServerInterceptor(newLocker(t), named(name)) },
			"Stream": func() { grpclock.StreamServerInterceptor(newLocker(t), named(name, rpctest.ShopService+"*")) },
		} {
			t.Run(door+" "+name, func(t *testing.T) {
				want := fmt.Sprintf("grpclock: %sServerInterceptor: rule %q: %s", door, name, says)
				if got := rpctest.PanicOf(open); got != want {
					t.Errorf("panic = %s\nwant    %s", got, want)
				}
			})
		}
	}
}

func TestMethodWithoutARuleCostsNothing(t *testing.T) {
	interceptor := grpclock.UnaryServerInterceptor(newLocker(t), named(rpctest.ShopService+"*"))
	info := &grpc.UnaryServerInfo{FullMethod: "/elsewhere.Shop/Pay"}
	var message any = rpctest.Order()
	handler := func(context.Context, any) (any, error) { return message, nil }
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() { _, _ = interceptor(ctx, message, info, handler) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
