package route

import (
	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	echov5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/echolock"
	echolockv5 "github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

var (
	locks  *lockmw.Locker
	key    = keyfunc.MustParse("{param.id|int}")
	policy lockmw.Policy
)

func pay(*gin.Context) {}

func order(r *gin.Engine) {
	r.POST("/orders/:id/pay", pay, ginlock.Middleware(locks, key, policy))                                 // want `the lock stands behind the handler`
	r.Group("/v2").Handle("POST", "/orders/:id/pay", pay, ginlock.Idempotent(locks, key, lockmw.Flight{})) // want `the lock stands behind the handler`
	r.POST("/orders/:id/ship", ginlock.Middleware(locks, key, policy), pay)
}

func groups(r *gin.Engine, e *echo.Echo, e5 *echov5.Echo) {
	orders := r.Group("/orders")
	orders.Use(ginlock.Middleware(locks, key, policy))
	orders.POST("/:id/pay", pay)

	late := r.Group("/late")
	late.POST("/:id/pay", pay)
	late.Use(gin.Recovery(), ginlock.Middleware(locks, key, policy)) // want `late.Use is for the routes that come after it`

	g := e.Group("/orders")
	g.POST("/:id/pay", nil)
	g.Use(echolock.Middleware(locks, key, policy)) // want `g.Use is for the routes that come after it`
	e.POST("/:id/pay", nil)
	e.Use(echolock.Middleware(locks, key, policy)) // for all routes of an Echo, also those above

	g5 := e5.Group("/orders")
	g5.POST("/:id/pay", nil)
	g5.Use(echolockv5.Middleware(locks, key, policy)) // want `g5.Use is for the routes that come after it`

	two := r.Group("/two")
	two.Use(ginlock.Middleware(locks, key, policy))
	two.POST("/:id/pay", pay)
	two.Use(gin.Logger())
}
