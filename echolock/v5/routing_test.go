package echolock_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// routers are the ways in which a router may take a path apart.
var routers = map[string]echo.RouterConfig{
	"as it was sent":      {},
	"decoded path":        {UseEscapedPathForMatching: true},
	"decoded parameters":  {UnescapePathParamValues: true},
	"both, which is path": {UseEscapedPathForMatching: true, UnescapePathParamValues: true},
}

// Where Echo decodes a parameter, handlers do not, and neither does the key.
func TestKeyIsMadeOfWhatTheRouterMakesOfAParameter(t *testing.T) {
	for name, config := range routers {
		t.Run(name, func(t *testing.T) {
			locks, _ := testenv.Locker(t)
			e := newApp(echo.Config{Router: echo.NewRouter(config)})
			key, sent := "", ""
			// A parameter that is "a/b" when it was decoded once: by a handler, which then
			// knows that the slash was escaped, or by Echo, which does not say so.
			decodes := config.UseEscapedPathForMatching || config.UnescapePathParamValues
			statusOf := map[bool]int{false: http.StatusOK, true: http.StatusBadRequest}
			keyOf := map[bool]string{false: "a/b"}
			e.GET("/shop/:shop/orders/:id", func(c *echo.Context) error {
				lease, _ := lockmw.FromContext(c.Request().Context())
				key, sent = lease.Key(), c.Param("id")
				return nil
			}, echolock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{}))
			for _, tc := range []struct {
				id     string
				status int
				key    string // with its percent signs escaped
			}{
				{"42", http.StatusOK, "42"},
				{"%34%32", http.StatusOK, "42"},
				{"a%3Ab", http.StatusOK, "a:b"},
				{"100%25", http.StatusOK, "100%25"},
				{"%34%2532", http.StatusBadRequest, ""},
				{"a%2Fb", statusOf[decodes], keyOf[decodes]},
				{"42/", http.StatusBadRequest, ""},
			} {
				key, sent = "", ""
				if w := send(e, http.MethodGet, "/shop/s/orders/"+tc.id); w.Code != tc.status || key != tc.key {
					t.Errorf("%s: status %d, key %q; want %d, %q (c.Param is %q)", tc.id, w.Code, key, tc.status, tc.key, sent)
				}
			}
		})
	}
}

// Handlers of one's own for unknown paths and methods may do work, as a gateway does:
// they run under the lock or not at all. Those of Echo run.
func TestHandlerForTheUnknownRunsUnderTheLockOrNotAtAll(t *testing.T) {
	for name, tc := range map[string]struct {
		config  echo.RouterConfig
		request string
		without string // answer where no key can be made
	}{
		"not found":          {echo.RouterConfig{NotFoundHandler: fine}, "POST /nothing", notFound},
		"method not allowed": {echo.RouterConfig{MethodNotAllowedHandler: fine}, "GET /orders/42/pay", `405 {"message":"Method Not Allowed"}`},
		"options":            {echo.RouterConfig{OptionsMethodHandler: fine}, "OPTIONS /orders/42/pay", `405 {"message":"Method Not Allowed"}`},
	} {
		t.Run(name, func(t *testing.T) {
			locks, _ := testenv.Locker(t)
			e := newApp(echo.Config{Router: echo.NewRouter(tc.config)})
			e.Use(echolock.Middleware(locks, keyfunc.Header("X-User"), lockmw.Policy{}))
			e.POST("/orders/:id/pay", fine)
			if answer := testenv.Ask(e, tc.request); answer != tc.without {
				t.Errorf("without a key: %q, want %q", answer, tc.without)
			}
			if answer := testenv.Ask(e, tc.request+" ann"); answer != "200 fine" {
				t.Errorf("with a key: %q, want 200 fine", answer)
			}
		})
	}
}

// Middleware behind the router that changes the path does not change which handler runs.
func TestHandlerForTheUnknownStaysSoWhenThePathIsChanged(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := newApp(echo.Config{Router: echo.NewRouter(echo.RouterConfig{NotFoundHandler: fine})})
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Request().URL.Path = "/orders"
			return next(c)
		}
	}, echolock.Middleware(locks, keyfunc.Header("X-User"), lockmw.Policy{}))
	e.POST("/orders", fine)
	if answer := testenv.Ask(e, "GET /nothing"); answer != notFound {
		t.Errorf("without a key: %q, want %q", answer, notFound)
	}
	if answer := testenv.Ask(e, "GET /nothing ann"); answer != "200 fine" {
		t.Errorf("with a key: %q, want 200 fine", answer)
	}
}

// For an unknown method Echo tells of parameters before a star in a route that it tried,
// under the names that the context had for a request before.
func TestUnknownMethodHasNoParameters(t *testing.T) {
	locks, client := testenv.Locker(t)
	occupy(client)
	e := newApp(echo.Config{})
	stale := 0
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			if c.Request().Method == http.MethodGet && c.Param("id") != "" {
				stale++
			}
			return next(c)
		}
	}, echolock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{}))
	e.POST("/orders/:id/*", fine)
	for range 100 { // contexts are in a sync.Pool, which need not keep one
		if answer := testenv.Ask(e, "POST /orders/k/pay"); answer != "409 " {
			t.Fatalf("answer = %q, want 409", answer)
		}
		if answer := testenv.Ask(e, "GET /orders/k/pay"); answer != `405 {"message":"Method Not Allowed"}` {
			t.Fatalf("answer = %q, want 405", answer)
		}
	}
	if stale == 0 {
		t.Error("Echo has no parameters of another request any more: version.Param need not look")
	}
}

// A colon behind a backslash ends the parameter, and is not a part of its name.
func TestVerbBehindAParameterIsNoPartOfIt(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := newApp(echo.Config{})
	key := ""
	e.POST(`/orders/:id\:cancel/:reason`, func(c *echo.Context) error {
		lease, _ := lockmw.FromContext(c.Request().Context())
		key = lease.Key()
		return nil
	}, echolock.Middleware(locks, keyfunc.Params(), lockmw.Policy{}))
	for request, want := range map[string]string{"POST /orders/42:cancel/late": "42:late", "POST /orders/%34%32:cancel/late": "42:late"} {
		if answer := testenv.Ask(e, request); answer != "200 " || key != want {
			t.Errorf("%s: %q under %q, want 200 under %s", request, answer, key, want)
		}
	}
}

func TestVirtualHostHasItsOwnRoutes(t *testing.T) {
	locks, _ := testenv.Locker(t)
	host := newApp(echo.Config{Router: echo.NewRouter(echo.RouterConfig{NotFoundHandler: fine})}) // which needs the lock
	host.Use(echolock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{}))
	host.POST("/orders/:id", fine)
	e := echo.NewVirtualHostHandler(map[string]*echo.Echo{"example.com": host.Echo}) // which is what httptest asks for
	for request, want := range map[string]string{"POST /orders/42": "200 fine", "POST /nothing": notFound} {
		if answer := testenv.Ask(e, request); answer != want {
			t.Errorf("%s: %q, want %q", request, answer, want)
		}
	}
}
