package echolock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/echolock"
	"github.com/lockmw/kit/internal/rig"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What only Echo has. What all doors do is in doortest.

// send has handler serve a request without a body.
func send(handler http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// lock returns the middleware on the lock k.
func lock(locks *lockmw.Locker, opts ...echolock.Option) echo.MiddlewareFunc {
	return echolock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, opts...)
}

// occupy takes the lock k, as another program would.
func occupy(client *redis.Client) { client.Set(context.Background(), "lock:{k}", "other", 0) }

// lose takes the lock k away.
func lose(client *redis.Client) { client.Del(context.Background(), "lock:{k}") }

func unreachable(t *testing.T) echo.HandlerFunc {
	return func(echo.Context) error {
		t.Error("the handler runs")
		return nil
	}
}

func TestCentralErrorHandlerIsAskedOnce(t *testing.T) {
	locks, client := rig.Locker(t)
	occupy(client)
	var errs []error
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		errs = append(errs, err)
		e.DefaultHTTPErrorHandler(err, c)
	}
	logged := 0
	e.Use(middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
		LogStatus: true, LogError: true,
		LogValuesFunc: func(_ echo.Context, v middleware.RequestLoggerValues) error {
			logged++
			if v.Status != http.StatusConflict || !errors.Is(v.Error, lockmw.ErrNotAcquired) {
				t.Errorf("logged %d, %v; want 409 and the refusal", v.Status, v.Error)
			}
			return nil
		},
	}))
	e.POST("/", unreachable(t), lock(locks))
	w := send(e, http.MethodPost, "/")
	if w.Code != http.StatusConflict || w.Header().Get(echo.HeaderContentType) != "application/problem+json" || logged != 1 {
		t.Errorf("answer = %d %v, logged %d times", w.Code, w.Header(), logged)
	}
	var refused *echo.HTTPError
	if len(errs) != 1 || !errors.As(errs[0], &refused) || refused.Code != http.StatusConflict || !errors.Is(refused, lockmw.ErrNotAcquired) {
		t.Errorf("errors = %v, want one *echo.HTTPError 409", errs)
	}
}

func TestCentralErrorHandlerMayAnswerInItsOwnWay(t *testing.T) {
	locks, client := rig.Locker(t)
	occupy(client)
	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		c.Response().Header().Set(echo.HeaderContentType, echo.MIMETextPlain)
		_ = c.String(http.StatusTooManyRequests, "later")
	}
	e.POST("/", unreachable(t), lock(locks))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusTooManyRequests || w.Body.String() != "later" || w.Header().Get("Retry-After") == "" {
		t.Errorf("answer = %d %q %v, want 429 later", w.Code, w.Body, w.Header())
	}
}

func TestErrorOfAnErrorHandlerIsEchos(t *testing.T) {
	locks, client := rig.Locker(t)
	occupy(client)
	e := echo.New()
	e.POST("/", unreachable(t), lock(locks, echolock.WithErrorHandler(func(echo.Context, error) error {
		return echo.NewHTTPError(http.StatusLocked, "later")
	})))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusLocked || !strings.Contains(w.Body.String(), "later") {
		t.Errorf("answer = %d %q, want 423 later", w.Code, w.Body)
	}
}

// An error handler that only logs returns the error it got, of which Echo would make
// 500, and with Echo.Debug show its text.
func TestErrorThatIsHandedOnIsTheRefusal(t *testing.T) {
	for name, handle := range map[string]func(error) error{
		"as it is": func(err error) error { return err },
		"wrapped":  func(err error) error { return fmt.Errorf("pay: %w", err) },
	} {
		t.Run(name, func(t *testing.T) {
			locks, client := rig.Locker(t)
			occupy(client)
			e := echo.New()
			e.Debug = true
			var central error
			e.HTTPErrorHandler = func(err error, c echo.Context) {
				central = err
				e.DefaultHTTPErrorHandler(err, c)
			}
			e.POST("/", unreachable(t), lock(locks, echolock.WithErrorHandler(func(_ echo.Context, err error) error { return handle(err) })))
			w := send(e, http.MethodPost, "/")
			if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), lockmw.CodeBusy) || strings.Contains(w.Body.String(), "held by") {
				t.Errorf("answer = %d %s, want 409 %s without the error's text", w.Code, w.Body, lockmw.CodeBusy)
			}
			if !errors.Is(central, lockmw.ErrNotAcquired) {
				t.Errorf("Echo's error handler got %v, want one that Is %v", central, lockmw.ErrNotAcquired)
			}
		})
	}
}

func TestRefusedHeadHasNoBody(t *testing.T) {
	locks, client := rig.Locker(t)
	occupy(client)
	e := echo.New()
	e.HEAD("/", unreachable(t), lock(locks))
	if w := send(e, http.MethodHead, "/"); w.Code != http.StatusConflict || w.Body.Len() > 0 {
		t.Errorf("answer = %d %q, want 409 alone", w.Code, w.Body)
	}
}

func TestHandlersErrorAndTheLossAreBothSeen(t *testing.T) {
	errHandler := errors.New("out of stock")
	for _, tc := range []struct {
		written string
		status  int
		body    string
	}{
		{"", http.StatusInternalServerError, "LOCK_LOST"},
		{"written", http.StatusOK, "written"},
	} {
		locks, client := rig.Locker(t)
		var seen error
		e := echo.New()
		e.HTTPErrorHandler = func(err error, c echo.Context) {
			seen = err
			e.DefaultHTTPErrorHandler(err, c)
		}
		e.POST("/", func(c echo.Context) error {
			if tc.written != "" {
				_ = c.String(http.StatusOK, tc.written)
			}
			lose(client)
			return errHandler
		}, lock(locks))
		w := send(e, http.MethodPost, "/")
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.body) || strings.Contains(w.Body.String(), "stock") {
			t.Errorf("answer = %d %q, want %d %s", w.Code, w.Body, tc.status, tc.body)
		}
		if !errors.Is(seen, errHandler) || !errors.Is(seen, lockmw.ErrLost) {
			t.Errorf("error = %v, want both", seen)
		}
		if strings.Contains(seen.Error(), "\n") {
			t.Errorf("the error has several lines: %q", seen)
		}
	}
}

func TestParameterBeyondItsSegmentIsRefused(t *testing.T) {
	locks, _ := rig.Locker(t)
	e := echo.New()
	var key string
	note := func(c echo.Context) error {
		if lease, ok := lockmw.FromContext(c.Request().Context()); ok {
			key = lease.Key()
		}
		return nil
	}
	e.GET("/orders/:id", note, echolock.Middleware(locks, keyfunc.MustParse("order:{param.id}"), lockmw.Policy{}))
	e.GET("/const/:id", note, lock(locks))
	e.GET("/files/*", note, echolock.Middleware(locks, keyfunc.Param("*"), lockmw.Policy{}))
	for _, tc := range []struct {
		path   string
		status int
		key    string
	}{
		{"/orders/42", http.StatusOK, "order:42"},
		{"/orders/%34%32", http.StatusOK, "order:42"},
		{"/orders/42/", http.StatusBadRequest, ""},
		{"/orders/%34%32/", http.StatusBadRequest, ""},
		{"/orders/42//", http.StatusBadRequest, ""},
		{"/orders/42/x", http.StatusBadRequest, ""},
		{"/orders/42%2F", http.StatusOK, "order:42/"},
		{"/orders/100%25", http.StatusOK, "order:100%25"},
		{"/orders/100%25%36", http.StatusOK, "order:100%256"},
		{"/const/42/", http.StatusOK, "k"},
		{"/files/a/b", http.StatusOK, "a/b"},
	} {
		key = ""
		if w := send(e, http.MethodGet, tc.path); w.Code != tc.status || key != tc.key {
			t.Errorf("%s: status %d, key %q; want %d, %q", tc.path, w.Code, key, tc.status, tc.key)
		}
	}
}

// TestParameterIsOneLockToEveryHandler: to those that decode c.Param, to those
// that do not, and to those that do it where Echo has not.
func TestParameterIsOneLockToEveryHandler(t *testing.T) {
	locks, _ := rig.Locker(t)
	seen := make(map[string]string)
	note := func(c echo.Context) error {
		lease, ok := lockmw.FromContext(c.Request().Context())
		if !ok {
			return errors.New("there is no lock")
		}
		sent := c.Param("*") + c.Param("id")
		decoded, err := url.PathUnescape(sent)
		if err != nil {
			decoded = sent
		}
		careful := sent
		if c.Request().URL.RawPath != "" {
			careful = decoded
		}
		for how, value := range map[string]string{"as it is": sent, "decoded": decoded, "with care": careful} {
			value = how + ": " + value
			if key, is := seen[value]; is && key != lease.Key() {
				t.Errorf("%s: the value, %s, has the key %q, and had %q", c.Request().RequestURI, value, lease.Key(), key)
			}
			seen[value] = lease.Key()
		}
		return nil
	}
	e := echo.New()
	e.GET("/orders/:id", note, echolock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{}))
	e.GET("/files/*", note, echolock.Middleware(locks, keyfunc.Param("*"), lockmw.Policy{}))
	for _, of := range []string{"/orders/", "/files/"} {
		clear(seen)
		for value, want := range map[string]int{
			"42": http.StatusOK, "%34%32": http.StatusOK, "4%32": http.StatusOK,
			"%2534%2532": http.StatusBadRequest, "%25%33%34%32": http.StatusOK, "4%2532": http.StatusBadRequest,
			"a%2Fb": http.StatusOK, "a%252Fb": http.StatusBadRequest,
			"100%25": http.StatusOK, "100%2525": http.StatusBadRequest, "100%25x": http.StatusOK,
		} {
			if w := send(e, http.MethodGet, of+value); w.Code != want {
				t.Errorf("%s: status = %d, want %d", of+value, w.Code, want)
			}
		}
	}
}

// c.Bind fills a field from the path, and then from the query, if that has it.
func TestParameterInPlaceOfAMissingQueryIsRefused(t *testing.T) {
	locks, _ := rig.Locker(t)
	e := echo.New()
	lock := echolock.Middleware(locks, keyfunc.MustParse("item{query.sku?}"), lockmw.Policy{})
	bound := func(c echo.Context) error {
		var item struct {
			SKU string `param:"sku" query:"sku"`
		}
		if err := c.Bind(&item); err != nil {
			return err
		}
		if lease, _ := lockmw.FromContext(c.Request().Context()); lease.Key() != "item"+item.SKU {
			t.Errorf("%s: the key is %q, and c.Bind finds %q", c.Request().RequestURI, lease.Key(), item.SKU)
		}
		return nil
	}
	e.GET("/items/:sku", bound, lock)
	e.GET("/wares/:SKU", bound, lock)
	e.GET("/shops/:id", bound, lock)
	for path, want := range map[string]int{
		"/items/8": http.StatusBadRequest, "/wares/8": http.StatusBadRequest,
		"/items/8?sku=7": http.StatusOK, "/wares/8?sku=": http.StatusOK, "/shops/8": http.StatusOK,
	} {
		if w := send(e, http.MethodGet, path); w.Code != want {
			t.Errorf("%s: status = %d, want %d", path, w.Code, want)
		}
	}
}

// c.Param returns the first of them, and c.Bind the last.
func TestParametersOfOneNameAreRefusedIfTheyDiffer(t *testing.T) {
	locks, _ := rig.Locker(t)
	e := echo.New()
	e.GET("/shops/:id/orders/:id", func(echo.Context) error { return nil }, echolock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{}))
	for path, want := range map[string]int{"/shops/7/orders/7": http.StatusOK, "/shops/7/orders/8": http.StatusBadRequest} {
		if w := send(e, http.MethodGet, path); w.Code != want {
			t.Errorf("%s: status = %d, want %d", path, w.Code, want)
		}
	}
}

func TestParameterThatTheKeyDoesNotNeedIsNotRefused(t *testing.T) {
	locks, _ := rig.Locker(t)
	e := echo.New()
	e.POST("/orders/:id", func(echo.Context) error { return nil }, echolock.Middleware(locks, keyfunc.Body("id"), lockmw.Policy{}))
	r := httptest.NewRequest(http.MethodPost, "/orders/42/", strings.NewReader(`{"id":7}`))
	r.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	w := httptest.NewRecorder()
	if e.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("status = %d, want 200", w.Code)
	}
}

// Where c.Bind reads the query, it reads the body after it.
func TestBodyThatOverwritesTheQueryIsRefused(t *testing.T) {
	locks, _ := rig.Locker(t)
	e := echo.New()
	e.Any("/", func(echo.Context) error { return nil }, echolock.Middleware(locks, keyfunc.Query("sku"), lockmw.Policy{}))
	for _, tc := range []struct {
		method, body string
		want         int
	}{
		{http.MethodGet, "", http.StatusOK},
		{http.MethodGet, `{"SKU":8}`, http.StatusBadRequest},
		{http.MethodHead, `{"SKU":8}`, http.StatusBadRequest},
		{http.MethodDelete, "", http.StatusOK},
		{http.MethodDelete, `{"SKU":8}`, http.StatusBadRequest},
		{http.MethodDelete, strings.Repeat(" ", 64<<10) + `{"SKU":8}`, http.StatusBadRequest},
		{http.MethodPost, `{"SKU":8}`, http.StatusOK},
	} {
		r := httptest.NewRequest(tc.method, "/?sku=7", strings.NewReader(tc.body))
		r.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		w := httptest.NewRecorder()
		if e.ServeHTTP(w, r); w.Code != tc.want {
			t.Errorf("%s of %.20q: status = %d, want %d", tc.method, tc.body, w.Code, tc.want)
		}
	}
}

func TestNoRouteIsKnownInPre(t *testing.T) {
	locks, _ := rig.Locker(t)
	e := echo.New()
	e.Pre(echolock.Middleware(locks, keyfunc.Route(), lockmw.Policy{}))
	e.POST("/", unreachable(t))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusInternalServerError {
		t.Errorf("status = %d, want 500", w.Code)
	}
}

func TestRecoverAnswersInPlaceOfAHeldResponse(t *testing.T) {
	locks, _ := rig.Locker(t)
	e := echo.New()
	e.Logger.SetOutput(io.Discard)
	e.Use(middleware.Recover())
	e.POST("/", func(c echo.Context) error {
		_ = c.String(http.StatusOK, "half")
		panic("broken")
	}, lock(locks, echolock.WithBufferedResponse(10)))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "half") {
		t.Errorf("answer = %d %q, want 500 and nothing of the handler's", w.Code, w.Body)
	}
}

func TestErrorAfterAHeldResponseChangesNothing(t *testing.T) {
	locks, _ := rig.Locker(t)
	e := echo.New()
	e.POST("/", func(c echo.Context) error {
		_ = c.String(http.StatusCreated, "done")
		return errors.New("too late")
	}, lock(locks, echolock.WithBufferedResponse(10)))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusCreated || w.Body.String() != "done" {
		t.Errorf("answer = %d %q, want 201 done", w.Code, w.Body)
	}
}

func TestErrorOfAHeldHandlerIsAnswered(t *testing.T) {
	locks, _ := rig.Locker(t)
	e := echo.New()
	e.POST("/", func(echo.Context) error { return echo.NewHTTPError(http.StatusTeapot, "no") },
		lock(locks, echolock.WithBufferedResponse(10)))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusTeapot || !strings.Contains(w.Body.String(), "no") {
		t.Errorf("answer = %d %q, want 418 no", w.Code, w.Body)
	}
}
