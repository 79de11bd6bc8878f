package locktest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/failtest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
	"github.com/lockmw/kit/locktest"
)

func TestLockedTellsOfEachRouteWithoutALock(t *testing.T) {
	locks := locktest.New(t)
	lock := func(template string) http.Handler {
		return httplock.Middleware(locks, keyfunc.MustParse(template), lockmw.Policy{})(http.NotFoundHandler())
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", lock("{param.id}"))
	mux.Handle("POST /transfers", lock("{body.from}"))
	mux.Handle("POST /users", lock("{header.X-User}"))
	mux.Handle("POST /refunds/{id}", lock("{param.order}"))
	mux.Handle("POST /orders/{id}/cancel", http.NotFoundHandler())
	for _, tc := range []struct {
		request, want string // nothing: it passes
	}{
		{"POST /orders/42/pay", ""},
		{`POST /transfers {"from": 1}`, ""},
		{"POST /users", ""},
		{"POST /refunds/42", `"POST /refunds/42" takes no lock (status 500): lockmw: acquire ""`},
		{"POST /orders/42/cancel", `"POST /orders/42/cancel" takes no lock (status 404): no middleware of this Locker`},
		{"pay", `request "pay" is none`},
	} {
		p := failtest.New(t)
		p.Run(func() { locktest.Locked(p, locks, mux, "POST /orders/1/pay", tc.request) })
		if said := p.Said(); p.Failed() != (tc.want != "") || !strings.Contains(said, tc.want) {
			t.Errorf("%s: failed %v and said %q, want %q", tc.request, p.Failed(), said, tc.want)
		}
	}
	p := failtest.New(t)
	p.Run(func() { locktest.Locked(p, locks, mux) })
	if !p.Failed() {
		t.Error("no request passes")
	}
}
