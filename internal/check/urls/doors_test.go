package urls

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/echolock"
	echolock5 "github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/doortest"
	"github.com/lockmw/kit/internal/test/echotest"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// routes are the same in every framework, written as net/http does it.
var routes = []route{
	{"/o/{id}", []string{"id"}},
	{"/o/{id}/items/{item}", []string{"id", "item"}},
	{"/f/{rest...}", []string{"rest"}},
}

type route struct {
	path   string
	params []string
}

// template makes the locks of all routes.
var template = keyfunc.MustParse("{params}:{query.q?}")

// A door serves the routes, and notes what each request comes to.
type door struct {
	name    string
	handler http.Handler
	// makeKey is template, in doors that are sound.
	makeKey keyfunc.Func
	// shows is what a broken door makes of the view that key functions get.
	shows func(r *http.Request, view keyfunc.Request) keyfunc.Request
	visit
}

// A visit is one request's way through a door.
type visit struct {
	sent      *http.Request
	names     []string // of the query
	asked     int      // how often the key function was called
	inKey     string   // what it saw
	ran       int      // how many handlers did
	inHandler string   // what the last of them saw
	value     string   // the first parameter of that
	key       string   // the lock that it had
}

// look puts into words what is seen of a request.
func (v *visit) look(path string, params []string, param, query func(string) string) string {
	var seen strings.Builder
	seen.WriteString(path)
	for i, name := range params {
		fmt.Fprintf(&seen, " %d:%+q", i, param(name)) // Echo has other names
	}
	for _, name := range v.names {
		fmt.Fprintf(&seen, " %+q=%+q", name, query(name))
	}
	return seen.String()
}

// keyOf returns the key function of a route, whose parameters have these names.
func (d *door) keyOf(path string, params []string) keyfunc.Func {
	return func(r keyfunc.Request) (string, error) {
		d.asked++
		if d.shows != nil {
			r = d.shows(d.sent, r)
		}
		d.inKey = d.look(path, params, found(r.Param), found(r.Query))
		return d.makeKey(r)
	}
}

// found takes what is not there for empty, as handlers do.
func found(get func(string) (string, bool)) func(string) string {
	return func(name string) string {
		if value, ok := get(name); ok {
			return value
		}
		return ""
	}
}

// handle is what all handlers do.
func (d *door) handle(r *http.Request, path string, params []string, param, query func(string) string) {
	d.ran++
	d.inHandler = d.look(path, params, param, query)
	if len(params) > 0 {
		d.value = param(params[0])
	}
	if lease, held := lockmw.FromContext(r.Context()); held {
		d.key = lease.Key()
	}
}

// sound returns the doors as they are.
func sound(tb testing.TB) []*door {
	tb.Helper()
	locks := doortest.Instant(tb)
	gin.SetMode(gin.TestMode)
	return []*door{
		newHTTP(locks),
		newGin(locks, "ginlock", func(*gin.Engine) {}),
		newGin(locks, "ginlock with UseRawPath", func(e *gin.Engine) { e.UseRawPath = true }),
		newGin(locks, "ginlock with RemoveExtraSlash", func(e *gin.Engine) { e.RemoveExtraSlash = true }),
		newEcho(locks),
		newEcho5(locks, "echolock/v5", echo5.RouterConfig{}),
		newEcho5(locks, "echolock/v5 with UseEscapedPathForMatching", echo5.RouterConfig{UseEscapedPathForMatching: true}),
		newEcho5(locks, "echolock/v5 with UnescapePathParamValues", echo5.RouterConfig{UnescapePathParamValues: true}),
	}
}

func newHTTP(locks *lockmw.Locker) *door {
	d, mux := &door{name: "httplock", makeKey: template}, http.NewServeMux()
	for _, to := range routes {
		lock := httplock.Middleware(locks, d.keyOf(to.path, to.params), lockmw.Policy{})
		mux.Handle("GET "+to.path, lock(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			d.handle(r, to.path, to.params, r.PathValue, r.URL.Query().Get)
		})))
	}
	d.handler = mux
	return d
}

func newGin(locks *lockmw.Locker, name string, change func(*gin.Engine)) *door {
	d, engine := &door{name: name, makeKey: template}, gin.New()
	change(engine)
	for _, to := range routes {
		path := doortest.ColonPath(strings.Replace(to.path, "{rest...}", "*rest", 1))
		lock := ginlock.Middleware(locks, d.keyOf(to.path, to.params), lockmw.Policy{})
		engine.GET(path, lock, func(c *gin.Context) {
			d.handle(c.Request, to.path, to.params, c.Param, c.Query)
		})
	}
	d.handler = engine
	return d
}

func newEcho(locks *lockmw.Locker) *door {
	d, e := &door{name: "echolock", makeKey: template}, echo.New()
	for _, to := range routes {
		path, params := to.ofEcho()
		e.GET(path, func(c echo.Context) error {
			d.handle(c.Request(), to.path, params, echotest.Decoded(c), c.QueryParam)
			return nil
		}, echolock.Middleware(locks, d.keyOf(to.path, params), lockmw.Policy{}))
	}
	d.handler = e
	return d
}

func newEcho5(locks *lockmw.Locker, name string, config echo5.RouterConfig) *door {
	d, e := &door{name: name, makeKey: template}, echo5.NewWithConfig(echo5.Config{Router: echo5.NewRouter(config)})
	decodes := config.UseEscapedPathForMatching || config.UnescapePathParamValues
	for _, to := range routes {
		path, params := to.ofEcho()
		e.GET(path, func(c *echo5.Context) error {
			param := echotest.Decoded(c)
			if decodes {
				param = c.Param
			}
			d.handle(c.Request(), to.path, params, param, c.QueryParam)
			return nil
		}, echolock5.Middleware(locks, d.keyOf(to.path, params), lockmw.Policy{}))
	}
	d.handler = e
	return d
}

// ofEcho returns the route as Echo writes it, and the names of its parameters there.
func (to route) ofEcho() (path string, params []string) {
	path = doortest.ColonPath(strings.Replace(to.path, "{rest...}", "*", 1))
	if strings.HasSuffix(path, "*") {
		return path, []string{"*"}
	}
	return path, to.params
}
