package ginlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What only Gin has of Idempotent. What all doors do is in doortest.

// once is an Idempotent whose key is the user.
func once(locks *lockmw.Locker) gin.HandlerFunc {
	return ginlock.Idempotent(locks, keyfunc.Header("X-User"), lockmw.Flight{Policy: lockmw.Policy{Name: "pay"}, Retain: time.Minute}, ginlock.WithKeysOfEverybody())
}

// sendAs has handler serve a POST of a user.
func sendAs(handler http.Handler, user, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-User", user)
	handler.ServeHTTP(w, r)
	return w
}

// TestErrorThatMiddlewareAnswersIsNotKept is about middleware that makes answers of c.Errors, which Gin's own documentation recommends.
func TestErrorThatMiddlewareAnswersIsNotKept(t *testing.T) {
	for name, tc := range map[string]struct {
		handle gin.HandlerFunc
		runs   int // of two requests
		status int
		body   string
	}{
		"an error":               {func(c *gin.Context) { _ = c.Error(errors.New("broke")) }, 2, http.StatusPaymentRequired, "broke"},
		"an error with a status": {func(c *gin.Context) { c.Status(http.StatusGone); _ = c.Error(errors.New("broke")) }, 2, http.StatusPaymentRequired, "broke"},
		"an error with an answer": {func(c *gin.Context) {
			_ = c.Error(errors.New("no mail"))
			c.String(http.StatusOK, "paid")
		}, 1, http.StatusOK, "paid"},
		"nothing":        {func(*gin.Context) {}, 1, http.StatusOK, ""},
		"a status alone": {func(c *gin.Context) { c.Status(http.StatusNoContent) }, 1, http.StatusNoContent, ""},
	} {
		locks, _ := testenv.Locker(t)
		runs := 0
		engine := gin.New()
		engine.Use(func(c *gin.Context) {
			c.Next()
			if len(c.Errors) > 0 && !c.Writer.Written() {
				c.String(http.StatusPaymentRequired, c.Errors.Last().Error())
			}
		})
		engine.POST("/", once(locks), func(c *gin.Context) {
			runs++
			tc.handle(c)
		})
		for i := range 2 {
			w := sendAs(engine, "ann", "/", "")
			if replayed := w.Header().Get("Idempotent-Replayed") != ""; w.Code != tc.status || w.Body.String() != tc.body || replayed != (i == 1 && tc.runs == 1) {
				t.Errorf("%s: answer %d = %d %q %v, want %d %q", name, i+1, w.Code, w.Body, w.Header(), tc.status, tc.body)
			}
		}
		if runs != tc.runs {
			t.Errorf("%s: the handler ran %d times, want %d", name, runs, tc.runs)
		}
	}
}

// TestErrorThatTellsOfALossIsUncertain is about a handler that takes a lock itself, and leaves to middleware in front what is answered: whether it has
// done its work is not known, where otherwise it is known that there was some.
func TestErrorThatTellsOfALossIsUncertain(t *testing.T) {
	for err, code := range map[error]string{
		lockmw.ErrLost:                "IDEMPOTENCY_UNCERTAIN",
		lockmw.ErrMaxHold:             "IDEMPOTENCY_UNCERTAIN",
		lockmw.ErrUncertain:           "IDEMPOTENCY_UNCERTAIN",
		errors.New("it is something"): "IDEMPOTENCY_ANSWER_NOT_KEPT",
	} {
		locks, _ := testenv.Locker(t)
		engine := gin.New()
		engine.Use(func(c *gin.Context) {
			c.Next()
			if len(c.Errors) > 0 && !c.Writer.Written() {
				c.Status(http.StatusPaymentRequired)
			}
		})
		flight := lockmw.Flight{Retain: time.Minute, Crash: lockmw.Uncertain}
		engine.POST("/", ginlock.Idempotent(locks, keyfunc.Header("X-User"), flight, ginlock.WithKeysOfEverybody()), func(c *gin.Context) {
			_ = c.Error(fmt.Errorf("the order: %w", err))
		})
		if w := sendAs(engine, "ann", "/", ""); w.Code != http.StatusPaymentRequired {
			t.Errorf("%v: the first answer is %d %q, want that of middleware in front", err, w.Code, w.Body)
		}
		if w := sendAs(engine, "ann", "/", ""); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), code) {
			t.Errorf("%v: the second answer is %d %q, want %s", err, w.Code, w.Body, code)
		}
	}
}

// A lock in front of Idempotent is told, once for each route. Behind it a lock is right.
func TestLockInFrontOfIdempotentIsTold(t *testing.T) {
	var log testenv.Journal
	r := testenv.New(t, redistest.Embedded(t))
	locks := r.NewLocker(log.Option())
	lock, engine := ginlock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{}), gin.New()
	paid := func(c *gin.Context) { c.String(http.StatusCreated, "paid") }
	engine.POST("/orders/:id/pay", lock, once(locks), paid)
	engine.POST("/orders/:id/cancel", once(locks), lock, paid)
	engine.Group("/refunds", once(locks)).POST("/:id", lock, paid)
	for _, path := range []string{"/orders/1/pay", "/orders/2/pay", "/orders/1/cancel", "/refunds/1"} {
		if w := sendAs(engine, "of"+path, path, ""); w.Code != http.StatusCreated {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
	r.CloseNow(locks)
	if log.Count("in front of Idempotent", "POST /orders/:id/pay") != 1 || log.Count("in front of Idempotent") != 1 {
		t.Errorf("want one line, of the first route:\n%s", log.Text())
	}
}

// A stream of Gin ends when it hears that its client has left. Here the work goes on, and the whole answer is for the next try.
func TestStreamGoesOnWithoutItsClient(t *testing.T) {
	locks, _ := testenv.Locker(t)
	left := make(chan struct{})
	engine := gin.New()
	engine.Use(func(c *gin.Context) {
		stop := context.AfterFunc(c.Request.Context(), func() { close(left) })
		defer stop()
		c.Next()
	})
	began := make(chan struct{})
	engine.POST("/", once(locks), func(c *gin.Context) {
		close(began)
		<-left
		line := 0
		c.Stream(func(w io.Writer) bool {
			line++
			_, _ = fmt.Fprintln(w, "line", line)
			return line < 3
		})
	})
	server := httptest.NewServer(engine)
	defer server.Close()
	ask := func(ctx context.Context) (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody)
		if err != nil {
			return "", err
		}
		r.Header.Set("X-User", "ann")
		answer, err := server.Client().Do(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return string(text), err
	}
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := ask(ctx)
		gone <- err
	}()
	<-began
	leave()
	if err := <-gone; err == nil {
		t.Error("the first client has an answer")
	}
	<-left
	var text string
	await.Until(t, "the answer is kept", func() bool {
		var err error
		text, err = ask(t.Context())
		return err == nil && strings.HasPrefix(text, "line")
	})
	if text != "line 1\nline 2\nline 3\n" {
		t.Errorf("the second client gets %q", text)
	}
}

func TestMiddlewareInFrontSeesWhetherTheHandlersRan(t *testing.T) {
	locks, _ := testenv.Locker(t)
	var aborted []bool
	engine := gin.New()
	engine.Use(func(c *gin.Context) {
		before := c.Request
		c.Next()
		aborted = append(aborted, c.IsAborted())
		if !c.Writer.Written() || c.Writer.Status() != http.StatusNoContent || c.Request != before {
			t.Errorf("written %v, status %d; want the answer, and the request as it was", c.Writer.Written(), c.Writer.Status())
		}
	})
	engine.POST("/", once(locks), func(c *gin.Context) { c.Status(http.StatusNoContent) })
	for range 2 {
		sendAs(engine, "ann", "/", "")
	}
	if len(aborted) != 2 || aborted[0] || !aborted[1] {
		t.Errorf("aborted: %v, want the replay alone", aborted)
	}
}

func TestPlaceOfIdempotentIsChecked(t *testing.T) {
	for _, tc := range []struct {
		wrote   string
		routing routing
		request string
		answer  string
		runs    int    // of two requests
		says    string // in the log, at its end; empty: nothing is logged
	}{
		{"on its route", onRoute, "POST /orders/42/pay ann", "200 fine", 1, ""},
		{"behind the handler", behindHandler, "POST /orders/42/pay ann", "200 fine", 2, behind},
		{"behind a handler that writes nothing", behindSilentHandler, "POST /orders/42/pay ann", "500 ", 0, behind},
		{"in Use, for an unknown path", inUse, "POST /nothing ann", "404 404 page not found", 0, ""},
		{"in Use with others, for an unknown path", inUseWithOthers, "POST /nothing ann", "404 404 page not found", 0, ""},
		{"in Use, and NoRoute works", inUseWithNoRoute, "POST /nothing ann", "200 fine", 1, ""},
	} {
		var log testenv.Log
		r := testenv.New(t, redistest.Embedded(t))
		locks := r.NewLocker(log.Option())
		runs := 0
		engine := gin.New()
		tc.routing(engine, once(locks), func(c *gin.Context) {
			runs++
			c.String(http.StatusOK, "fine")
		})
		for range 2 {
			if answer := testenv.Ask(engine, tc.request); answer != tc.answer {
				t.Errorf("%s: answer = %q, want %q", tc.wrote, answer, tc.answer)
			}
		}
		if runs != tc.runs {
			t.Errorf("%s: the handler ran %d times, want %d", tc.wrote, runs, tc.runs)
		}
		r.CloseNow(locks)
		if lines := log.Lines(); (tc.says != "") != (len(lines) == 1) || len(lines) > 0 && !strings.HasSuffix(lines[0], tc.says) {
			t.Errorf("%s: logged %q, want %q", tc.wrote, lines, tc.says)
		}
	}
}

func TestBodyThatIsBoundAlreadyTellsRequestsApart(t *testing.T) {
	for name, bind := range map[string]func(*gin.Context) error{
		"kept": func(c *gin.Context) error { return c.ShouldBindBodyWith(new(order), binding.JSON) },
		"gone": func(c *gin.Context) error { return c.ShouldBindJSON(new(order)) },
	} {
		locks, _ := testenv.Locker(t)
		engine := gin.New()
		engine.Use(func(c *gin.Context) {
			if err := bind(c); err != nil {
				t.Error(err)
			}
		})
		runs := 0
		engine.POST("/", once(locks), func(c *gin.Context) {
			runs++
			c.Status(http.StatusCreated)
		})
		var got []int
		for _, body := range []string{`{"id":7}`, `{"id":7}`, `{"id":8}`} {
			got = append(got, sendAs(engine, "ann", "/", body).Code)
		}
		want, wantRuns := [3]int{http.StatusCreated, http.StatusCreated, http.StatusUnprocessableEntity}, 1
		if name == "gone" { // two requests would be the same to the middleware, and to nobody else
			want, wantRuns = [3]int{http.StatusInternalServerError, http.StatusInternalServerError, http.StatusInternalServerError}, 0
		}
		if [3]int(got) != want || runs != wantRuns {
			t.Errorf("%s: answers %v, %d runs; want %v, %d", name, got, runs, want, wantRuns)
		}
	}
}
