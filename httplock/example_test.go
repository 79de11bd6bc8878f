package httplock_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/redistest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// open returns a Locker on a Redis inside this program. A service passes its
// own client to New.
func open() (locks *lockmw.Locker, closeAll func()) {
	client, closeRedis := redistest.Example()
	locks, err := lockmw.New(client)
	if err != nil {
		log.Fatal(err)
	}
	return locks, func() {
		_ = locks.Close(context.Background())
		closeRedis()
	}
}

func ExampleMiddleware() {
	locks, closeAll := open()
	defer closeAll()
	pay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lease, _ := lockmw.FromContext(r.Context())
		fmt.Fprint(w, "paid under ", lease.Key())
	})

	mux := http.NewServeMux()
	lock := httplock.Middleware(locks, keyfunc.MustParse("order:{param.id}"), lockmw.Policy{Prefix: "pay:", Wait: 2 * time.Second})
	mux.Handle("POST /orders/{id}/pay", lock(pay)) // around one route, not around the mux

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Println(w.Body)
	// Output: paid under pay:order:42
}
