package ginlock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"
	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/ginlock"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What only Gin has. What all doors do is in doortest.

// send has handler serve a POST.
func send(handler http.Handler, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	handler.ServeHTTP(w, r)
	return w
}

type order struct {
	ID int `json:"id"`
}

func TestBodyCanBeBoundInEveryWay(t *testing.T) {
	locks, _ := testenv.Locker(t)
	engine := gin.New()
	engine.POST("/", ginlock.Middleware(locks, keyfunc.Body("id"), lockmw.Policy{}), func(c *gin.Context) {
		for name, bind := range map[string]func(*order) error{
			"ShouldBindBodyWith": func(o *order) error { return c.ShouldBindBodyWith(o, binding.JSON) },
			"ShouldBindJSON":     func(o *order) error { return c.ShouldBindJSON(o) },
		} {
			var o order
			if err := bind(&o); err != nil || o.ID != 7 {
				t.Errorf("%s: %+v, %v; want id 7", name, o, err)
			}
		}
	})
	if w := send(engine, "/", `{"id":7}`); w.Code != http.StatusOK {
		t.Errorf("status = %d %s", w.Code, w.Body)
	}
}

func TestBodyThatIsBoundAlreadyGivesTheKey(t *testing.T) {
	locks, _ := testenv.Locker(t)
	var key string
	engine := gin.New()
	engine.Use(func(c *gin.Context) {
		if err := c.ShouldBindBodyWith(new(order), binding.JSON); err != nil {
			t.Error(err)
		}
	})
	engine.POST("/", ginlock.Middleware(locks, keyfunc.Body("id"), lockmw.Policy{}), func(c *gin.Context) {
		if lease, ok := lockmw.FromContext(c.Request.Context()); ok {
			key = lease.Key()
		}
	})
	if w := send(engine, "/", `{"id":7}`); w.Code != http.StatusOK || key != "7" {
		t.Errorf("status = %d, key = %q; want 200, 7", w.Code, key)
	}
	if w := send(engine, "/", `{"id":7,"x":"`+strings.Repeat("x", 64<<10)+`"}`); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status of a long body = %d, want 413", w.Code)
	}
}

// TestQueryIsNoMissingBody: without a body c.ShouldBind fills a struct from the
// query, by the names of fields that have no form tag, which the door does not
// know.
func TestQueryIsNoMissingBody(t *testing.T) {
	locks, _ := testenv.Locker(t)
	for _, tc := range []struct {
		method, query, body, kind string
		status                    int
	}{
		{http.MethodPost, "?ItemCode=8", "", "", http.StatusBadRequest},
		{http.MethodPost, "?ItemCode=8", "", "text/plain", http.StatusBadRequest},
		{http.MethodGet, "?ItemCode=8", "", "application/json", http.StatusBadRequest},
		{http.MethodPost, "?ItemCode=8", `{}`, "application/json", http.StatusOK},
		{http.MethodPost, "?ItemCode=8", `{"sku":7}`, "application/json", http.StatusOK},
		{http.MethodPost, "?ItemCode=8", "", "application/json", http.StatusOK},
		{http.MethodPost, "", "", "", http.StatusOK},
	} {
		engine := gin.New()
		engine.Handle(tc.method, "/", ginlock.Middleware(locks, keyfunc.MustParse("item{body.sku?}"), lockmw.Policy{}), func(c *gin.Context) {
			var item struct {
				ItemCode int `json:"sku"`
			}
			_ = c.ShouldBind(&item)
			lease, _ := lockmw.FromContext(c.Request.Context())
			if seen := strings.TrimSuffix("item"+strconv.Itoa(item.ItemCode), "0"); lease.Key() != seen {
				t.Errorf("%+v: the key is %q, and the handler sees %q", tc, lease.Key(), seen)
			}
		})
		r := httptest.NewRequest(tc.method, "/"+tc.query, strings.NewReader(tc.body))
		r.Header.Set("Content-Type", tc.kind)
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, r)
		if w.Code != tc.status {
			t.Errorf("%+v: status = %d, want %d", tc, w.Code, tc.status)
		}
	}
}

func TestBodyIsNotKeptWhereTheKeyDoesNotNeedIt(t *testing.T) {
	locks, _ := testenv.Locker(t)
	engine := gin.New()
	engine.POST("/", ginlock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}),
		func(c *gin.Context) { // as middleware does that decrypts or unpacks
			c.Request.Body = io.NopCloser(strings.NewReader(`{"id":8}`))
		},
		func(c *gin.Context) {
			var o order
			if err := c.ShouldBindBodyWith(&o, binding.JSON); err != nil || o.ID != 8 {
				t.Errorf("bound %+v, %v; want id 8", o, err)
			}
		})
	if w := send(engine, "/", `packed`); w.Code != http.StatusOK {
		t.Errorf("status = %d %s", w.Code, w.Body)
	}
}

func TestRefusalIsRecordedAndAborts(t *testing.T) {
	locks, client := testenv.Locker(t)
	client.Set(context.Background(), "lock:{k}", "other", 0)
	var errs []*gin.Error
	var log strings.Builder
	engine := gin.New()
	engine.Use(gin.LoggerWithWriter(&log), func(c *gin.Context) {
		c.Next()
		errs = c.Errors
		if !c.IsAborted() {
			t.Error("the chain is not aborted")
		}
	})
	handled := false
	engine.POST("/", ginlock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{},
		ginlock.WithErrorHandler(func(c *gin.Context, _ error) { c.Next() })),
		func(*gin.Context) { handled = true })
	w := send(engine, "/", "")
	if w.Code != http.StatusConflict || handled {
		t.Errorf("status = %d, handled %v; want 409, false", w.Code, handled)
	}
	var refused *lockmw.AcquireError
	if len(errs) != 1 || !errors.As(errs[0], &refused) || !errors.Is(refused, lockmw.ErrNotAcquired) {
		t.Errorf("c.Errors = %v, want the refusal", errs)
	}
	if text := log.String(); !strings.Contains(text, "409") || strings.Contains(text, "lock not acquired") {
		t.Errorf("gin.Logger prints %q, want the request without the refusal, which the Locker's log has", text)
	}
	if public := errs[0].IsType(gin.ErrorTypePublic); public {
		t.Error("the refusal is one of Gin's public errors, whose texts are for clients")
	}
}

// gin.ErrorLogger sends all recorded errors to the client.
func TestRecordedErrorShowsClientsNothing(t *testing.T) {
	locks, client := testenv.Locker(t)
	client.HSet(context.Background(), "lock:{order:42}", "their", "data")
	engine := gin.New()
	engine.Use(gin.ErrorLogger())
	engine.POST("/orders/:id", ginlock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{Prefix: "order:"}), func(*gin.Context) {})
	w := send(engine, "/orders/42", "")
	const problem = `{"type":"about:blank","title":"Service Unavailable","status":503,` +
		`"detail":"The request was not processed, because exclusive access cannot be arranged at the moment.","code":"LOCK_BACKEND_UNAVAILABLE","retry_after_ms":1000}`
	if got, want := w.Body.String(), problem+"\n"+problem; got != want {
		t.Errorf("body = %s\nwant   %s", got, want)
	}
}

func TestStatusAloneIsAnAnswerOfAnErrorHandler(t *testing.T) {
	locks, client := testenv.Locker(t)
	client.Set(context.Background(), "lock:{k}", "other", 0)
	engine := gin.New()
	engine.POST("/", ginlock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{},
		ginlock.WithErrorHandler(func(c *gin.Context, _ error) { c.Status(http.StatusLocked) })))
	if w := send(engine, "/", ""); w.Code != http.StatusLocked || w.Body.Len() > 0 {
		t.Errorf("answer = %d %s, want 423 alone", w.Code, w.Body)
	}
}

func TestParametersOfOtherRoutesAreNotUsed(t *testing.T) {
	locks, _ := testenv.Locker(t)
	engine := gin.New()
	engine.POST("/orders/:id/pay", func(*gin.Context) {})
	engine.NoRoute(ginlock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{}), func(c *gin.Context) {
		t.Errorf("the handler runs; c.Param = %q", c.Param("id"))
	})
	if w := send(engine, "/orders/7/paid", ""); w.Code != http.StatusNotFound {
		t.Errorf("status = %d, want 404", w.Code)
	}
}

// TestHijackingAfterAWriteDoesNotWaitForTheBody: Gin from 1.11 on gives no connection
// away when something was written. Older ones have net/http send it first, which reads
// the body before.
func TestHijackingAfterAWriteDoesNotWaitForTheBody(t *testing.T) {
	locks, _ := testenv.Locker(t)
	written := make(chan struct{})
	engine := gin.New()
	engine.POST("/", ginlock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, ginlock.WithBodyTimeout(100*time.Millisecond)),
		func(c *gin.Context) {
			defer close(written)
			_, _ = c.Writer.WriteString("paid")
			if conn, _, err := c.Writer.Hijack(); err == nil {
				defer conn.Close()
			}
			_, _ = c.Writer.Write(make([]byte, 3<<10))
		})
	server := httptest.NewServer(engine)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 100000\r\n\r\n")
	select {
	case <-written:
	case <-time.After(testenv.Patience):
		t.Error("the answer waits for the body")
	}
}

// lose takes the lock k away.
func lose(client *redis.Client) { client.Del(context.Background(), "lock:{k}") }

func TestStatusWithoutABodyIsNoAnswerWhenTheLockIsLost(t *testing.T) {
	for name, opts := range map[string][]ginlock.Option{
		"default":       nil,
		"error handler": {ginlock.WithErrorHandler(func(*gin.Context, error) {})},
		"buffered":      {ginlock.WithBufferedResponse(10)},
	} {
		locks, client := testenv.Locker(t)
		engine := gin.New()
		engine.POST("/", ginlock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, opts...), func(c *gin.Context) {
			c.Status(http.StatusNoContent)
			lose(client)
		})
		if w := send(engine, "/", ""); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "LOCK_LOST") {
			t.Errorf("%s: answer = %d %s, want 500 LOCK_LOST", name, w.Code, w.Body)
		}
	}
}

func TestLostLockIsRecorded(t *testing.T) {
	for _, body := range []string{"", "written"} {
		locks, client := testenv.Locker(t)
		var errs []*gin.Error
		engine := gin.New()
		engine.Use(func(c *gin.Context) {
			c.Next()
			errs = c.Errors
		})
		engine.POST("/", ginlock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}), func(c *gin.Context) {
			if body != "" {
				c.String(http.StatusOK, body)
			}
			lose(client)
		})
		send(engine, "/", "")
		if len(errs) != 1 || !errors.Is(errs[0], lockmw.ErrLost) {
			t.Errorf("%q: errors = %v, want one that is %v", body, errs, lockmw.ErrLost)
		}
	}
}

func TestHeldResponseLooksLikeGins(t *testing.T) {
	locks, _ := testenv.Locker(t)
	type state struct {
		Status, Size int
		Written      bool
	}
	states := make(map[string][]state)
	for name, opts := range map[string][]ginlock.Option{"plain": nil, "held": {ginlock.WithBufferedResponse(100)}} {
		engine := gin.New()
		engine.POST("/", ginlock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, opts...), func(c *gin.Context) {
			note := func() {
				states[name] = append(states[name], state{c.Writer.Status(), c.Writer.Size(), c.Writer.Written()})
			}
			note()
			c.Status(http.StatusAccepted)
			note()
			c.Status(http.StatusCreated)
			c.Writer.WriteHeaderNow()
			note()
			c.Status(http.StatusTeapot) // too late
			_, _ = c.Writer.WriteString("ab")
			note()
			_, _ = c.Writer.Write([]byte("cde"))
			c.Writer.Flush()
			note()
		})
		if w := send(engine, "/", ""); w.Code != http.StatusCreated || w.Body.String() != "abcde" {
			t.Errorf("%s: answer = %d %s, want 201 abcde", name, w.Code, w.Body)
		}
	}
	for i, want := range states["plain"] {
		if got := states["held"][i]; got != want {
			t.Errorf("state %d = %+v, want %+v", i, got, want)
		}
	}
}

func TestHeldStatusIsSent(t *testing.T) {
	locks, _ := testenv.Locker(t)
	engine := gin.New()
	engine.POST("/", ginlock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, ginlock.WithBufferedResponse(10)),
		func(c *gin.Context) { c.Status(http.StatusNoContent) })
	if w := send(engine, "/", ""); w.Code != http.StatusNoContent {
		t.Errorf("status = %d, want 204", w.Code)
	}
}

func TestRecoveryAnswersInPlaceOfAHeldResponse(t *testing.T) {
	locks, _ := testenv.Locker(t)
	engine := gin.New()
	engine.Use(gin.RecoveryWithWriter(io.Discard))
	engine.POST("/", ginlock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, ginlock.WithBufferedResponse(10)), func(c *gin.Context) {
		c.String(http.StatusOK, "half")
		panic("broken")
	})
	if w := send(engine, "/", ""); w.Code != http.StatusInternalServerError || w.Body.Len() > 0 {
		t.Errorf("answer = %d %q, want 500 alone", w.Code, w.Body)
	}
}

// c.Param returns the first of them, and c.ShouldBindUri the last.
func TestParametersOfOneNameAreRefusedIfTheyDiffer(t *testing.T) {
	locks, _ := testenv.Locker(t)
	engine := gin.New()
	engine.POST("/shops/:id/orders/:id", ginlock.Middleware(locks, keyfunc.Param("id"), lockmw.Policy{}), func(*gin.Context) {})
	for path, want := range map[string]int{"/shops/7/orders/7": http.StatusOK, "/shops/7/orders/8": http.StatusBadRequest} {
		w := send(engine, path, "")
		if names := strings.Contains(w.Body.String(), `the parameter \"id\" is the name of two parameters of the route`); w.Code != want || names != (want == http.StatusBadRequest) {
			t.Errorf("%s: status = %d, want %d; the answer is %s", path, w.Code, want, w.Body)
		}
	}
}

// What c.ShouldBind takes for a form it looks for in the query, and key and
// handler would differ.
func TestBodyThatGinDoesNotTakeForJSONIsRefused(t *testing.T) {
	locks, _ := testenv.Locker(t)
	engine := gin.New()
	engine.Any("/", ginlock.Middleware(locks, keyfunc.Body("id"), lockmw.Policy{}), func(c *gin.Context) {
		var o order
		if err := c.ShouldBind(&o); err != nil || o.ID != 7 {
			t.Errorf("bound %+v, %v; want id 7", o, err)
		}
	})
	for _, tc := range []struct {
		method, kind string
		want         int
	}{
		{http.MethodPost, "application/json", http.StatusOK},
		{http.MethodDelete, "application/json; charset=utf-8", http.StatusOK},
		{http.MethodGet, "application/json", http.StatusBadRequest},
		{http.MethodPost, "Application/JSON", http.StatusBadRequest},
		{http.MethodPost, "application/json\t;a=b", http.StatusBadRequest},
		{http.MethodPost, "application/vnd.api+json", http.StatusBadRequest},
	} {
		r := httptest.NewRequest(tc.method, "/", strings.NewReader(`{"id":7}`))
		r.Header.Set("Content-Type", tc.kind)
		w := httptest.NewRecorder()
		if engine.ServeHTTP(w, r); w.Code != tc.want {
			t.Errorf("%s of %q: status = %d, want %d", tc.method, tc.kind, w.Code, tc.want)
		}
	}
}

// TestRecordedErrorOfAnAnswerIsNoFailure is about MinHold: an error that handlers record is for a
// middleware in front, which makes an answer of it, unless they have answered themselves.
func TestRecordedErrorOfAnAnswerIsNoFailure(t *testing.T) {
	mail := errors.New("the mail could not be sent")
	for name, tc := range map[string]struct {
		handle gin.HandlerFunc
		again  bool // a second request comes through
	}{
		"answered with 200":       {func(c *gin.Context) { _ = c.Error(mail); c.String(http.StatusOK, "paid") }, false},
		"answered, then recorded": {func(c *gin.Context) { c.String(http.StatusCreated, "paid"); _ = c.Error(mail) }, false},
		"a status that is sent":   {func(c *gin.Context) { c.Status(http.StatusNoContent); c.Writer.WriteHeaderNow(); _ = c.Error(mail) }, false},
		"answered with 400":       {func(c *gin.Context) { _ = c.Error(mail); c.String(http.StatusBadRequest, "no") }, true},
		"no answer":               {func(c *gin.Context) { _ = c.Error(mail) }, true},
		"a status alone":          {func(c *gin.Context) { c.Status(http.StatusOK); _ = c.Error(mail) }, true},
		"aborted with an error":   {func(c *gin.Context) { _ = c.AbortWithError(http.StatusInternalServerError, mail) }, true},
		"nothing recorded":        {func(*gin.Context) {}, false},
	} {
		for held, opts := range map[bool][]ginlock.Option{false: nil, true: {ginlock.WithBufferedResponse(100)}} {
			locks, _ := testenv.Locker(t)
			ran := 0
			engine := gin.New()
			engine.POST("/", ginlock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{MinHold: time.Minute}, opts...), func(c *gin.Context) {
				ran++
				tc.handle(c)
			})
			for range 2 {
				send(engine, "/", "")
			}
			want := 1
			if tc.again {
				want = 2
			}
			if ran != want {
				t.Errorf("%s, response held back: %v: the handler ran %d times for two requests, want %d", name, held, ran, want)
			}
		}
	}
}
