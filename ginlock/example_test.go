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
