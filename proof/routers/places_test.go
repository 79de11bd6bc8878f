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

// Where a handler does not run, and where it runs without a lock.
const (
	notRun   = "the handler does not run"
	unlocked = "it runs without a lock"
)

const (
	order   = "{param.id}"
	path    = "/orders/42/pay"
	spelled = "/orders/%34%32/pay"
)

var (
	fine     = answer{http.StatusOK, ""}
	notFound = answer{http.StatusNotFound, ""}
	misuse   = answer{http.StatusInternalServerError, "LOCK_MISUSE"}
	refused  = answer{http.StatusBadRequest, "LOCK_KEY_INVALID"}
)

// A place is one where the lock may be put as well, or should not.
type place struct {
	name     string
	template string
	service  func(s *Site) http.Handler
	path     string
	want     answer
	under    string // the lock under which the handler runs, or one of the constants above
}

var places = []place{
	{"net/http, around the mux", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		mux := http.NewServeMux()
		mux.Handle("POST /orders/{id}/pay", pay)
		return lock(mux)
	}, path, misuse, notRun},
	{"net/http, around a mux inside the mux", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		mux, inner := http.NewServeMux(), http.NewServeMux()
		inner.Handle("POST /orders/{id}/pay", pay)
		mux.Handle("/orders/", lock(inner))
		return mux
	}, path, misuse, notRun},
	{"net/http, around a mux behind a parameter", order, aroundInnerMux, path, fine, "42"},
	{"net/http, around a mux behind a parameter", "{route}", aroundInnerMux, path, fine, "/orders/{id}/"},
	{"net/http, inside a mux behind a parameter", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		mux, inner := http.NewServeMux(), http.NewServeMux()
		inner.Handle("POST /orders/{order}/pay", lock(pay))
		mux.Handle("/orders/{id}/", inner)
		return mux
	}, path, misuse, notRun},
	{"net/http, inside a mux behind StripPrefix", order, behindStripPrefix, "/api" + path, fine, "42"},
	{"net/http, inside a mux behind StripPrefix", "{route}", behindStripPrefix, "/api" + path, fine, "POST /orders/{id}/pay"},
	{"net/http, StripPrefix around the lock", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		mux := http.NewServeMux()
		mux.Handle("POST /api/orders/{id}/pay", http.StripPrefix("/api", lock(pay)))
		return mux
	}, "/api" + path, fine, "42"},
	{"net/http, another name", "{param.order}", lineOf("net/http"), path, misuse, notRun},
	{"net/http, another spelling of the path", order, lineOf("net/http"), spelled, fine, "42"},

	{"chi, Use", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		r := chi.NewRouter()
		r.Use(lock)
		r.Post("/orders/{id}/pay", pay)
		return r
	}, path, misuse, notRun},
	{"chi, Use, and a path that no route has", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		r := chi.NewRouter()
		r.Use(lock)
		r.Post("/orders/{id}/pay", pay)
		return r
	}, "/nowhere", misuse, notRun},
	{"chi, Use in a Group", order, useInGroup, path, fine, "42"},
	{"chi, Use in a Group, and a path that no route has", order, useInGroup, "/nowhere", notFound, notRun},
	{"chi, Use in a Route behind the parameter", order, useInRoute, path, fine, "42"},
	{"chi, Use in a Route behind the parameter", "{route}", useInRoute, path, fine, "/orders/{id}/*"},
	{"chi, With in a Route", "{route}", func(s *Site) http.Handler {
		lock, pay := s.http()
		r := chi.NewRouter()
		r.Route("/orders/{id}", func(r chi.Router) {
			r.With(lock).Post("/pay", pay)
		})
		return r
	}, path, fine, "/orders/{id}/pay"},
	{"chi, Use in a Route before the parameter", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		r := chi.NewRouter()
		r.Route("/orders", func(r chi.Router) {
			r.Use(lock)
			r.Post("/{id}/pay", pay)
		})
		return r
	}, path, misuse, notRun},
	{"chi, With in a Group", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		r := chi.NewRouter()
		r.Group(func(r chi.Router) {
			r.With(lock).Post("/orders/{id}/pay", pay)
		})
		return r
	}, path, fine, "42"},
	{"chi, With in a mounted router", order, withInMount, path, fine, "42"},
	{"chi, With in a mounted router", "{route}", withInMount, path, fine, "/orders/{id}/pay"},
	{"chi, Use in a router that is mounted behind the parameter", order, useInMount, path, fine, "42"},
	{"chi, Use in a router that is mounted behind the parameter", "{route}", useInMount, path, fine, "/orders/{id}/*"},
	{"chi, Use in a router that is mounted before the parameter", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		r, orders := chi.NewRouter(), chi.NewRouter()
		orders.Use(lock)
		orders.Post("/{id}/pay", pay)
		r.Mount("/orders", orders)
		return r
	}, path, misuse, notRun},
	{"chi, in a mux behind StripPrefix", order, func(s *Site) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/api/", http.StripPrefix("/api", lineOf("chi")(s)))
		return mux
	}, "/api" + path, fine, "42"},
	{"chi, a mux that is mounted", order, func(s *Site) http.Handler {
		r := chi.NewRouter()
		r.Mount("/", lineOf("net/http")(s))
		return r
	}, path, fine, "42"},
	{"chi, a wildcard in a Route", "{param.*}", func(s *Site) http.Handler {
		lock, pay := s.http()
		r := chi.NewRouter()
		r.Route("/orders", func(r chi.Router) {
			r.With(lock).Post("/*", pay)
		})
		return r
	}, path, fine, "42/pay"},
	{"chi, a regular expression in a Route", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		r := chi.NewRouter()
		r.Route("/orders/{id:[0-9]+}", func(r chi.Router) {
			r.Use(lock)
			r.Post("/pay", pay)
		})
		return r
	}, path, fine, "42"},
	{"chi, another spelling of the path", order, lineOf("chi"), spelled, fine, "42"},

	{"gorilla/mux, without WithParams", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		r := mux.NewRouter()
		r.Handle("/orders/{id}/pay", lock(pay))
		return r
	}, path, misuse, notRun},
	{"gorilla/mux, Use", order, func(s *Site) http.Handler {
		lock, pay := s.http(httplock.WithParams(mux.Vars))
		r := mux.NewRouter()
		r.Use(lock)
		r.Handle("/orders/{id}/pay", pay)
		return r
	}, path, fine, "42"},
	{"gorilla/mux, Use, and a path that no route has", order, func(s *Site) http.Handler {
		lock, pay := s.http(httplock.WithParams(mux.Vars))
		r := mux.NewRouter()
		r.Use(lock)
		r.Handle("/orders/{id}/pay", pay)
		return r
	}, "/nowhere", notFound, notRun},
	{"gorilla/mux, around the router", order, func(s *Site) http.Handler {
		lock, pay := s.http(httplock.WithParams(mux.Vars))
		r := mux.NewRouter()
		r.Handle("/orders/{id}/pay", pay)
		return lock(r)
	}, path, misuse, notRun},
	{"gorilla/mux, Use in a Subrouter", order, func(s *Site) http.Handler {
		lock, pay := s.http(httplock.WithParams(mux.Vars))
		r := mux.NewRouter()
		orders := r.PathPrefix("/orders/{id:[0-9]+}").Subrouter()
		orders.Use(lock)
		orders.Handle("/pay", pay)
		return r
	}, path, fine, "42"},
	{"gorilla/mux, in a mux behind StripPrefix", order, func(s *Site) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/api/", http.StripPrefix("/api", lineOf("gorilla/mux")(s)))
		return mux
	}, "/api" + path, fine, "42"},
	{"gorilla/mux, UseEncodedPath", order, encodedMux, path, fine, "42"},
	{"gorilla/mux, UseEncodedPath, another spelling of the path", order, encodedMux, spelled, fine, "42"},
	{"gorilla/mux, another spelling of the path", order, lineOf("gorilla/mux"), spelled, fine, "42"},

	{"httprouter, without WithParams", order, func(s *Site) http.Handler {
		lock, pay := s.http()
		r := httprouter.New()
		r.Handler("POST", "/orders/:id/pay", lock(pay))
		return r
	}, path, misuse, notRun},
	{"httprouter, around the router", order, func(s *Site) http.Handler {
		lock, pay := s.http(httplock.WithParams(params))
		r := httprouter.New()
		r.Handler("POST", "/orders/:id/pay", pay)
		return lock(r)
	}, path, misuse, notRun},
	{"chi, another spelling of a file", "{param.*}", fileOf("chi", "*"), "/p/x/../a/b", refused, notRun},
	{"chi, an empty element in a file's path", "{param.*}", fileOf("chi", "*"), "/p/a//b", refused, notRun},
	{"net/http, another spelling of a file", "{param.x}", fileOf("net/http", "{x...}"), "/p/x%2F..%2Fa/b", refused, notRun},
	{"net/http, a slash in front", "{param.x}", fileOf("net/http", "{x...}"), "/p/%2Fa/b", refused, notRun},
	{"httprouter, another spelling of a file", "{param.x}", fileOf("httprouter", "*x"), "/p/x/../a/b", refused, notRun},
	{"httprouter, a slash behind a folder", "{param.x}", fileOf("httprouter", "*x"), "/p/a/", refused, notRun},
	{"Gin, another spelling of a file", "{param.x}", fileOf("Gin", "*x"), "/p/a/./b", refused, notRun},
	{"Gin, the folder itself", "{param.x}", fileOf("Gin", "*x"), "/p/", fine, "/"},
	{"Gin, UseRawPath and no UnescapePathValues, another spelling of the path", order, func(s *Site) http.Handler {
		return Routes["Gin, UseRawPath and no UnescapePathValues"](s, http.MethodPost, "/orders/:id/pay")
	}, spelled, fine, "42"},
	{"Echo v4, another spelling of a file", "{param.*}", fileOf("Echo v4", "*"), "/p/a//b", refused, notRun},
	{"Echo v5, another spelling of a file", "{param.*}", fileOf("Echo v5", "*"), "/p/x/../a", refused, notRun},
	{"httprouter, another spelling of the path", order, lineOf("httprouter"), spelled, fine, "42"},

	{"Gin, Use", order, ginUse, path, fine, "42"},
	{"Gin, Use, and a path that no route has", order, ginUse, "/nowhere", notFound, notRun},
	{"Gin, Use, and a route without the parameter", order, ginUse, "/report", misuse, notRun},
	{"Gin, Use behind the route", order, func(s *Site) http.Handler {
		lock, pay := s.gin()
		r := gin.New()
		r.POST("/orders/:id/pay", pay)
		r.Use(lock)
		return r
	}, path, fine, unlocked},
	{"Gin, a group, and a path in it that no route has", order, lineOf("Gin"), "/orders/42/nowhere", notFound, notRun},
	{"Gin, a group in a group", order, func(s *Site) http.Handler {
		lock, pay := s.gin()
		r := gin.New()
		r.Group("/orders/:id", lock).Group("/pay").POST("", pay)
		return r
	}, path, fine, "42"},
	{"Gin, another spelling of the path", order, lineOf("Gin"), spelled, fine, "42"},

	{"Echo v4, Use", order, echoUse, path, fine, "42"},
	{"Echo v4, Use, and a path that no route has", order, echoUse, "/nowhere", notFound, notRun},
	{"Echo v4, Use, and a route without the parameter", order, echoUse, "/report", misuse, notRun},
	{"Echo v4, Pre", order, func(s *Site) http.Handler {
		lock, pay := s.echo()
		e := echo.New()
		e.Pre(lock)
		e.POST("/orders/:id/pay", pay)
		return e
	}, path, misuse, notRun},
	{"Echo v4, a group, and a path in it that no route has", order, lineOf("Echo v4"), "/orders/42/nowhere", notFound, notRun},
	{"Echo v4, a group in a group", order, func(s *Site) http.Handler {
		lock, pay := s.echo()
		e := echo.New()
		e.Group("/orders/:id", lock).Group("/pay").POST("", pay)
		return e
	}, path, fine, "42"},
	{"Echo v4, another spelling of the path", order, lineOf("Echo v4"), spelled, fine, "42"},

	{"Echo v5, Use", order, echo5Use, path, fine, "42"},
	{"Echo v5, Use, and a path that no route has", order, echo5Use, "/nowhere", notFound, notRun},
	{"Echo v5, Use, and a route without the parameter", order, echo5Use, "/report", misuse, notRun},
	{"Echo v5, Pre", order, func(s *Site) http.Handler {
		lock, pay := s.echo5()
		e := echo5.New()
		e.Pre(lock)
		e.POST("/orders/:id/pay", pay)
		return e
	}, path, misuse, notRun},
	{"Echo v5, a group, and a path in it that no route has", order, lineOf("Echo v5"), "/orders/42/nowhere", notFound, notRun},
	{"Echo v5, a group in a group", order, func(s *Site) http.Handler {
		lock, pay := s.echo5()
		e := echo5.New()
		e.Group("/orders/:id", lock).Group("/pay").POST("", pay)
		return e
	}, path, fine, "42"},
	{"Echo v5, another spelling of the path", order, lineOf("Echo v5"), spelled, fine, "42"},
}

func encodedMux(s *Site) http.Handler {
	return Routes["gorilla/mux, UseEncodedPath"](s, http.MethodPost, "/orders/{id}/pay")
}

// fileOf returns the service of a router with a wildcard behind "/p/".
func fileOf(router, wildcard string) func(s *Site) http.Handler {
	return func(s *Site) http.Handler { return Routes[router](s, http.MethodPost, "/p/"+wildcard) }
}

func aroundInnerMux(s *Site) http.Handler {
	lock, pay := s.http()
	mux, inner := http.NewServeMux(), http.NewServeMux()
	inner.Handle("POST /orders/{order}/pay", pay)
	mux.Handle("/orders/{id}/", lock(inner))
	return mux
}

func behindStripPrefix(s *Site) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", lineOf("net/http")(s)))
	return mux
}

func withInMount(s *Site) http.Handler {
	lock, pay := s.http()
	r, orders := chi.NewRouter(), chi.NewRouter()
	orders.With(lock).Post("/{id}/pay", pay)
	r.Mount("/orders", orders)
	return r
}

func useInMount(s *Site) http.Handler {
	lock, pay := s.http()
	r, orders := chi.NewRouter(), chi.NewRouter()
	orders.Use(lock)
	orders.Post("/pay", pay)
	r.Mount("/orders/{id}", orders)
	return r
}

func useInGroup(s *Site) http.Handler {
	lock, pay := s.http()
	r := chi.NewRouter()
	r.Group(func(r chi.Router) {
		r.Use(lock)
		r.Post("/orders/{id}/pay", pay)
	})
	return r
}

func useInRoute(s *Site) http.Handler {
	lock, pay := s.http()
	r := chi.NewRouter()
	r.Route("/orders/{id}", func(r chi.Router) {
		r.Use(lock)
		r.Post("/pay", pay)
	})
	return r
}

func ginUse(s *Site) http.Handler {
	lock, pay := s.gin()
	r := gin.New()
	r.Use(lock)
	r.POST("/orders/:id/pay", pay)
	r.POST("/report", pay)
	return r
}

func echoUse(s *Site) http.Handler {
	lock, pay := s.echo()
	e := echo.New()
	e.Use(lock)
	e.POST("/orders/:id/pay", pay)
	e.POST("/report", pay)
	return e
}

func echo5Use(s *Site) http.Handler {
	lock, pay := s.echo5()
	e := echo5.New()
	e.Use(lock)
	e.POST("/orders/:id/pay", pay)
	e.POST("/report", pay)
	return e
}

// lineOf returns the last line of a router, which is that of its group if it has one.
func lineOf(router string) (service func(s *Site) http.Handler) {
	for _, l := range lines {
		if l.router == router {
			service = l.service
		}
	}
	return service
}
