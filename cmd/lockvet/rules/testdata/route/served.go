package route

import (
	"errors"
	"log"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"

	"github.com/lockmw/kit/echolock"
	"github.com/lockmw/kit/ginlock"
)

func run() {
	r := gin.New()
	r.POST("/orders/:id/pay", pay)
	r.Use(ginlock.Middleware(locks, key, policy)) // want `r.Use is for the routes that come after it`
	log.Fatal(r.Run())
}

func listen() error {
	r := gin.Default()
	r.Static("/pictures", "pictures")
	r.Use(ginlock.Middleware(locks, key, policy)) // want `r.Use is for the routes that come after it`
	if err := r.SetTrustedProxies(nil); err != nil {
		return err
	}
	r.MaxMultipartMemory = 8 << 20
	return http.ListenAndServe(":8080", r)
}

func handler() http.Handler {
	r := gin.New()
	for _, path := range []string{"/orders/:id/pay", "/orders/:id/ship"} {
		r.POST(path, pay)
	}
	r.Use(ginlock.Middleware(locks, key, policy)) // want `r.Use is for the routes that come after it`
	return r
}

func server() *http.Server {
	r := gin.New()
	r.POST("/orders/:id/pay", pay)
	r.Use(ginlock.Middleware(locks, key, policy)) // want `r.Use is for the routes that come after it`
	return &http.Server{Handler: r}
}

func ofServer(srv *http.Server) {
	r := gin.New()
	r.POST("/orders/:id/pay", pay)
	r.Use(ginlock.Middleware(locks, key, policy)) // want `r.Use is for the routes that come after it`
	srv.Handler = r
	go func() { _ = srv.ListenAndServe() }()
}

func inGoroutine() {
	r := gin.New()
	r.POST("/orders/:id/pay", pay)
	r.Use(ginlock.Middleware(locks, key, policy)) // want `r.Use is for the routes that come after it`
	go func() { log.Println(r.Run(":8080")) }()
}

func setOff() error {
	r := gin.New()
	orders := r.Group("/orders")
	{
		orders.POST("/:id/pay", pay)
		orders.Use(ginlock.Middleware(locks, key, policy)) // want `orders.Use is for the routes that come after it`
	}
	return r.Run()
}

func inCase(what string) error {
	switch what {
	case "orders":
		r := gin.New()
		r.POST("/orders/:id/pay", pay)
		r.Use(ginlock.Middleware(locks, key, policy)) // want `r.Use is for the routes that come after it`
		return r.Run()
	}
	return errors.New("unknown")
}

// router is for served alone.
func router() *gin.Engine {
	r := gin.New()
	r.POST("/orders/:id/pay", pay)
	r.Use(ginlock.Middleware(locks, key, policy)) // want `r.Use is for the routes that come after it`
	return r
}

func served() error {
	r := router()
	listed(r)
	return r.RunTLS(":443", "cert.pem", "key.pem")
}

func listed(r *gin.Engine) {
	for _, route := range r.Routes() {
		log.Println(route.Path)
	}
}

func routerOrError() (*gin.Engine, error) {
	r, err := empty()
	if err != nil {
		return nil, err
	}
	r.POST("/orders/:id/pay", pay)
	r.Use(ginlock.Middleware(locks, key, policy)) // want `r.Use is for the routes that come after it`
	return r, nil
}

func servedOrError() error {
	r, err := routerOrError()
	if err != nil {
		return err
	}
	var h http.Handler = r
	return http.ListenAndServe(":8080", h)
}

func empty() (*gin.Engine, error) { return gin.New(), nil }

func filesOfEcho(e *echo.Echo) {
	g := e.Group("/pictures")
	g.Static("/", "pictures")
	g.Use(echolock.Middleware(locks, key, policy)) // want `g.Use is for the routes that come after it`
}

// From here on others may add routes, or have them already.

func common(r *gin.Engine) {
	r.GET("/health", pay)
	r.Use(ginlock.Middleware(locks, key, policy)) // the caller adds the routes
}

func withRoutes() error {
	r := gin.New()
	common(r)
	r.POST("/orders/:id/pay", pay)
	return r.Run()
}

func branch(health bool) error {
	r := gin.New()
	if health {
		r.GET("/health", pay)
		r.Use(ginlock.Middleware(locks, key, policy))
	}
	r.POST("/orders/:id/pay", pay)
	return r.Run()
}

func each(paths map[string]gin.HandlerFunc) error {
	r := gin.New()
	for path, handler := range paths {
		r.POST(path, handler)
		r.Use(ginlock.Middleware(locks, key, policy)) // for the next one
	}
	return r.Run()
}

func base() *gin.Engine {
	r := gin.New()
	r.GET("/health", pay)
	r.Use(ginlock.Middleware(locks, key, policy))
	return r
}

func onBase() error {
	r := base()
	r.POST("/orders/:id/pay", pay)
	return r.Run()
}

// Base is for other packages.
func Base() *gin.Engine {
	r := gin.New()
	r.GET("/health", pay)
	r.Use(ginlock.Middleware(locks, key, policy))
	return r
}

type app struct{ router *gin.Engine }

func (a *app) routes() { a.router.POST("/orders/:id/pay", pay) }

func stored() error {
	r := gin.New()
	a := app{router: r}
	r.GET("/health", pay)
	r.Use(ginlock.Middleware(locks, key, policy))
	a.routes()
	return r.Run()
}

func inFunction() error {
	r := gin.New()
	orders := func() { r.POST("/orders/:id/pay", pay) }
	r.GET("/health", pay)
	r.Use(ginlock.Middleware(locks, key, policy))
	orders()
	return r.Run()
}

func passed() error {
	r := gin.New()
	r.GET("/health", pay)
	r.Use(ginlock.Middleware(locks, key, policy))
	addOrders(r)
	return r.Run()
}

func addOrders(r gin.IRouter) { r.POST("/orders/:id/pay", pay) }

func chained() error {
	r := gin.New()
	r.GET("/health", pay)
	r.Use(ginlock.Middleware(locks, key, policy))
	r.Use(gin.Logger()).POST("/orders/:id/pay", pay)
	return r.Run()
}

func continued() error {
	r := gin.New()
	health := r.GET("/health", pay) // the engine once more
	r.Use(ginlock.Middleware(locks, key, policy))
	health.POST("/orders/:id/pay", pay)
	return r.Run()
}

func proxy() error {
	r := gin.New()
	r.NoRoute(pay)
	r.GET("/health", pay)
	r.Use(ginlock.Middleware(locks, key, policy)) // for the handler of NoRoute
	return r.Run()
}

func inGroup() error {
	r := gin.New()
	r.GET("/health", pay)
	r.Use(ginlock.Middleware(locks, key, policy))
	orders := r.Group("/orders")
	orders.POST("/:id/pay", pay)
	return r.Run()
}

func ofFiles() error {
	r := gin.New()
	r.GET("/health", pay)
	r.Use(ginlock.Middleware(locks, key, policy))
	r.StaticFile("/logo.png", "logo.png")
	return r.Run()
}
