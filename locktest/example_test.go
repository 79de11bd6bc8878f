package locktest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// shop is the code under test. It charges for an order under the order's lock, and once for each idempotency key.
func shop(locks *lockmw.Locker, charge func(ctx context.Context, order int64) error) http.Handler {
	pay := func(w http.ResponseWriter, r *http.Request) {
		order, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil {
			http.Error(w, "no such order", http.StatusBadRequest)
			return
		}
		if err := charge(r.Context(), order); err == nil {
			fmt.Fprint(w, "paid")
		}
	}
	mux := http.NewServeMux()
	once := httplock.Idempotent(locks, keyfunc.MustParse("{header.Idempotency-Key|idempotency}"),
		lockmw.Flight{Policy: lockmw.Policy{Wait: time.Minute}, Retain: time.Hour, Crash: lockmw.Uncertain},
		httplock.WithKeysOfEverybody(), httplock.WithOptionalKey())
	lock := httplock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:"})
	mux.Handle("POST /orders/{id}/pay", once(lock(http.HandlerFunc(pay))))
	return mux
}

func post(handler http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	return w
}

// click is post with an idempotency key.
func click(handler http.Handler, path, key string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, nil)
	r.Header.Set("Idempotency-Key", key)
	handler.ServeHTTP(w, r)
	return w
}

func Example() {
	t := new(exampleT) // a test has a *testing.T instead, and needs no end
	defer t.end()
	locks := locktest.New(t)

	// Another process has the order.
	handler := shop(locks, func(context.Context, int64) error { return nil })
	release := locktest.Hold(t, locks, "order:42")
	fmt.Println(post(handler, "/orders/42/pay").Code)
	release()
	fmt.Println(post(handler, "/orders/42/pay").Code)

	// The lock is lost while the customer is charged.
	handler = shop(locks, func(ctx context.Context, _ int64) error {
		locktest.Lose(t, locks, "order:42")
		fmt.Println("charge:", context.Cause(ctx))
		return ctx.Err()
	})
	fmt.Println(post(handler, "/orders/42/pay").Body)
	// Output:
	// 409
	// 200
	// charge: lockmw: lock was lost
	// {"type":"about:blank","title":"Internal Server Error","status":500,"detail":"Exclusive access was lost while the request was processed; it may have taken effect.","code":"LOCK_LOST"}
}

// A test whose author takes the key for another one than the handler does fails, instead
// of passing without a lock.
func ExampleHold_mistakenKey() {
	t := new(exampleT)
	defer t.end()
	locks := locktest.New(t)
	handler := shop(locks, func(context.Context, int64) error { return nil })

	locktest.Hold(t, locks, "42") // without the policy's prefix
	fmt.Println(post(handler, "/orders/42/pay").Code)
	// Output:
	// 200
	// locktest: Hold: nobody asked for "42"; asked for were: "order:42"
}

// A request that waits is served as soon as the lock is free.
func ExampleAwaitWaiters() {
	t := new(exampleT)
	defer t.end()
	locks := locktest.New(t)
	release := locktest.Hold(t, locks, "report:7")

	done := make(chan error)
	go func() {
		done <- locks.WithLock(context.Background(), "7", lockmw.Policy{Prefix: "report:", Wait: time.Minute},
			func(context.Context) error { fmt.Println("the report is written"); return nil })
	}()
	locktest.AwaitWaiters(t, locks, "report:7", 1)
	fmt.Println("it waits")
	release()
	fmt.Println(<-done)
	// Output:
	// it waits
	// the report is written
	// <nil>
}

// What the code under test has locked while it works, and what it leaves behind.
func ExampleKeys() {
	t := new(exampleT)
	defer t.end()
	locks := locktest.New(t)
	handler := shop(locks, func(context.Context, int64) error {
		fmt.Println(locktest.Keys(t, locks))
		return nil
	})
	post(handler, "/orders/42/pay")
	fmt.Println(locktest.Keys(t, locks))
	// Output:
	// [order:42]
	// []
}

// The process dies before it charges the card. Nobody knows that, and nobody pays again until
// somebody has looked.
func ExampleCrash() {
	t := new(exampleT)
	defer t.end()
	locks := locktest.New(t)
	died, charged := false, 0
	handler := shop(locks, func(ctx context.Context, _ int64) error {
		if !died {
			died = true
			locktest.Crash(t, locks)
			return ctx.Err()
		}
		charged++
		return nil
	})

	click(handler, "/orders/42/pay", "k1") // not looked at: the client of a dead process gets no answer
	fmt.Print(click(handler, "/orders/42/pay", "k1").Body)
	fmt.Println("charged:", charged)

	for _, unknown := range locktest.Uncertain(t, locks) { // somebody has looked: nothing was charged
		if err := locks.Resolve(context.Background(), unknown.Key, unknown.ID, lockmw.Again); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(click(handler, "/orders/42/pay", "k1").Body)
	fmt.Println("charged:", charged)
	// Output:
	// {"type":"about:blank","title":"Conflict","status":409,"detail":"A request with this key was begun, and it is not known whether it took effect.","code":"IDEMPOTENCY_UNCERTAIN"}
	// charged: 0
	// paid
	// charged: 1
}

// Redis is away, and comes back.
func ExampleDown() {
	t := new(exampleT)
	defer t.end()
	locks := locktest.New(t)
	handler := shop(locks, func(context.Context, int64) error { return nil })

	locktest.Down(t, locks)
	w := post(handler, "/orders/42/pay")
	fmt.Println(w.Code, "Retry-After:", w.Header().Get("Retry-After"))

	locktest.Up(t, locks)
	fmt.Println(post(handler, "/orders/42/pay").Code)
	// Output:
	// 503 Retry-After: 1
	// 200
}

// exampleT stands for the *testing.T that examples do not get.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Skipped() bool                     { return false }
func (t *exampleT) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Errorf(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
func (t *exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (t *exampleT) end() {
	for _, f := range slices.Backward(t.cleanups) {
		f()
	}
}
