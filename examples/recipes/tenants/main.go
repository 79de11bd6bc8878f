// Command tenants has locks that one tenant cannot take from another: in net/http and in Gin.
package main

import (
	"cmp"
	"context"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

var (
	key    = keyfunc.MustParse("{value.tenant}:{param.id|int}") // without a tenant: 400, and Redis is not asked
	policy = lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second}
)

// tenants says whose tokens these are. It stands for your authentication.
var tenants = map[string]string{"Bearer a": "acme", "Bearer b": "bolt"}

type tenantKey struct{}

// authenticate is in front of the lock. What it knows is in the context.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenant, ok := tenants[r.Header.Get("Authorization")]
		if !ok {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tenantKey{}, tenant)))
	})
}

// netHTTP tells the lock by WithValues what {value.tenant} is.
func netHTTP(locks *lockmw.Locker, pay http.HandlerFunc) http.Handler {
	lock := httplock.Middleware(locks, key, policy,
		httplock.WithValues(func(r *http.Request, name string) (any, bool) {
			tenant, ok := r.Context().Value(tenantKey{}).(string)
			return tenant, ok && name == "tenant"
		}))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/pay", authenticate(lock(pay)))
	return mux
}

// inGin needs no option: {value.tenant} is what c.Set has stored. Echo is the same.
func inGin(locks *lockmw.Locker, pay gin.HandlerFunc) http.Handler {
	r := gin.New()
	r.Use(func(c *gin.Context) {
		tenant, ok := tenants[c.GetHeader("Authorization")]
		if !ok {
			c.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		c.Set("tenant", tenant)
	})
	r.POST("/orders/:id/pay", ginlock.Middleware(locks, key, policy), pay)
	return r
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")}) // without one: localhost:6379
	locks, err := lockmw.New(client, lockmw.WithLogger(slog.Default()))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", netHTTP(locks, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("paid\n")) }))
	mux.Handle("/gin/", http.StripPrefix("/gin", inGin(locks, func(c *gin.Context) { c.String(http.StatusOK, "paid in Gin\n") })))
	log.Fatal(http.ListenAndServe(cmp.Or(os.Getenv("ADDR"), ":8080"), mux))
}
