package funclock_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/funclock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func nothing(context.Context) error { return nil }

func TestWorkRunsUnderTheLockOfItsKey(t *testing.T) {
	locks := locktest.New(t)
	pay := funclock.New(locks, funclock.Spec{
		Name: "shop.Orders.Pay", Keys: []string{"{value.order.ID|lower}"}, Values: []string{"order.ID"},
		Policy: lockmw.Policy{Prefix: "order:"},
	})
	ran := false
	err := pay.Key(funclock.String("A-42")).Run(t.Context(), func(ctx context.Context) error {
		lease, ok := lockmw.FromContext(ctx)
		if ran = ok && lease.Key() == "order:a-42" && lease.Valid(); !ran {
			t.Errorf("lease = %v, %t; want one of order:a-42", lease, ok)
		}
		return nil
	})
	if err != nil || !ran {
		t.Errorf("err = %v, ran = %t", err, ran)
	}
	if keys := locktest.Keys(t, locks); len(keys) > 0 {
		t.Errorf("still locked: %q", keys)
	}
}

func TestWorkThatGetsNoLockDoesNotRun(t *testing.T) {
	locks := locktest.New(t)
	locktest.Hold(t, locks, "42")
	lock := funclock.New(locks, funclock.Spec{Name: "shop.Pay", Keys: []string{"{value.id}"}, Values: []string{"id"}})
	err := lock.Key(funclock.Int(42)).Run(t.Context(), func(context.Context) error {
		t.Error("it ran")
		return nil
	})
	if !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("err = %v, want %v", err, lockmw.ErrNotAcquired)
	}
	if refusal, ok := errors.AsType[*lockmw.AcquireError](err); !ok || refusal.Name != "shop.Pay" {
		t.Errorf("err = %v, want one that names shop.Pay", err)
	}
}

func TestSeveralKeysAreTakenTogether(t *testing.T) {
	locks := locktest.New(t)
	lock := funclock.New(locks, funclock.Spec{
		Name: "bank.Move", Keys: []string{"account:{value.from}", "account:{value.to}", "sku:{value.skus...}:{method}"},
		Values: []string{"from", "to", "skus..."},
	})
	list := []string{"a", "b", "a"}
	err := lock.Key(funclock.String("x"), funclock.String("y"), funclock.Each(len(list), func(i int) funclock.Value { return funclock.String(list[i]) })).
		Run(t.Context(), func(context.Context) error {
			want := []string{"account:x", "account:y", "sku:a:bank.Move", "sku:b:bank.Move"}
			if got := locktest.Keys(t, locks); !slices.Equal(got, want) {
				t.Errorf("locked are %q, want %q", got, want)
			}
			return nil
		})
	if err != nil {
		t.Error(err)
	}
}

func TestACallWithoutAKeyIsRefused(t *testing.T) {
	locks := locktest.New(t)
	one := funclock.New(locks, funclock.Spec{Name: "p.F", Keys: []string{"k:{value.v}"}, Values: []string{"v"}})
	list := funclock.New(locks, funclock.Spec{Name: "p.G", Keys: []string{"k:{value.v...}"}, Values: []string{"v..."}})
	failed := errors.New("no tenant")
	var nobody *netip.Addr
	each := func(v funclock.Value) func(int) funclock.Value { return func(int) funclock.Value { return v } }
	for name, tc := range map[string]struct {
		call funclock.Call
		want error
	}{
		"an empty text":             {one.Key(funclock.String("")), keyfunc.ErrMissing},
		"a nil on the way":          {one.Key(funclock.Value{}), keyfunc.ErrMissing},
		"a nil pointer":             {one.Key(funclock.Of(nobody)), keyfunc.ErrMissing},
		"a nil":                     {one.Key(funclock.Of(nil)), keyfunc.ErrMissing},
		"a function that fails":     {one.Key(funclock.Failed(failed)), failed},
		"a function without result": {one.Key(funclock.Failed(nil)), keyfunc.ErrMissing},
		"no elements":               {list.Key(funclock.Each(0, nil)), keyfunc.ErrMissing},
		"an empty element":          {list.Key(funclock.Each(2, each(funclock.String("")))), keyfunc.ErrMissing},
		"an element that fails":     {list.Key(funclock.Each(2, each(funclock.Failed(failed)))), failed},
		"too many elements":         {list.Key(funclock.Each(65, each(funclock.Int(1)))), keyfunc.ErrInvalidValue},
	} {
		err := tc.call.Run(t.Context(), func(context.Context) error {
			t.Errorf("%s: it ran", name)
			return nil
		})
		if !errors.Is(err, lockmw.ErrInvalidKey) || !errors.Is(err, tc.want) {
			t.Errorf("%s: err = %v, want %v", name, err, tc.want)
		}
		if keys, err := tc.call.Keys(); keys != nil || !errors.Is(err, tc.want) {
			t.Errorf("%s: keys = %q, %v", name, keys, err)
		}
	}
}

func TestSkipRunsWithoutALock(t *testing.T) {
	locks := locktest.New(t)
	lock := funclock.New(locks, funclock.Spec{Name: "p.F", Keys: []string{"{value.v}"}, Values: []string{"v"}})
	ran := false
	err := lock.Key(funclock.Failed(fmt.Errorf("a guest: %w", keyfunc.Skip))).Run(t.Context(), func(ctx context.Context) error {
		_, locked := lockmw.FromContext(ctx)
		ran = !locked && len(locktest.Keys(t, locks)) == 0
		return nil
	})
	if err != nil || !ran {
		t.Errorf("err = %v, ran without a lock: %t", err, ran)
	}
}

func TestALostLockIsTold(t *testing.T) {
	locks := locktest.New(t)
	lock := funclock.New(locks, funclock.Spec{Name: "p.F", Keys: []string{"job"}})
	err := lock.Key().Run(t.Context(), func(ctx context.Context) error {
		locktest.Lose(t, locks, "job")
		return context.Cause(ctx)
	})
	if !errors.Is(err, lockmw.ErrLost) {
		t.Errorf("err = %v, want %v", err, lockmw.ErrLost)
	}
}

func TestTuneChangesThePolicyOnceForEachLock(t *testing.T) {
	locks := locktest.New(t)
	locktest.Hold(t, locks, "tuned:job")
	var told []string
	tune := func(name string, p *lockmw.Policy) {
		told = append(told, name+" "+p.Wait.String())
		p.Prefix, p.Wait = "tuned:", 0
	}
	lock := funclock.New(locks, funclock.Spec{Name: "p.F", Keys: []string{"job"}, Policy: lockmw.Policy{Wait: time.Hour}}, tune)
	for range 2 {
		if err := lock.Key().Run(t.Context(), nothing); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("err = %v, want %v", err, lockmw.ErrNotAcquired)
		}
	}
	if want := []string{"p.F 1h0m0s"}; !slices.Equal(told, want) {
		t.Errorf("tune was told %q, want %q", told, want)
	}
}

func TestMistakesOfTheProgramPanicAtTheStart(t *testing.T) {
	locks := locktest.New(t)
	spec := funclock.Spec{Name: "p.F", Keys: []string{"{value.v}"}, Values: []string{"v"}}
	with := func(change func(*funclock.Spec)) funclock.Spec {
		s := spec
		change(&s)
		return s
	}
	for _, tc := range []struct {
		want string
		make func()
	}{
		{"funclock: p.F: the Locker is nil", func() { funclock.New(nil, spec) }},
		{"funclock: p.F: Tune 2 is nil", func() { funclock.New(locks, spec, func(string, *lockmw.Policy) {}, nil) }},
		{"funclock: p.F: lockmw: invalid policy: Wait: -1ns is negative", func() {
			funclock.New(locks, spec, func(_ string, p *lockmw.Policy) { p.Wait = -1 })
		}},
		{"keyfunc: template, column 2: unknown source", func() { funclock.New(locks, with(func(s *funclock.Spec) { s.Keys = []string{"{v}"} })) }},
		{"funclock: p.F: the key {value.a} names a value that is not in Values (v)", func() { funclock.New(locks, with(func(s *funclock.Spec) { s.Keys = []string{"{value.a}"} })) }},
		{"funclock: p.F: the key {value.v}{body.a} has {body.a}: a key is made of {value.NAME} and {method}", func() { funclock.New(locks, with(func(s *funclock.Spec) { s.Keys = []string{"{value.v}{body.a}"} })) }},
		{"funclock: p.F: the key {value.v?|lower}{route} has {route}: a key is made of {value.NAME} and {method}", func() {
			funclock.New(locks, with(func(s *funclock.Spec) { s.Keys = []string{"{value.v?|lower}{route}"} }))
		}},
		{"funclock: p.F: Key of 0 values, want 1 (v)", func() { funclock.New(locks, spec).Key() }},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, tc.want) {
					t.Errorf("panic = %q, want %q", got, tc.want)
				}
			}()
			tc.make()
		}()
	}
}

// A value is read twice, and calls at the same time do not see each other's.
func TestManyValues(t *testing.T) {
	locks := locktest.New(t)
	spec := funclock.Spec{Name: "p.F", Keys: []string{"{value.a}-{value.b}-{value.c}-{value.d}-{value.e}-{value.a|hash}"}, Values: []string{"a", "b", "c", "d", "e"}}
	values := make([]funclock.Value, 5)
	for i := range values {
		values[i] = funclock.String(strconv.Itoa(i) + "-")
	}
	lock := funclock.New(locks, spec)
	var calls sync.WaitGroup
	for g := range 4 {
		own := slices.Clone(values)
		own[0] = funclock.Int(g)
		calls.Go(func() {
			for range 100 {
				keys, err := lock.Key(own...).Keys()
				if want := fmt.Sprintf("%d-1%%2D-2%%2D-3%%2D-4%%2D-", g); err != nil || len(keys) != 1 || !strings.HasPrefix(keys[0], want) {
					t.Errorf("keys = %q, %v; want %q…", keys, err, want)
				}
			}
		})
	}
	calls.Wait()
}
