package lockgen_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/lockgen/testdata/golden/basic"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/collisions"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/concrete"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/embedding"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/foreign"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/foreign/partner"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/functions"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/generic"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/hidden"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/lists"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/params"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/paths"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/policies"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/results"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/tags"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/unexported"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// A work is what stands behind the decorators: it notes the key that it runs under.
type work struct{ key string }

var errWork = errors.New("the work's own error")

const none = "none" // there is no lock

func (w *work) run(ctx context.Context) error {
	w.key = none
	if lease, ok := lockmw.FromContext(ctx); ok {
		w.key = lease.Key()
	}
	return errWork
}

// A shape is one call of a decorator.
type shape struct {
	name string
	call func(ctx context.Context) error
	want string // the key; empty: there is none to be had, and the work does not run
}

func TestDecoratorsRunTheWorkUnderItsKey(t *testing.T) {
	locks := locktest.New(t)
	w := new(work)
	for _, s := range shapes(w, locks) {
		w.key = ""
		err := s.call(t.Context())
		switch {
		case w.key != s.want:
			t.Errorf("%s: the work ran under %q, want %q; err = %v", s.name, w.key, s.want, err)
		case s.want == "" && !errors.Is(err, lockmw.ErrInvalidKey):
			t.Errorf("%s: err = %v, want %v", s.name, err, lockmw.ErrInvalidKey)
		case s.want != "" && !errors.Is(err, errWork):
			t.Errorf("%s: err = %v, want %v", s.name, err, errWork)
		}
	}
	if left := locktest.Keys(t, locks); len(left) > 0 {
		t.Errorf("still locked: %q", left)
	}
}

func shapes(w *work, locks *lockmw.Locker) []shape {
	text := func(s string) *string { return &s }
	orders := basic.LockOrders(fakeOrders{w: w}, locks)
	docs := embedding.LockDocs(fakeDocs{w: w}, locks)
	repo := generic.LockRepo(generic.Repo[string, int](fakeRepo{w}), locks)
	named := generic.LockNamed(generic.Named[embedding.DocID, int](fakeNamed{w}), locks)
	list := lists.LockLists(fakeLists{w}, locks)
	plain := params.LockParams(fakeParams{w}, locks)
	ways := paths.LockPaths(fakePaths{w}, locks)
	hook := concrete.LockHook(func(ctx context.Context, _ string) error { return w.run(ctx) }, locks)
	taken := collisions.LockOrders(fakeCollisions{w: w}, locks)
	far := foreign.LockForeign(fakeForeign{w}, locks)
	res := results.LockResults(fakeResults{w}, locks)
	jobs := policies.LockJobs(fakeJobs{w: w}, locks)
	base := paths.Order{Base: &paths.Base{ID: "7"}}
	who := func(name string) *paths.Order { return &paths.Order{Customer: &paths.Customer{Name: &name}} }
	first := func(_ any, err error) error { return err }
	return []shape{
		{"a field", func(ctx context.Context) error { return first(orders.Pay(ctx, basic.Order{ID: "A"})) }, "order:a"},
		{"two keys", func(ctx context.Context) error { return orders.Merge(ctx, "2", "1") }, "order:1, order:2"},
		{"two keys that are one", func(ctx context.Context) error { return orders.Merge(ctx, "1", "1") }, "order:1"},
		{"a pointer", func(ctx context.Context) error {
			_, _, err := orders.Store(ctx, &basic.Order{ID: "x:y", Shelf: -3})
			return err
		}, "shelf:-3:x%3Ay"},
		{"a nil", func(ctx context.Context) error { _, _, err := orders.Store(ctx, nil); return err }, ""},
		{"an empty value", func(ctx context.Context) error { return orders.Merge(ctx, "1", "") }, ""},
		{"a policy called like a parameter", func(ctx context.Context) error { return taken.Pay(ctx, "7") }, "p:7"},
		{"a pointer's method of a result", func(ctx context.Context) error { return taken.Close(ctx) }, "x"},
		{"a line's end", func(ctx context.Context) error { return taken.Line(ctx, "7") }, "a%0A%7D7"},
		{"no directive", func(ctx context.Context) error { return first(orders.Count(ctx)) }, none},
		{"an embedded method", func(ctx context.Context) error { return first(docs.Read(ctx, "7")) }, "doc:7"},
		{"a generic embedded method", func(ctx context.Context) error { return docs.Write(ctx, "8", "") }, "doc:8"},
		{"beside embedded methods", func(ctx context.Context) error { return docs.Copy(ctx, "8", "9") }, "doc:8, doc:9"},
		{"an interface that is embedded", func(ctx context.Context) error {
			return first(embedding.LockReader(fakeDocs{w: w}, locks).Read(ctx, "7"))
		}, "doc:7"},
		{"a type parameter", func(ctx context.Context) error { return repo.Save(ctx, "k", 1) }, "repo:k"},
		{"a list of a type parameter", func(ctx context.Context) error { return first(repo.Load(ctx, "k", "l")) }, "repo:k, repo:l"},
		{"type parameters", func(ctx context.Context) error { return first(named.Rename(ctx, "n", 1)) }, "n"},
		{"a value receiver", func(ctx context.Context) error { return hook.Call(ctx, "h") }, "hook:h"},
		{"a variadic list", func(ctx context.Context) error { return list.Variadic(ctx, "b", "a", "b") }, "sku:a, sku:b"},
		{"an empty list", func(ctx context.Context) error { return list.Variadic(ctx) }, ""},
		{"a list with an empty element", func(ctx context.Context) error { return list.Variadic(ctx, "a", "") }, ""},
		{"a slice", func(ctx context.Context) error { return list.Slice(ctx, "s", []uint16{2, 1}) }, "s:1, s:2"},
		{"a field that is a list", func(ctx context.Context) error {
			return list.Field(ctx, &lists.Order{SKUs: []lists.SKU{"a"}})
		}, "a"},
		{"a list of a nil", func(ctx context.Context) error { return list.Field(ctx, nil) }, ""},
		{"a method that returns a list", func(ctx context.Context) error { return list.Method(ctx, new(lists.Order)) }, "7, 8"},
		{"a function that returns a list", func(ctx context.Context) error { return list.Function(ctx, 2) }, "a, b"},
		{"an array of pointers", func(ctx context.Context) error { return list.Pointers(ctx, [2]*string{text("p"), text("q")}) }, "p, q"},
		{"an array with a nil", func(ctx context.Context) error { return list.Pointers(ctx, [2]*string{text("p")}) }, ""},
		{"two lists", func(ctx context.Context) error { return list.Two(ctx, []string{"a"}, []string{"b", "c"}) }, "from:a, to:b, to:c"},
		{"{params} of one", func(ctx context.Context) error { return plain.One(ctx, "a:b") }, "a:b"},
		{"{params}", func(ctx context.Context) error { return plain.Several(ctx, "S", text("a:b"), "N") }, "s:a%3Ab:n:params.Params.Several"},
		{"{params} with a nil", func(ctx context.Context) error { return plain.Several(ctx, "S", nil, "N") }, ""},
		{"{method}", func(ctx context.Context) error { return plain.Method(ctx, 1) }, "params.Params.Method"},
		{"an embedded field", func(ctx context.Context) error { return ways.Embedded(ctx, base) }, "7"},
		{"an embedded nil", func(ctx context.Context) error { return ways.Embedded(ctx, paths.Order{}) }, ""},
		{"a nil far down", func(ctx context.Context) error { return ways.Deep(ctx, &base) }, ""},
		{"a promoted method", func(ctx context.Context) error { return ways.Promoted(ctx, &base) }, "7"},
		{"a promoted method of a nil", func(ctx context.Context) error { return ways.Promoted(ctx, nil) }, ""},
		{"a method of a nil interface", func(ctx context.Context) error { return ways.Interface(ctx, &base) }, ""},
		{"a getter", func(ctx context.Context) error { return ways.Getter(ctx, who("n")) }, "n"},
		{"a getter that returns a nil", func(ctx context.Context) error { return ways.Getter(ctx, &base) }, ""},
		{"a method that may fail", func(ctx context.Context) error { return ways.Fails(ctx, who("t")) }, "t"},
		{"a method that fails", func(ctx context.Context) error { return ways.Fails(ctx, who("broken")) }, ""},
		{"a function", func(ctx context.Context) error { return ways.Function(ctx, who("f")) }, "f"},
		{"a function that fails", func(ctx context.Context) error {
			return ways.Function(ctx, &paths.Order{Customer: new(paths.Customer)})
		}, ""},
		{"a function that is given a nil's field", func(ctx context.Context) error { return ways.Function(ctx, &base) }, ""},
		{"a nil interface", func(ctx context.Context) error { return ways.Itself(ctx, nil) }, ""},
		{"a function without error", func(ctx context.Context) error { return ways.Plain(ctx) }, "plain"},
		{"a function that skips", func(ctx context.Context) error { return ways.Skips(ctx, "guest") }, none},
		{"a function that does not", func(ctx context.Context) error { return ways.Skips(ctx, "me") }, "me:me"},
		{"a type of another package", func(ctx context.Context) error { return first(far.Alias(ctx, foreign.Order{ID: "x"})) }, "x"},
		{"policy=", func(ctx context.Context) error { return jobs.Base(ctx, "1") }, "pay-1"},
		{"policy= without its prefix", func(ctx context.Context) error { return jobs.Back(ctx, "1") }, "1"},
		{"one result", func(ctx context.Context) error { return res.One(ctx, 1) }, "1"},
	}
}

func TestResultsPassThrough(t *testing.T) {
	locks := locktest.New(t)
	w := new(work)
	once := func(_ string, p *lockmw.Policy) { p.Wait, p.Retries = 0, 0 }
	orders := basic.LockOrders(fakeOrders{w: w}, locks, once)
	if receipt, err := orders.Pay(t.Context(), basic.Order{ID: "A"}); receipt.Number != 42 || !errors.Is(err, errWork) {
		t.Errorf("Pay = %v, %v", receipt, err)
	}
	locktest.Hold(t, locks, "order:b")
	if receipt, err := orders.Pay(t.Context(), basic.Order{ID: "B"}); receipt.Number != 0 || !errors.Is(err, lockmw.ErrNotAcquired) {
		t.Errorf("Pay without the lock = %v, %v", receipt, err)
	}
	if shelf, name, err := orders.Store(t.Context(), &basic.Order{ID: "A"}); shelf != 7 || name != "seven" || !errors.Is(err, errWork) {
		t.Errorf("Store = %v, %v, %v", shelf, name, err)
	}
	if got := orders.Len(); got != 3 {
		t.Errorf("Len = %d", got)
	}
	orders.Reset(t.Context(), 1, 2)
	res := results.LockResults(fakeResults{w}, locks)
	a, b, c, d, err := res.Five(t.Context(), 1)
	if len(a) != 1 || len(b) != 1 || !c.Equal(time.Unix(1, 0)) || d != "d" || !errors.Is(err, errWork) {
		t.Errorf("Five = %v, %v, %v, %v, %v", a, b, c, d, err)
	}
}

func TestMethodsOfTypesRunUnderTheirLocks(t *testing.T) {
	locks := locktest.New(t)
	once := func(_ string, p *lockmw.Policy) { p.Wait = 0 }
	stock := concrete.LockStock(&concrete.Stock{Region: "eu", Counted: map[string]int{}}, locks, once)
	shop := concrete.LockShop(&concrete.Shop{Name: "s", Stock: &concrete.Stock{Region: "us", Counted: map[string]int{}}}, locks, once)
	mall := concrete.LockMall(&concrete.Mall{Owner: "o", Mixed: &concrete.Mixed{ID: 4}, Cafe: concrete.Cafe{Tables: 9}}, locks)
	cache := concrete.LockCache(&concrete.Cache[string, int]{Values: map[string]int{}}, locks)
	for _, tc := range []struct {
		key  string
		call func() error
	}{
		{"stock:eu:a", func() error { _, err := stock.Add(t.Context(), "a", 1); return err }},
		{"stock", func() error { return stock.Recount(t.Context()) }},
		{"region:eu", func() error { return concrete.LockStock2(concrete.Stock2{Region: "eu"}, locks).Move(t.Context()) }},
		{"4", func() error { return concrete.LockMixed(&concrete.Mixed{ID: 4}, locks).Put(t.Context()) }},
		{"stock:us:a", func() error { _, err := shop.Add(t.Context(), "a", 1); return err }},
		{"shop:s", func() error { return shop.Open(t.Context()) }},
		{"4", func() error { return mall.Put(t.Context()) }},
		{"cafe:9:9", func() error { return mall.Seat(t.Context()) }},
		{"mall:o", func() error { return mall.Close(t.Context()) }},
		{"cache:k", func() error { _, err := cache.Put(t.Context(), "k", 1); return err }},
		{"nightly-report", func() error { return functions.LockNightly(locks)(t.Context()) }},
		{"transfer:a%2Db-c", func() error { _, _, err := functions.LockTransfer(locks)(t.Context(), "a-b", "c", 5); return err }},
		{"tag:y", func() error { return functions.LockTag(locks)(t.Context(), "x", "y") }},
		{"z", func() error { return functions.LockLast(locks)("z", 1.5, t.Context()) }},
		{"params.Func:3", func() error { return params.LockFunc(locks)(t.Context(), 3) }},
		{"put", func() error { return hidden.LockOwn(locks)(t.Context(), "put", 1) }},
		{"5", func() error {
			return first2(generic.LockPut[int64, int](locks)(t.Context(), &generic.Pair[int64, int]{Key: 5}))
		}},
		{"worker:eu:42", func() error { return unexported.Run(t.Context(), locks) }},
		{"42", func() error { return unexported.Run(t.Context(), locks) }},
		{"1", func() error { return tags.LockAlways(fakeTags{}, locks).Do(t.Context(), "1") }},
		{"2", func() error { return tags.LockTagged(fakeTags{}, locks).Do(t.Context(), "2") }},
		{"t:3", func() error {
			three := 3
			_, _, err := generic.LockSwap[string, int, int, int](locks)(t.Context(), "t", 1, 2, &three)
			return err
		}},
		{"s", func() error {
			_, err := foreign.LockShop(new(foreign.Shop), locks).Open(t.Context(), partner.Shown{ID: "s"})
			return err
		}},
	} {
		release := locktest.Hold(t, locks, tc.key)
		if err := tc.call(); !errors.Is(err, lockmw.ErrNotAcquired) {
			t.Errorf("%s: err = %v while others hold it, want %v", tc.key, err, lockmw.ErrNotAcquired)
		}
		release()
		if tc.key == "nightly-report" {
			continue // is taken for a while, by its MinHold
		}
		if err := tc.call(); err != nil {
			t.Errorf("%s: err = %v", tc.key, err)
		}
	}
}

func first2[T any](_ T, err error) error { return err }

func TestDecoratorsOfNothingPanic(t *testing.T) {
	locks := locktest.New(t)
	for want, decorate := range map[string]func(){
		"LockOrders: the decorated Orders is nil":        func() { basic.LockOrders(nil, locks) },
		"LockStock: the decorated Stock is nil":          func() { concrete.LockStock(nil, locks) },
		"funclock: functions.Nightly: the Locker is nil": func() { functions.LockNightly(nil) },
		"funclock: basic.Orders.Merge: lockmw: invalid policy: TTL: 1ms is less than 100ms: the margins for clock drift and for telling the holder in time would use it up": func() {
			basic.LockOrders(fakeOrders{}, locks, func(_ string, p *lockmw.Policy) { p.TTL = time.Millisecond })
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic = %v, want %q", got, want)
				}
			}()
			decorate()
		}()
	}
}
