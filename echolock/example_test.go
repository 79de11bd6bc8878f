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

func ExampleIdempotent() {
	locks, closeAll := open()
	defer closeAll()
	receipts := 0
	signIn := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user", "ann")
			return next(c)
		}
	}
	pay := func(c echo.Context) error {
		receipts++
		return c.String(http.StatusCreated, fmt.Sprintf("receipt %d", receipts))
	}

	e := echo.New()
	e.POST("/orders/:id/pay", pay, signIn,
		echolock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
			lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain}))

	for range 2 {
		w := httptest.NewRecorder()
		click := httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil)
		click.Header.Set("Idempotency-Key", "8e03978e-40d5")
		e.ServeHTTP(w, click)
		fmt.Println(w.Code, w.Body, w.Header().Get("Idempotent-Replayed") == "true")
	}
	// Output:
	// 201 receipt 1 false
	// 201 receipt 1 true
}
