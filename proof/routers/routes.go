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

// A Route makes the service of a site with one route, of any pattern of its router.
type Route func(s *Site, method, pattern string) http.Handler

// Routes are how each router gets a route, also where it is told to take the path in another way.
var Routes = map[string]Route{
	"net/http": func(s *Site, method, pattern string) http.Handler {
		lock, pay := s.http()
		mux := http.NewServeMux()
		mux.Handle(method+" "+pattern, lock(pay))
		return mux
	},
	"chi": func(s *Site, method, pattern string) http.Handler {
		lock, pay := s.http()
		r := chi.NewRouter()
		r.With(lock).Method(method, pattern, pay)
		return r
	},
	"gorilla/mux": func(s *Site, method, pattern string) http.Handler { return onMux(s, mux.NewRouter(), method, pattern) },
	"gorilla/mux, UseEncodedPath": func(s *Site, method, pattern string) http.Handler {
		return onMux(s, mux.NewRouter().UseEncodedPath(), method, pattern)
	},
	"httprouter": func(s *Site, method, pattern string) http.Handler {
		lock, pay := s.http(httplock.WithParams(params))
		r := httprouter.New()
		r.Handler(method, pattern, lock(pay))
		return r
	},
	"Gin":             onGin(false, true),
	"Gin, UseRawPath": onGin(true, true),
	"Gin, UseRawPath and no UnescapePathValues": onGin(true, false),
	"Echo v4": func(s *Site, method, pattern string) http.Handler {
		lock, pay := s.echo()
		e := echo.New()
		e.Add(method, pattern, pay, lock)
		return e
	},
	"Echo v5":                            onEcho5(echo5.RouterConfig{}),
	"Echo v5, UseEscapedPathForMatching": onEcho5(echo5.RouterConfig{UseEscapedPathForMatching: true}),
}

func onMux(s *Site, r *mux.Router, method, pattern string) http.Handler {
	lock, pay := s.http(httplock.WithParams(mux.Vars))
	r.Handle(pattern, lock(pay)).Methods(method)
	return r
}

func onGin(rawPath, unescape bool) Route {
	return func(s *Site, method, pattern string) http.Handler {
		lock, pay := s.gin()
		r := gin.New()
		r.UseRawPath, r.UnescapePathValues = rawPath, unescape
		r.Handle(method, pattern, lock, pay)
		return r
	}
}

func onEcho5(config echo5.RouterConfig) Route {
	return func(s *Site, method, pattern string) http.Handler {
		lock, pay := s.echo5()
		e := echo5.NewWithConfig(echo5.Config{Router: echo5.NewRouter(config)})
		e.Add(method, pattern, pay, lock)
		return e
	}
}

// params returns what httprouter knows of a request. docs/middlewares.md tells of it.
func params(r *http.Request) map[string]string {
	all := make(map[string]string)
	for _, p := range httprouter.ParamsFromContext(r.Context()) {
		all[p.Key] = p.Value
	}
	return all
}

// Param returns a parameter of the route as handlers of its router take it.
func (c Call) Param(name string) string {
	switch {
	case c.Gin != nil:
		return c.Gin.Param(name)
	case c.Echo != nil:
		return c.Echo.Param(name)
	case c.Echo5 != nil:
		return c.Echo5.Param(name)
	case mux.Vars(c.Request) != nil:
		return mux.Vars(c.Request)[name]
	case httprouter.ParamsFromContext(c.Request.Context()) != nil:
		return params(c.Request)[name]
	}
	return c.Request.PathValue(name)
}

// With returns the call of a handler that has r in the request's place.
func (c Call) With(r *http.Request) Call {
	c.Request = r
	switch {
	case c.Gin != nil:
		c.Gin = c.Gin.Copy()
		c.Gin.Request = r
	case c.Echo != nil:
		c.Echo.SetRequest(r)
	case c.Echo5 != nil:
		c.Echo5.SetRequest(r)
	}
	return c
}
