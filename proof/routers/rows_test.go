package routers

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gorilla/mux"
	"github.com/julienschmidt/httprouter"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/httplock"
)

// A line puts the lock on POST /orders/42/pay.
type line struct {
	router  string
	code    []string // as the table of docs/middlewares.md prints it, and as it stands in service
	service func(s *Site) http.Handler
	route   string // what {route} is there; "" if it is a mistake to ask
}

var lines = []line{
	{"net/http", []string{`mux.Handle("POST /orders/{id}/pay", lock(pay))`}, func(s *Site) http.Handler {
		lock, pay := s.http()
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{id}/pay", lock(pay))
		return mux
	}, "POST /orders/{id}/pay"},
	{"chi", []string{`r.With(lock).Post("/orders/{id}/pay", pay)`}, func(s *Site) http.Handler {
		lock, pay := s.http()
		r := chi.NewRouter()
		r.With(lock).Post("/orders/{id}/pay", pay)
		return r
	}, "/orders/{id}/pay"},
	{"gorilla/mux", []string{`r.Handle("/orders/{id}/pay", lock(pay))`, `httplock.WithParams(mux.Vars)`}, func(s *Site) http.Handler {
		lock, pay := s.http(httplock.WithParams(mux.Vars))
		r := mux.NewRouter()
		r.Handle("/orders/{id}/pay", lock(pay))
		return r
	}, ""},
	{"httprouter", []string{`r.Handler("POST", "/orders/:id/pay", lock(pay))`, `httplock.WithParams(params)`}, func(s *Site) http.Handler {
		lock, pay := s.http(httplock.WithParams(params))
		r := httprouter.New()
		r.Handler("POST", "/orders/:id/pay", lock(pay))
		return r
	}, ""},
	{"Gin", []string{`r.POST("/orders/:id/pay", lock, pay)`}, func(s *Site) http.Handler {
		lock, pay := s.gin()
		r := gin.New()
		r.POST("/orders/:id/pay", lock, pay)
		return r
	}, "/orders/:id/pay"},
	{"Gin", []string{`r.Group("/orders/:id", lock).POST("/pay", pay)`}, func(s *Site) http.Handler {
		lock, pay := s.gin()
		r := gin.New()
		r.Group("/orders/:id", lock).POST("/pay", pay)
		return r
	}, "/orders/:id/pay"},
	{"Echo v4", []string{`e.POST("/orders/:id/pay", pay, lock)`}, func(s *Site) http.Handler {
		lock, pay := s.echo()
		e := echo.New()
		e.POST("/orders/:id/pay", pay, lock)
		return e
	}, "/orders/:id/pay"},
	{"Echo v4", []string{`e.Group("/orders/:id", lock).POST("/pay", pay)`}, func(s *Site) http.Handler {
		lock, pay := s.echo()
		e := echo.New()
		e.Group("/orders/:id", lock).POST("/pay", pay)
		return e
	}, "/orders/:id/pay"},
	{"Echo v5", []string{`e.POST("/orders/:id/pay", pay, lock)`}, func(s *Site) http.Handler {
		lock, pay := s.echo5()
		e := echo5.New()
		e.POST("/orders/:id/pay", pay, lock)
		return e
	}, "/orders/:id/pay"},
	{"Echo v5", []string{`e.Group("/orders/:id", lock).POST("/pay", pay)`}, func(s *Site) http.Handler {
		lock, pay := s.echo5()
		e := echo5.New()
		e.Group("/orders/:id", lock).POST("/pay", pay)
		return e
	}, "/orders/:id/pay"},
}

// values are what a parameter's name and its value are behind a pattern, for the path
// /p/a/b, or /p/a where the pattern takes one part of the path.
var values = map[string]map[string][2]string{
	"net/http":    {"{x}": {"x", "a"}, "{x...}": {"x", "a/b"}},
	"chi":         {"{x}": {"x", "a"}, "{x:[a-z]+}": {"x", "a"}, "*": {"*", "a/b"}},
	"gorilla/mux": {"{x}": {"x", "a"}, "{x:.+}": {"x", "a/b"}},
	"httprouter":  {":x": {"x", "a"}, "*x": {"x", "/a/b"}},
	"Gin":         {":x": {"x", "a"}, "*x": {"x", "/a/b"}},
	"Echo v4":     {":x": {"x", "a"}, "*": {"*", "a/b"}},
	"Echo v5":     {":x": {"x", "a"}, "*": {"*", "a/b"}},
}
