package ginlock_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/ginlock"
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
	gin.SetMode(gin.ReleaseMode)
	pay := func(c *gin.Context) {
		lease, _ := lockmw.FromContext(c.Request.Context())
		c.String(http.StatusOK, "paid under "+lease.Key())
	}

	r := gin.New()
	r.POST("/orders/:id/pay",
		ginlock.Middleware(locks, keyfunc.MustParse("{param.id|int}"), lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second}),
		pay)

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil))
	fmt.Println(w.Body)
	// Output: paid under order:42
}

func ExampleIdempotent() {
	locks, closeAll := open()
	defer closeAll()
	gin.SetMode(gin.ReleaseMode)
	receipts := 0
	signIn := func(c *gin.Context) { c.Set("user", "ann") }
	pay := func(c *gin.Context) {
		receipts++
		c.String(http.StatusCreated, "receipt %d", receipts)
	}

	r := gin.New()
	r.POST("/orders/:id/pay", signIn,
		ginlock.Idempotent(locks, keyfunc.MustParse("{value.user}:{header.Idempotency-Key|idempotency}"),
			lockmw.Flight{Policy: lockmw.Policy{Wait: 10 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain}),
		pay)

	for range 2 {
		w := httptest.NewRecorder()
		click := httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil)
		click.Header.Set("Idempotency-Key", "8e03978e-40d5")
		r.ServeHTTP(w, click)
		fmt.Println(w.Code, w.Body, w.Header().Get("Idempotent-Replayed") == "true")
	}
	// Output:
	// 201 receipt 1 false
	// 201 receipt 1 true
}
