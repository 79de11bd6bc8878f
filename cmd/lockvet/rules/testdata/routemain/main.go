package main

import (
	"log"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

var (
	locks  *lockmw.Locker
	policy lockmw.Policy
	key    = keyfunc.MustParse("{param.id|int}")

	engine = gin.New()
	others = gin.New()
)

func pay(*gin.Context) {}

func main() {
	engine.POST("/orders/:id/pay", pay)
	engine.Use(ginlock.Middleware(locks, key, policy)) // want `engine.Use is for the routes that come after it`

	others.GET("/health", pay)
	others.Use(ginlock.Middleware(locks, key, policy))
	addOthers()
	go func() { log.Println(http.ListenAndServe(":8081", others)) }()

	go func() { log.Println(Router().Run(":8082")) }()
	log.Fatal(engine.Run())
}

func addOthers() { others.POST("/orders/:id/pay", pay) }

// Router has a name that other packages could use, but nobody imports a program.
func Router() *gin.Engine {
	r := gin.New()
	r.POST("/orders/:id/pay", pay)
	r.Use(ginlock.Middleware(locks, key, policy)) // want `r.Use is for the routes that come after it`
	return r
}
