package echolock_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/echolock"
	"github.com/lockmw/kit/internal/test/redistest"
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
	pay := func(c echo.Context) error {
		lease, _ := lockmw.FromContext(c.Request().Context())
		return c.String(http.StatusOK, "paid under "+lease.Key())
	}

	e := echo.New()
	e.POST("/orders/:id/pay", pay,
		echolock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second}))

	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Println(w.Body)
	// Output: paid under order:42
}
