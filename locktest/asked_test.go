package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

// What the author of a test wrote, and what the end of the test says.
func TestHoldFailsAtTheEndOfATestThatDoesNotAsk(t *testing.T) {
	request := func(l *lockmw.Locker, path, template string) {
		mux := http.NewServeMux()
		lock := httplock.Middleware(l, keyfunc.MustParse(template), lockmw.Policy{Prefix: "order:"})
		mux.Handle("POST /orders/{id}/pay", lock(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		post(mux, path)
	}
	const fails = "locktest: Hold: nobody asked for "
	for name, tc := range map[string]struct {
		test func(t testing.TB, l *lockmw.Locker)
		want string
	}{
		"the wrong prefix": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "pay:42")
			request(l, "/orders/42/pay", "{param.id}")
		}, fails + `"pay:42"; asked for were: "order:42"`},
		"released, and not asked for": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:43")()
			request(l, "/orders/42/pay", "{param.id}")
		}, fails + `"order:43"; asked for were: "order:42"`},
		"many keys": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:1")
			for id := range 20 {
				request(l, fmt.Sprintf("/orders/%d/pay", 20+id), "{param.id}")
			}
		}, fails + `"order:1"; asked for were: "order:20", "order:21", "order:22", "order:23", "order:24", "order:25", "order:26", "order:27", "order:28", "order:29" and 10 more`},
		"no lock at all": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:42")
		}, fails + `"order:42"; no other key was asked for`},
		"no key": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:42")
			request(l, "/orders/42/pay", "{query.id}")
		}, fails + `"order:42"; refused without a key: lockmw: acquire "order:": invalid key: keyfunc: required value is missing or empty: query "id"`},
		"a key, and then none": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:42")
			request(l, "/orders/41/pay?id=x", "{param.id}")
			request(l, "/orders/42/pay", "{query.id}")
		}, fails + `"order:42"; asked for were: "order:41"; refused without a key: lockmw: acquire "order:": invalid key: keyfunc: required value is missing or empty: query "id"`},
		"another lock of several": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "x")
			locktest.Hold(t, l, "y")
			_, _, _ = l.AcquireAll(context.Background(), []string{"y", "z"}, lockmw.Policy{})
		}, fails + `"x"; asked for were: "y"`},

		"asked for and refused": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:42")
			request(l, "/orders/42/pay", "{param.id}")
		}, ""},
		"asked for after the release": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:42")()
			request(l, "/orders/42/pay", "{param.id}")
		}, ""},
		"asked for before": {func(t testing.TB, l *lockmw.Locker) {
			request(l, "/orders/42/pay", "{param.id}")
			locktest.Hold(t, l, "order:42")
		}, ""},
		"others have what was lost": {func(t testing.TB, l *lockmw.Locker) {
			acquire(t, l, "order:42", lockmw.Policy{})
			locktest.Lose(t, l, "order:42")
			locktest.Hold(t, l, "order:42")
		}, ""},
		"waits to the end": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:42")
			go func() { _, _, _ = l.Acquire(context.Background(), "order:42", lockmw.Policy{Wait: time.Minute}) }()
			locktest.AwaitWaiters(t, l, "order:42", 1)
		}, ""},
		"has waited, and leaves as the test ends": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:42")
			ctx, cancel := context.WithCancel(context.Background())
			go func() { _, _, _ = l.Acquire(ctx, "order:42", lockmw.Policy{Wait: time.Minute}) }()
			locktest.AwaitWaiters(t, l, "order:42", 1)
			cancel()
		}, ""},
		"without Redis": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:42")
			locktest.Down(t, l)
			request(l, "/orders/42/pay", "{param.id}")
		}, ""},
		"without Redis, and without the lock": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "order:42")
			locktest.Down(t, l)
			acquire(t, l, "order:42", lockmw.Policy{FailOpen: true})
		}, ""},
		"several at once": {func(t testing.TB, l *lockmw.Locker) {
			locktest.Hold(t, l, "y")
			_, _, err := l.AcquireAll(context.Background(), []string{"y", "x"}, lockmw.Policy{})
			if !errors.Is(err, lockmw.ErrNotAcquired) {
				t.Errorf("acquire: %v", err)
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			said := try(t, func(t testing.TB) {
				l := locktest.New(t)
				if tc.want != "" {
					locktest.Hurry(t, l, 250*time.Millisecond)
				}
				tc.test(t, l)
			})
			if said != tc.want {
				t.Errorf("got  %s\nwant %s", said, tc.want)
			}
		})
	}
}

// A part of a test that shares the Locker is judged by what was asked for until its end.
func TestHoldFailsAtTheEndOfAPart(t *testing.T) {
	l := locktest.New(t)
	locktest.Hurry(t, l, 50*time.Millisecond)
	if said := try(t, func(t testing.TB) { locktest.Hold(t, l, key) }); said == "" {
		t.Error("a part in which nobody asks passes")
	}
	acquire(t, l, key, lockmw.Policy{})
}
