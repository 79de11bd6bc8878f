package echolock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	echov4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/redis/go-redis/v9"

	v4 "github.com/lockmw/kit/echolock"
	"github.com/lockmw/kit/echolock/v5"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What only Echo v5 has. What both versions have is in echotest, and what all doors do
// in doortest.

// lock returns the middleware on the lock k.
func lock(locks *lockmw.Locker, opts ...echolock.Option) echo.MiddlewareFunc {
	return echolock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, opts...)
}

// occupy takes the lock k, as another program would.
func occupy(client *redis.Client) { client.Set(context.Background(), "lock:{k}", "other", 0) }

// lose takes the lock k away.
func lose(client *redis.Client) { client.Del(context.Background(), "lock:{k}") }

// send has handler serve a request without a body.
func send(handler http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	handler.ServeHTTP(w, r)
	return w
}

func fine(c *echo.Context) error { return c.String(http.StatusOK, "fine") }

// A refusal is found in all the ways in which Echo v5 looks for what an error is.
func TestRefusalIsWhatEchoLooksFor(t *testing.T) {
	locks, client := testenv.Locker(t)
	occupy(client)
	var log bytes.Buffer
	var refused error
	e := newApp(echo.Config{})
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		refused = fmt.Errorf("pay: %w", err) // as other middleware may have it
		echo.DefaultHTTPErrorHandler(true)(c, refused)
	}
	e.POST("/", fine, lock(locks))
	w := send(e, http.MethodPost, "/")
	if w.Code != http.StatusConflict || w.Header().Get(echo.HeaderContentType) != echo.MIMEApplicationProblemJSON ||
		!strings.Contains(w.Body.String(), `"code":"LOCK_BUSY"`) || strings.Contains(w.Body.String(), "held by") {
		t.Errorf("answer = %d %v %s, want the problem of LOCK_BUSY", w.Code, w.Header(), w.Body)
	}
	if got := echo.StatusCode(refused); got != http.StatusConflict {
		t.Errorf("echo.StatusCode = %d, want 409", got)
	}
	var answer *echo.HTTPError
	if !errors.As(refused, &answer) || answer.Code != http.StatusConflict || answer.Message != "Conflict (LOCK_BUSY)" {
		t.Errorf("*echo.HTTPError = %v, want 409 Conflict (LOCK_BUSY)", answer)
	}
	if refusal, ok := lockmw.RefusalOf(refused); !ok || refusal.Code != lockmw.CodeBusy {
		t.Errorf("lockmw.RefusalOf = %v, %v", refusal, ok)
	}
	slog.New(slog.NewJSONHandler(&log, nil)).Error("refused", "error", errors.Unwrap(refused))
	if !strings.Contains(log.String(), "err=") {
		t.Errorf("logged %s, want why", &log)
	}
}

func TestProblemOfEchosOwnHandlerIsTheRefusals(t *testing.T) {
	locks, client := testenv.Locker(t)
	occupy(client)
	e := newApp(echo.Config{HTTPErrorHandler: echo.ProblemDetailsHTTPErrorHandler(true)})
	e.POST("/", fine, lock(locks))
	w := send(e, http.MethodPost, "/")
	const want = `{"type":"about:blank","title":"Conflict","status":409,"detail":`
	if w.Code != http.StatusConflict || !strings.HasPrefix(w.Body.String(), want) || strings.Contains(w.Body.String(), "held by") || w.Header().Get(echo.HeaderRetryAfter) == "" {
		t.Errorf("answer = %d %v %s, want %s", w.Code, w.Header(), w.Body, want)
	}
}

// ContextTimeout takes the end of its time for its own affair, wherever it came.
func TestTimeIsUpWhileARequestWaits(t *testing.T) {
	locks, client := testenv.Locker(t)
	occupy(client)
	e := newApp(echo.Config{})
	e.Use(middleware.ContextTimeout(50 * time.Millisecond))
	e.POST("/", fine, echolock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{Wait: testenv.Patience}))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusServiceUnavailable || w.Header().Get(echo.HeaderRetryAfter) == "" {
		t.Errorf("answer = %d %v, want 503 with the refusal's Retry-After", w.Code, w.Header())
	}
}

// Recover lets http.ErrAbortHandler pass: the connection is to be closed.
func TestAbortedRequestReleases(t *testing.T) {
	locks, client := testenv.Locker(t)
	e := newApp(echo.Config{})
	e.Use(middleware.Recover())
	e.POST("/", func(*echo.Context) error { panic(http.ErrAbortHandler) }, lock(locks))
	defer func() {
		if value := recover(); value != http.ErrAbortHandler { //nolint:errorlint // it is the panic's value
			t.Errorf("panic = %v, want %v", value, http.ErrAbortHandler)
		}
		if client.Exists(context.Background(), "lock:{k}").Val() != 0 {
			t.Error("the lock is held")
		}
	}()
	send(e, http.MethodPost, "/")
}

// Middleware of Echo v5 puts writers on top of Echo's, which keep what is written.
func TestWhatWriterInFrontKeepsIsWritten(t *testing.T) {
	for _, tc := range []struct {
		name   string
		opts   []echolock.Option
		status int
		kind   string
		text   string
	}{
		{"as it is written", nil, http.StatusOK, "text/plain", "paid"},
		{"held back", []echolock.Option{echolock.WithBufferedResponse(10)}, http.StatusInternalServerError, "application/problem+json", lockmw.CodeLost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			locks, client := testenv.Locker(t)
			e := newApp(echo.Config{})
			e.Use(middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1000}))
			e.POST("/", func(c *echo.Context) error {
				_ = c.String(http.StatusOK, "paid")
				lose(client)
				return nil
			}, lock(locks, tc.opts...))
			w := send(e, http.MethodPost, "/", echo.HeaderAcceptEncoding, "gzip")
			if kind := w.Header().Get(echo.HeaderContentType); w.Code != tc.status || !strings.HasPrefix(kind, tc.kind) ||
				!strings.Contains(w.Body.String(), tc.text) || strings.Count(w.Body.String(), "{") > 1 {
				t.Errorf("answer = %d %s %q, want %d %s %s alone", w.Code, kind, w.Body, tc.status, tc.kind, tc.text)
			}
		})
	}
}

func TestWhatAnErrorHandlerWritesIntoAWriterThatKeepsItIsTheAnswer(t *testing.T) {
	locks, client := testenv.Locker(t)
	occupy(client)
	e := newApp(echo.Config{})
	e.Use(middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1000}))
	e.POST("/", fine, lock(locks, echolock.WithErrorHandler(func(c *echo.Context, _ error) error { return c.String(http.StatusLocked, "later") })))
	if w := send(e, http.MethodPost, "/", echo.HeaderAcceptEncoding, "gzip"); w.Code != http.StatusLocked || w.Body.String() != "later" || w.Header().Get(echo.HeaderRetryAfter) != "" {
		t.Errorf("answer = %d %v %q, want 423 later and nothing of the refusal's", w.Code, w.Header(), w.Body)
	}
}

// An error that is answered already is not answered once more, also where a writer in front keeps the answer.
func TestErrorBehindAWriterThatKeepsItIsAnsweredOnce(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := newApp(echo.Config{})
	e.Use(middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1000}), middleware.RequestLoggerWithConfig(middleware.RequestLoggerConfig{
		HandleError: true, LogValuesFunc: func(*echo.Context, middleware.RequestLoggerValues) error { return nil },
	}))
	e.POST("/", func(*echo.Context) error { return echo.NewHTTPError(http.StatusPaymentRequired, "declined") },
		echolock.Idempotent(locks, keyfunc.Header("X-User"), lockmw.Flight{Retain: time.Minute}, echolock.WithKeysOfEverybody()))
	for i := range 2 {
		w := send(e, http.MethodPost, "/", echo.HeaderAcceptEncoding, "gzip", "X-User", "ann")
		if w.Code != http.StatusPaymentRequired || strings.Count(w.Body.String(), "declined") != 1 {
			t.Errorf("answer %d = %d %q, want 402 declined, once", i+1, w.Code, w.Body)
		}
	}
}

func TestHeadOfAGetRouteIsLocked(t *testing.T) {
	for name, opts := range map[string][]echolock.Option{"as it is written": nil, "held back": {echolock.WithBufferedResponse(10)}} {
		t.Run(name, func(t *testing.T) {
			locks, client := testenv.Locker(t)
			e := newApp(echo.Config{Router: echo.NewRouter(echo.RouterConfig{AutoHandleHEAD: true})})
			under := ""
			e.GET("/", func(c *echo.Context) error {
				lease, _ := lockmw.FromContext(c.Request().Context())
				under = lease.Key()
				return fine(c)
			}, lock(locks, opts...))
			if w := send(e, http.MethodHead, "/"); w.Code != http.StatusOK || w.Body.Len() > 0 || w.Header().Get(echo.HeaderContentLength) != "4" || under != "k" {
				t.Errorf("answer = %d %v %q under %q, want 200 for 4 bytes under k", w.Code, w.Header(), w.Body, under)
			}
			occupy(client)
			if w := send(e, http.MethodHead, "/"); w.Code != http.StatusConflict || w.Body.Len() > 0 {
				t.Errorf("answer = %d %q, want 409 alone", w.Code, w.Body)
			}
		})
	}
}

// Handlers and inner middleware look for Echo's response below the writer that they get.
func TestResponseOfEchoIsFoundInTheHandler(t *testing.T) {
	for name, opts := range map[string][]echolock.Option{"as it is written": nil, "held back": {echolock.WithBufferedResponse(10)}} {
		t.Run(name, func(t *testing.T) {
			locks, _ := testenv.Locker(t)
			e := newApp(echo.Config{})
			e.POST("/", func(c *echo.Context) error {
				response := unwrapped(c)
				response.Before(func() { response.Header().Set("X-Before", "called") })
				if err := c.String(http.StatusCreated, "paid"); err != nil {
					return err
				}
				if !response.Committed || response.Status != http.StatusCreated || response.Size != 4 {
					t.Errorf("committed %v, status %d, size %d; want 201 with 4 bytes", response.Committed, response.Status, response.Size)
				}
				return nil
			}, lock(locks, opts...))
			if w := send(e, http.MethodPost, "/"); w.Code != http.StatusCreated || w.Body.String() != "paid" || w.Header().Get("X-Before") != "called" {
				t.Errorf("answer = %d %v %q, want 201 paid", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// WrapMiddleware leaves its own request and response in the context.
func TestContextIsPutBack(t *testing.T) {
	locks, _ := testenv.Locker(t)
	type mark struct{}
	wrapped := echo.WrapMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), mark{}, "inner")))
		})
	})
	e := newApp(echo.Config{})
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			r, w := c.Request(), c.Response()
			err := next(c)
			if c.Request() != r || c.Response() != w {
				t.Error("the request or the response is another one behind the lock")
			}
			return err
		}
	})
	e.POST("/", func(c *echo.Context) error {
		if c.Request().Context().Value(mark{}) != "inner" {
			t.Error("the handler does not get the request of the inner middleware")
		}
		return fine(c)
	}, lock(locks), wrapped)
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusOK || w.Body.String() != "fine" {
		t.Errorf("answer = %d %q, want 200 fine", w.Code, w.Body)
	}
}

func TestKeyOfTheOtherVersionIsAMistake(t *testing.T) {
	locks, _ := testenv.Locker(t)
	var reason error
	e := newApp(echo.Config{})
	e.POST("/", fine, echolock.Middleware(locks, v4.Key(func(echov4.Context) (string, error) { return "k", nil }), lockmw.Policy{}, echolock.WithErrorHandler(func(_ *echo.Context, err error) error {
		reason = err
		return nil
	})))
	if w := send(e, http.MethodPost, "/"); w.Code != http.StatusInternalServerError || !errors.Is(reason, keyfunc.ErrMisuse) || !strings.Contains(reason.Error(), "echolock.Key") {
		t.Errorf("answer = %d, error = %v; want 500 and one that names echolock.Key", w.Code, reason)
	}
}

// c.Bind reads the query of a QUERY, too, and the body after it.
func TestBodyOfQueryOverwritesTheQuery(t *testing.T) {
	locks, _ := testenv.Locker(t)
	e := newApp(echo.Config{})
	bound := ""
	e.QUERY("/", func(c *echo.Context) error {
		var item struct {
			SKU string `json:"sku" query:"sku"`
		}
		err := c.Bind(&item)
		bound = item.SKU
		return err
	}, echolock.Middleware(locks, keyfunc.Query("sku"), lockmw.Policy{}))
	for body, want := range map[string]int{"": http.StatusOK, `{"sku":"8"}`: http.StatusBadRequest} {
		r := httptest.NewRequest(echo.QUERY, "/?sku=7", io.NopCloser(strings.NewReader(body)))
		r.ContentLength = int64(len(body))
		r.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		w := httptest.NewRecorder()
		if e.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: status = %d, want %d", body, w.Code, want)
		}
	}
	if bound != "7" {
		t.Errorf("c.Bind has found %q, want 7", bound)
	}
}

// TestAnswerPastTheDoorIsAnAnswer: a handler of Echo v5 finds Echo's own writer below the door's.
func TestAnswerPastTheDoorIsAnAnswer(t *testing.T) {
	own := func(c *echo.Context) *echo.Response {
		r, err := echo.UnwrapResponse(c.Response())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, answer := range map[string]func(c *echo.Context) error{
		"by Echo's writer":        func(c *echo.Context) error { return write(own(c), http.StatusCreated) },
		"by the one below Echo's": func(c *echo.Context) error { return write(own(c).Unwrap(), http.StatusCreated) },
		"by the one below the door's": func(c *echo.Context) error {
			return write(c.Response().(interface{ Unwrap() http.ResponseWriter }).Unwrap(), http.StatusCreated)
		},
		"by a flush": func(c *echo.Context) error {
			c.Response().Header().Set("X-Paid", "paid")
			return http.NewResponseController(own(c)).Flush()
		},
		"by hijacking": func(c *echo.Context) error {
			conn, rw, err := http.NewResponseController(own(c)).Hijack()
			if err != nil {
				return err
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 201 Created\r\nContent-Length: 4\r\nConnection: close\r\n\r\npaid")
			return rw.Flush()
		},
	} {
		locks, client := testenv.Locker(t)
		e := newApp(echo.Config{})
		e.POST("/", func(c *echo.Context) error {
			if err := answer(c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			lose(client)
			return nil
		}, lock(locks, echolock.WithErrorHandler(func(_ *echo.Context, err error) error {
			t.Errorf("%s: the error handler is told %v, and there is no place for its answer", name, err)
			return err
		})))
		server := httptest.NewServer(e)
		response, err := server.Client().Post(server.URL, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		server.Close()
		if got := string(body) + response.Header.Get("X-Paid"); err != nil || got != "paid" || response.StatusCode >= 300 {
			t.Errorf("%s: the client gets %d %q, %v; want what the handler has written", name, response.StatusCode, got, err)
		}
	}
}

// write writes an answer.
func write(w http.ResponseWriter, status int) error {
	w.WriteHeader(status)
	_, err := io.WriteString(w, "paid")
	return err
}

// TestStatusPastTheDoorCounts is about MinHold, which a failure ends.
func TestStatusPastTheDoorCounts(t *testing.T) {
	locks, _ := testenv.Locker(t)
	ran := 0
	e := newApp(echo.Config{})
	nested := echolock.Middleware(locks, keyfunc.Const("outer"), lockmw.Policy{})
	e.POST("/", func(c *echo.Context) error {
		ran++
		r, err := echo.UnwrapResponse(c.Response())
		if err != nil {
			return err
		}
		return write(r, http.StatusBadRequest)
	}, nested, echolock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{MinHold: time.Minute}))
	for range 2 {
		send(e, http.MethodPost, "/")
	}
	if ran != 2 {
		t.Errorf("the handler that answers 400 ran %d times for two requests, want 2", ran)
	}
}
