package ginlock_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A routing is how a developer has put the middleware in place. fine is a handler
// that answers 200.
type routing func(e *gin.Engine, lock, fine gin.HandlerFunc)

func routes(e gin.IRoutes, fine gin.HandlerFunc) {
	e.POST("/orders/:id/pay", fine)
	e.POST("/health", fine)
}

func onRoute(e *gin.Engine, lock, fine gin.HandlerFunc) { e.POST("/orders/:id/pay", lock, fine) }

func onGroup(e *gin.Engine, lock, fine gin.HandlerFunc) {
	e.Group("/orders/:id", lock).POST("/pay", fine)
}

// behindHandler is the order of Echo.
func behindHandler(e *gin.Engine, lock, fine gin.HandlerFunc) { e.POST("/orders/:id/pay", fine, lock) }

// behindHandlerWithAnother has one more handler at the end.
func behindHandlerWithAnother(e *gin.Engine, lock, fine gin.HandlerFunc) {
	e.POST("/orders/:id/pay", fine, lock, func(*gin.Context) {})
}

// behindSilentHandler has a handler in front that writes nothing.
func behindSilentHandler(e *gin.Engine, lock, _ gin.HandlerFunc) {
	e.POST("/orders/:id/pay", func(*gin.Context) {}, lock)
}

func inUse(e *gin.Engine, lock, fine gin.HandlerFunc) {
	e.HandleMethodNotAllowed = true
	e.Use(lock)
	routes(e, fine)
}

func inUseWithOthers(e *gin.Engine, lock, fine gin.HandlerFunc) {
	e.Use(func(*gin.Context) {}, lock, func(*gin.Context) {})
	routes(e, fine)
}

// inUseWithNoRoute has a handler that works for paths that Gin does not know, such as
// one that hands them on to another server.
func inUseWithNoRoute(e *gin.Engine, lock, fine gin.HandlerFunc) {
	e.Use(lock)
	routes(e, fine)
	e.NoRoute(fine)
}

const (
	missing = "keyfunc: required value is missing or empty: "
	noSuch  = " has no such parameter; it has "
	behind  = `keyfunc: mistake of the program: ginlock: nothing runs under the lock of route "/orders/:id/pay", because no handler stands behind the middleware: write r.POST(path, lock, handler)`
)

// What a developer has written, and what becomes of a request: its answer, the lock
// under which the handler runs, and the line in the log.
func TestPlaceOfTheMiddlewareIsChecked(t *testing.T) {
	param, header, both := keyfunc.MustParse("order:{param.id}"), keyfunc.MustParse("user:{header.X-User}"), keyfunc.MustParse("{header.X-User}:{param.id}")
	ofUser := ginlock.Key(func(c *gin.Context) (string, error) { return c.GetHeader("X-User"), nil })
	for _, tc := range []struct {
		wrote   string
		routing routing
		key     keyfunc.Func
		request string // "POST /orders/42/pay", and who sends it: "POST /orders/42/pay ann"
		answer  string // its status, and its text if that is not a problem
		lock    string // the handler's
		code    string // in the log
		says    string // there
	}{
		{"on its route", onRoute, param, "POST /orders/42/pay", "200 fine", "order:42", "", ""},
		{"on its group", onGroup, keyfunc.Params(), "POST /orders/42/pay", "200 fine", "42", "", ""},
		{"on its group, with a wrong name", onGroup, keyfunc.Param("order"), "POST /orders/42/pay", "500 ", "", "LOCK_MISUSE", missing + `param "order": route "/orders/:id/pay"` + noSuch + `"id"`},
		{"behind the handler", behindHandler, param, "POST /orders/42/pay", "200 fine", "", "LOCK_MISUSE", behind},
		{"behind the handler, with another behind it", behindHandlerWithAnother, param, "POST /orders/42/pay", "200 fine", "", "LOCK_MISUSE", `keyfunc: mistake of the program: ginlock: a handler in front of the middleware has answered the request to route "/orders/:id/pay" without the lock: write r.POST(path, lock, handler)`},
		{"behind a handler that writes nothing", behindSilentHandler, param, "POST /orders/42/pay", "500 ", "", "LOCK_MISUSE", behind},
		{"in Use", inUse, param, "POST /orders/42/pay", "200 fine", "order:42", "", ""},
		{"in Use, for a route without the parameter", inUse, param, "POST /health", "500 ", "", "LOCK_MISUSE", missing + `param "id": route "/health"` + noSuch + "none"},
		{"in Use, all parameters, for a route without any", inUse, keyfunc.Params(), "POST /health", "500 ", "", "LOCK_MISUSE", missing + `params: route "/health" has no parameters`},
		{"in Use, for an unknown path", inUse, param, "POST /nothing", "404 404 page not found", "", "", ""},
		{"in Use, for an unknown method", inUse, param, "GET /orders/42/pay", "405 405 method not allowed", "", "", ""},
		{"in Use, all parameters, for an unknown path", inUse, keyfunc.Params(), "POST /nothing", "404 404 page not found", "", "", ""},
		{"in Use, the route, for an unknown path", inUse, keyfunc.Route(), "POST /nothing", "404 404 page not found", "", "", ""},
		{"in Use, a header, for an unknown path", inUse, header, "POST /nothing", "404 404 page not found", "", "", ""},
		{"in Use, a value and a parameter, for an unknown path", inUse, keyfunc.MustParse("{value.tenant}:{param.id}"), "POST /nothing", "404 404 page not found", "", "", ""},
		{"in Use, a function of ginlock, for an unknown path", inUse, ofUser, "POST /nothing", "404 404 page not found", "", "", ""},
		{"in Use, a header", inUse, header, "POST /orders/42/pay", "400 ", "", "LOCK_KEY_INVALID", "invalid key: " + missing + `header "X-User"`},
		{"in Use with others, for an unknown path", inUseWithOthers, param, "POST /nothing", "404 404 page not found", "", "", ""},
		{"in Use with others, a header and a parameter, for an unknown path", inUseWithOthers, both, "POST /nothing", "404 404 page not found", "", "", ""},
		{"in Use, and NoRoute works, with a parameter", inUseWithNoRoute, param, "POST /nothing", "404 404 page not found", "", "", ""},
		{"in Use, and NoRoute works, with a header", inUseWithNoRoute, header, "POST /nothing ann", "200 fine", "user:ann", "", ""},
		{"in Use, and NoRoute works, with a header that is missing", inUseWithNoRoute, header, "POST /nothing", "400 ", "", "LOCK_KEY_INVALID", "invalid key: " + missing + `header "X-User"`},
		{"in Use, and NoRoute works, with a function of ginlock", inUseWithNoRoute, ofUser, "POST /nothing", "400 ", "", "LOCK_KEY_INVALID", "invalid key: " + missing + "ginlock.Key"},
	} {
		t.Run(tc.wrote, func(t *testing.T) {
			var log testenv.Log
			r := testenv.New(t, redistest.Embedded(t))
			locks := r.NewLocker(log.Option())
			got := ""
			engine := gin.New()
			tc.routing(engine, ginlock.Middleware(locks, tc.key, lockmw.Policy{Name: "pay"}), func(c *gin.Context) {
				if lease, ok := lockmw.FromContext(c.Request.Context()); ok {
					got = lease.Key()
				}
				c.String(http.StatusOK, "fine")
			})
			for range 3 {
				if answer := testenv.Ask(engine, tc.request); answer != tc.answer {
					t.Errorf("answer = %q, want %q", answer, tc.answer)
				}
			}
			if got != tc.lock {
				t.Errorf("the handler ran under %q, want %q", got, tc.lock)
			}
			r.CloseNow(locks)
			log.Want(t, "pay", tc.code, tc.says)
		})
	}
}

// A context without an engine, as tests of handlers make it, has no route either. That
// is no unknown path.
func TestContextWithoutAnEngineIsNotTakenForAnUnknownPath(t *testing.T) {
	locks, _ := testenv.Locker(t)
	w := httptest.NewRecorder()
	c, _ := gin.CreateTestContext(w)
	c.Request = httptest.NewRequest(http.MethodPost, "/orders/42/pay", nil)
	c.Params = gin.Params{{Key: "id", Value: "42"}}
	ginlock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{})(c)
	if w.Code != http.StatusInternalServerError || !c.IsAborted() || !strings.Contains(w.Body.String(), lockmw.CodeMisuse) {
		t.Errorf("answer = %d %s, aborted: %v; want 500 %s", w.Code, w.Body, c.IsAborted(), lockmw.CodeMisuse)
	}
}
