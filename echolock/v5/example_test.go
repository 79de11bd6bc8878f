package echolock_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func ExampleMiddleware() {
	client, closeRedis := redistest.Example() // a service has its own
	defer closeRedis()
	locks, err := lockmw.New(client)
	if err != nil {
		log.Print(err)
		return
	}
	defer locks.Close(context.Background())
	pay := func(c *echo.Context) error {
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
