package lockclient_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/lockclient"
)

// Each code that the middlewares have: whether a client asks again that is told a time.
var codes = map[string]bool{
	"LOCK_BUSY":                   true,
	"LOCK_WAIT_TIMEOUT":           true,
	"LOCK_QUEUE_FULL":             true,
	"LOCK_BACKEND_UNAVAILABLE":    true,
	"LOCK_CLOSED":                 true,
	"IDEMPOTENCY_IN_PROGRESS":     true,
	"LOCK_COOLDOWN":               false,
	"LOCK_TICKET_SPENT":           false,
	"LOCK_LOST":                   false,
	"LOCK_KEY_INVALID":            false,
	"LOCK_MISUSE":                 false,
	"IDEMPOTENCY_KEY_MISSING":     false,
	"IDEMPOTENCY_KEY_REUSED":      false,
	"IDEMPOTENCY_UNCERTAIN":       false,
	"IDEMPOTENCY_ANSWER_NOT_KEPT": false,
}

// This package does not import lockmw, which a client has no use for. So the codes are written once more, and compared here.
func TestAllCodesAreKnown(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../lockmw/refusal.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found[code] = true
		return true
	})
	if got, want := slices.Sorted(maps.Keys(codes)), slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("the codes here are %q, and the middlewares' %q", got, want)
	}
	for code, again := range codes {
		if lockclient.Again(code) != again {
			t.Errorf("Again(%s) = %t", code, !again)
		}
	}
	if lockclient.Again("") || lockclient.Again("lock_busy") {
		t.Error("what is no code is asked again")
	}
}

// refused is a service that always refuses, and notes when it was asked.
type refused struct {
	code  string
	after time.Duration
	asked []time.Duration
}

func (s *refused) ask(b lockclient.Budget, ctx context.Context) error { //nolint:revive // ctx is what is tested
	began := time.Now()
	return b.Ask(ctx, func() (string, time.Duration) {
		s.asked = append(s.asked, time.Since(began))
		return s.code, s.after
	})
}

func TestABudgetIsKept(t *testing.T) {
	for name, tc := range map[string]struct {
		budget  lockclient.Budget
		service refused
		within  time.Duration // the deadline of the call; 0: it has none
		tries   int
	}{
		"as it is":          {service: refused{code: "LOCK_BUSY", after: 100 * time.Millisecond}, tries: 5},
		"once more":         {budget: lockclient.Budget{Retries: 1}, service: refused{code: "LOCK_BUSY", after: time.Second}, tries: 2},
		"never":             {budget: lockclient.Budget{Retries: -1}, service: refused{code: "LOCK_BUSY", after: time.Second}, tries: 1},
		"no time":           {budget: lockclient.Budget{Within: time.Second}, service: refused{code: "LOCK_BUSY", after: time.Second}, tries: 1},
		"time for one":      {budget: lockclient.Budget{Within: 2100 * time.Millisecond}, service: refused{code: "LOCK_BUSY", after: time.Second}, tries: 2},
		"30 s":              {budget: lockclient.Budget{Retries: 1}, service: refused{code: "LOCK_BUSY", after: 14 * time.Second}, tries: 2}, // what is drawn is below 14 s
		"no more than 30 s": {budget: lockclient.Budget{Retries: 1}, service: refused{code: "LOCK_BUSY", after: 31 * time.Second}, tries: 1},
		"a deadline":        {within: time.Second, service: refused{code: "LOCK_BUSY", after: time.Second}, tries: 1},
		"a deadline, again": {within: 2100 * time.Millisecond, service: refused{code: "LOCK_BUSY", after: time.Second}, tries: 2},
		"a cool-down":       {service: refused{code: "LOCK_COOLDOWN", after: time.Second}, tries: 1},
		"no time to ask":    {service: refused{code: "LOCK_BUSY"}, tries: 1},
		"a time that is over, by a clock that differs": {service: refused{code: "LOCK_BUSY", after: -time.Second}, tries: 1},
		"ever":    {service: refused{code: "LOCK_BUSY", after: math.MaxInt64}, tries: 1},
		"no code": {service: refused{after: time.Second}, tries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.within)
					defer cancel()
				}
				var told []lockclient.Refusal
				tc.budget.OnRefusal = func(_ context.Context, r lockclient.Refusal) { told = append(told, r) }
				if err := tc.service.ask(tc.budget, ctx); err != nil {
					t.Error(err)
				}
				if len(tc.service.asked) != tc.tries {
					t.Errorf("asked at %v, want %d times", tc.service.asked, tc.tries)
				}
				if !lockclient.Again(tc.service.code) || tc.service.after <= 0 {
					if len(told) != 0 {
						t.Errorf("told of %v", told)
					}
					return
				}
				if len(told) != tc.tries {
					t.Fatalf("told of %v, want all %d", told, tc.tries)
				}
				for i, r := range told {
					last := i == len(told)-1
					if r.Code != tc.service.code || r.After != min(tc.service.after, 1000*time.Hour) || r.Try != i+1 || r.Again == last || r.Wait < r.After {
						t.Errorf("refusal %d is %+v", i+1, r)
					}
					if !last && tc.service.asked[i+1]-tc.service.asked[i] != r.Wait {
						t.Errorf("try %d came after %v, want %v", i+2, tc.service.asked[i+1]-tc.service.asked[i], r.Wait)
					}
				}
			})
		})
	}
}

func TestAPauseEndsWithItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		began := time.Now()
		service := refused{code: "LOCK_BUSY", after: time.Second}
		if err := service.ask(lockclient.Budget{}, ctx); !errors.Is(err, context.Canceled) || len(service.asked) != 1 {
			t.Errorf("%v after %d tries", err, len(service.asked))
		}
		if took := time.Since(began); took != 500*time.Millisecond {
			t.Errorf("after %v", took)
		}
	})
}

// A thousand clients that are told "1 s" at the same moment come over the second that follows, and those that are refused again over two.
func TestClientsThatWereRefusedTogetherComeApart(t *testing.T) {
	const clients, bins = 1000, 10
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var came [2][bins]int // of second and third tries, how many in each tenth of the time that they have
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				last, n := time.Now(), 0
				err := lockclient.Budget{Retries: 2}.Ask(context.Background(), func() (string, time.Duration) {
					if n > 0 {
						late := time.Since(last) - time.Second
						spread := time.Duration(n) * time.Second
						mu.Lock()
						came[n-1][int(late*bins/spread)]++
						mu.Unlock()
					}
					last, n = time.Now(), n+1
					return "LOCK_BUSY", time.Second
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for i, of := range came {
			t.Logf("clients that came in each tenth for try %d: %v", i+2, of) // docs/middlewares.md has a picture of it
			for tenth, n := range of {
				// 100 are meant, with a standard deviation of 9.5: seven of these are one run in 10^11
				if n < 100-67 || n > 100+67 {
					t.Errorf("try %d: %d of %d clients in tenth %d: %v", i+2, n, clients, tenth, of)
				}
			}
		}
	})
}
