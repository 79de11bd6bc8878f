package doortest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What an Idempotent keeps of an answer. Who gets it is in once.go.

// answersAs is a handler that answers with the status that the request asks for.
func answersAs(x *Exchange) error {
	status, err := strconv.Atoi(x.R.Header.Get("X-Status"))
	if err == nil {
		x.W.WriteHeader(status)
		_, err = io.WriteString(x.W, "as you say")
	}
	if errors.Is(err, http.ErrBodyNotAllowed) {
		err = nil
	}
	return err
}

// wantKept fails the test unless the answer of handler to a click with that status is kept, or is not.
func (e *env) wantKept(handler http.Handler, status int, kept bool) {
	e.Helper()
	c := click{key: fmt.Sprint("status", status), header: http.Header{"X-Status": {strconv.Itoa(status)}}}
	ran, want := e.Ran.Load(), int32(2)
	first, second := e.ask(handler, c), e.ask(handler, c)
	if kept {
		want = 1
		e.wantReplay(second, first)
	} else if second.header.Get("Idempotent-Replayed") != "" || second.status != status {
		e.Errorf("%d: the second answer is %d %v, want the handler's", status, second.status, second.header)
	}
	if got := e.Ran.Load() - ran; got != want || first.status != status {
		e.Errorf("%d: the handler ran %d times for two clicks, want %d; status = %d", status, got, want, first.status)
	}
}

func answersBelow500AreKept(e *env) {
	handler := e.handler(e.onceRoute(answersAs))
	for _, status := range []int{200, 201, 202, 204, 302, 303, 400, 402, 404, 410, 422} {
		e.wantKept(handler, status, true)
	}
	for _, status := range []int{206, 401, 403, 408, 409, 425, 429, 500, 502, 503} {
		e.wantKept(handler, status, false)
	}
}

func keepDecidesWhatIsKept(e *env) {
	route := e.onceRoute(func(x *Exchange) error {
		x.W.Header().Set("X-Final", x.R.Header.Get("X-Final"))
		return answersAs(x)
	})
	route.Options.Keep = func(status int, header http.Header) bool {
		return status == http.StatusBadGateway || header.Get("X-Final") == "yes"
	}
	handler := e.handler(route)
	e.wantKept(handler, http.StatusOK, false)
	e.wantKept(handler, http.StatusBadGateway, true)
	c := click{key: "final", header: http.Header{"X-Status": {"429"}, "X-Final": {"yes"}}}
	first := e.ask(handler, c)
	e.wantReplay(e.ask(handler, c), first)
}

// errorOfTheHandlerIsAnswered: Echo makes an answer of an error that its handler returns, and a test route of the others
// answers with 500.
func errorOfTheHandlerIsAnswered(e *env) {
	route := e.onceRoute(func(*Exchange) error { return errHandler })
	route.Options.Keep = func(int, http.Header) bool { return true }
	handler := e.handler(route)
	first := e.ask(handler, click{key: "k"})
	e.wantStatus(first, http.StatusInternalServerError)
	e.wantReplay(e.ask(handler, click{key: "k"}), first)
	e.WantRuns(1)
}

// refusalOfAnInnerLockIsNoAnswer, whatever an error handler makes of it.
func refusalOfAnInnerLockIsNoAnswer(e *env) {
	for name, handle := range map[string]func(w http.ResponseWriter, r *http.Request, err error){
		"problem": nil,
		"envelope": func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, `{"error":"busy"}`)
		},
	} {
		e.Ran.Store(0)
		inner, route := e.route(nil), e.onceRoute(e.receipt)
		inner.Options.ErrorHandler = handle
		route.Behind = &inner
		handler := e.handler(route)
		lease := e.hold()
		refused := e.ask(handler, click{key: name})
		if handle == nil {
			e.wantProblem(refused, http.StatusConflict, lockmw.CodeBusy)
		} else if refused.status != http.StatusOK || !strings.Contains(refused.body, "busy") {
			e.Errorf("%s: answer = %d %q, want the error handler's", name, refused.status, refused.body)
		}
		e.WantRuns(0)
		e.Release(lease)
		first := e.ask(handler, click{key: name})
		e.wantStatus(first, http.StatusCreated)
		e.wantReplay(e.ask(handler, click{key: name}), first)
		e.WantRuns(1)
	}
	inner, route := e.route(nil), e.onceRoute(e.receipt)
	inner.Key = keyfunc.Header("X-Shop") // which is missing: that is no answer either
	route.Behind = &inner
	handler := e.handler(route)
	e.wantStatus(e.ask(handler, click{key: "k"}), http.StatusBadRequest)
	e.wantStatus(e.ask(handler, click{key: "k", header: http.Header{"X-Shop": {"7"}}}), http.StatusCreated)
}

// refusalThatTheHandlerWritesIsNoAnswer: httplock.WriteRefusal answers in each framework, for the handler's own client alone.
func refusalThatTheHandlerWritesIsNoAnswer(e *env) {
	route := e.onceRoute(func(x *Exchange) error {
		if e.Ran.Load() > 1 {
			return e.receipt(x)
		}
		if httplock.WriteRefusal(x.W, x.R, nil) || !httplock.WriteRefusal(x.W, x.R, fmt.Errorf("the order: %w", lockmw.ErrQueueFull)) {
			e.Error("WriteRefusal takes nil for a refusal, or a refusal for none")
		}
		return nil
	})
	route.Flight.Crash = lockmw.Uncertain // which keeps a 503 otherwise
	handler := e.handler(route)
	a := e.ask(handler, click{key: "k"})
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, lockmw.CodeQueueFull) || strings.Contains(a.body, "order") || a.header.Get("Retry-After") == "" {
		e.Errorf("answer = %d %v %q, want the refusal", a.status, a.header, a.body)
	}
	first := e.ask(handler, click{key: "k"})
	e.wantReplay(e.ask(handler, click{key: "k"}), first)
	e.WantRuns(2)
}

func notAnAnswerIsNotKept(e *env) {
	handler := e.handler(e.onceRoute(func(x *Exchange) error {
		if e.Ran.Load() == 1 {
			lockmw.NotAnAnswer(x.R.Context())
		}
		return e.receipt(x)
	}))
	if a := e.ask(handler, click{key: "k"}); a.status != http.StatusCreated || a.body != "paid by run 1" {
		e.Errorf("answer = %d %q, want the handler's", a.status, a.body)
	}
	first := e.ask(handler, click{key: "k"})
	e.wantReplay(e.ask(handler, click{key: "k"}), first)
	e.WantRuns(2)
}

// onlyTheHandlersHeaderIsReplayed: what outer middleware has set belongs to one request.
func onlyTheHandlersHeaderIsReplayed(e *env) {
	route := e.onceRoute(func(x *Exchange) error {
		h := x.W.Header()
		h.Set("X-Receipt", "7")
		h["X-Several"] = []string{"a", "b"}
		h.Set("Set-Cookie", "session=ann")
		h.Set("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("X-Changed", "by the handler")
		h.Set("Content-Type", "text/plain")
		h.Set("Content-Length", "4")
		_, err := io.WriteString(x.W, "paid")
		h.Set("X-Late", "1")
		return err
	})
	route.Header = http.Header{"X-Trace": {"1"}, "X-Changed": {"by middleware"}}
	handler := e.handler(route)
	first := e.ask(handler, click{key: "k"})
	if first.header.Get("Set-Cookie") == "" || first.header.Get("X-Trace") != "1" || first.header.Get("X-Late") != "" {
		e.Errorf("header = %v, want all of the handler and of middleware", first.header)
	}
	route.Header["X-Trace"][0] = "2"
	route.Header["X-Second"] = []string{"1"}
	second := e.ask(handler, click{key: "k"})
	for name, want := range map[string]string{
		"X-Receipt": "[7]", "X-Several": "[a b]", "X-Changed": "[by the handler]", "Content-Type": "[text/plain]", "X-Trace": "[2]", "X-Second": "[1]",
		"Idempotent-Replayed": "[true]", "Set-Cookie": "[]", "Connection": "[]", "X-Hop": "[]", "X-Late": "[]",
	} {
		if got := fmt.Sprint(second.header[name]); got != want {
			e.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	if second.body != "paid" {
		e.Errorf("body = %q, want paid", second.body)
	}
	e.WantRuns(1)
}

// answerThatIsNotKeptIsTold: work is not done again in silence because its answer cannot be given again.
func answerThatIsNotKeptIsTold(e *env) {
	const most = 1000
	trailer := func(name string) func(x *Exchange) error {
		return func(x *Exchange) error {
			if name == "Trailer" {
				x.W.Header().Set(name, "X-Sum")
			}
			_, err := io.WriteString(x.W, "paid")
			if name != "Trailer" {
				x.W.Header().Set(name, "7")
			}
			return err
		}
	}
	for name, tc := range map[string]struct {
		handle func(x *Exchange) error
		size   int
	}{
		"large": {func(x *Exchange) error {
			_, err := x.W.Write(make([]byte, most+1))
			return err
		}, most + 1},
		"large-in-pieces": {func(x *Exchange) (err error) {
			for range 2*most/10 + 1 {
				_, more := io.WriteString(x.W, "0123456789")
				err = errors.Join(err, more)
				x.W.(http.Flusher).Flush()
			}
			return err
		}, 2*most + 10},
		"large-with-its-header": {func(x *Exchange) error {
			x.W.Header().Set("X-Large", strings.Repeat("x", most))
			_, err := io.WriteString(x.W, "paid")
			return err
		}, 4},
		"trailer":             {trailer("Trailer"), 4},
		"trailer-by-its-name": {trailer(http.TrailerPrefix + "X-Sum"), 4},
		"header-in-Latin-1": {func(x *Exchange) error {
			x.W.Header().Set("X-Name", "J\xfcrgen")
			_, err := io.WriteString(x.W, "paid")
			return err
		}, 4},
	} {
		e.Ran.Store(0)
		route := e.onceRoute(tc.handle)
		route.Flight.MaxAnswer = most
		e.serve(route)
		if a := e.do(click{key: name}.at(e)); a.status != http.StatusOK || len(a.body) != tc.size {
			e.Errorf("%s: answer = %d with %d bytes, want the handler's %d", name, a.status, len(a.body), tc.size)
		}
		e.wantProblem(e.do(click{key: name}.at(e)), http.StatusConflict, lockmw.CodeIdempotencyAnswerNotKept)
		e.WantRuns(1)
	}
}

// answerUpToTheLimitIsKept: the limit is for all that is kept, and an answer may hold it back until its end.
func answerUpToTheLimitIsKept(e *env) {
	const most = 1000
	route := e.onceRoute(func(x *Exchange) (err error) {
		for range most / 2 / 10 {
			_, more := io.WriteString(x.W, "0123456789")
			err = errors.Join(err, more)
			x.W.(http.Flusher).Flush()
		}
		return err
	})
	route.Flight.MaxAnswer = most
	e.serve(route)
	first := e.do(click{key: "k"}.at(e))
	if len(first.body) != most/2 {
		e.Errorf("%d bytes came, want %d", len(first.body), most/2)
	}
	e.wantReplay(e.do(click{key: "k"}.at(e)), first)
	e.WantRuns(1)
}

// A firstWrite calls a function when an answer begins.
type firstWrite struct {
	*httptest.ResponseRecorder
	begins func()
}

func (w *firstWrite) WriteHeader(status int) {
	if begins := w.begins; begins != nil {
		w.begins = nil
		begins()
	}
	w.ResponseRecorder.WriteHeader(status)
}

// Write is only there because the recorder's would write the header past this one.
func (w *firstWrite) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseRecorder.Write(p)
}

// answerIsKeptBeforeItIsSent: who has seen an answer gets the same the next time, whatever becomes of the process.
func answerIsKeptBeforeItIsSent(e *env) {
	handler := e.handler(impatient(e.onceRoute(func(x *Exchange) error {
		err := e.receipt(x)
		x.W.(http.Flusher).Flush()
		return err
	})))
	var second answer
	w := &firstWrite{httptest.NewRecorder(), func() { second = e.ask(handler, click{key: "k"}) }}
	handler.ServeHTTP(w, click{key: "k"}.to(httptest.NewRequest(http.MethodPost, payPath, nil)))
	e.wantReplay(second, answer{w.Code, w.Result().Header, w.Body.String()})
	e.WantRuns(1)
}

func connectionIsNotGivenAway(e *env) {
	e.serve(e.onceRoute(func(x *Exchange) error {
		var err error = http.ErrNotSupported
		if hijacker, can := x.W.(http.Hijacker); can {
			_, _, err = hijacker.Hijack()
		}
		_, _, other := http.NewResponseController(x.W).Hijack()
		if !errors.Is(err, http.ErrNotSupported) || !errors.Is(other, http.ErrNotSupported) {
			e.Errorf("hijack: %v, %v; want %v", err, other, http.ErrNotSupported)
		}
		return e.receipt(x)
	}))
	first := e.do(click{key: "k"}.at(e))
	e.wantReplay(e.do(click{key: "k"}.at(e)), first)
}

func panicIsNoAnswer(e *env) {
	for _, exit := range exits() {
		if exit.panics == nil && !exit.gone {
			continue
		}
		e.Ran.Store(0)
		route := e.onceRoute(func(x *Exchange) error {
			if e.Ran.Load() == 1 {
				_, _ = io.WriteString(x.W, "half")
				return exit.handle(x)
			}
			return e.receipt(x)
		})
		handler := e.handler(route)
		key := strings.ReplaceAll(exit.name, " ", "-")
		w := httptest.NewRecorder()
		value, returned := panicIn(func() {
			handler.ServeHTTP(w, click{key: key}.to(httptest.NewRequest(http.MethodPost, payPath, nil)))
		})
		if value != exit.panics || returned || w.Body.Len() > 0 {
			e.Errorf("%s: panic value %v, returned %v, sent %q", exit.name, value, returned, w.Body)
		}
		first := e.ask(handler, click{key: key})
		e.wantStatus(first, http.StatusCreated)
		e.wantReplay(e.ask(handler, click{key: key}), first)
		e.WantRuns(2)
	}
}

// panicIn calls f in a goroutine of its own. It returns what f panicked with, and whether it returned.
func panicIn(f func()) (value any, returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { value = recover() }()
		f()
		returned = true
	}()
	<-done
	return value, returned
}

func lostLockKeepsNoAnswer(e *env) {
	handler := e.handler(e.onceRoute(func(x *Exchange) error {
		if lease, ok := lockmw.FromContext(x.R.Context()); ok && e.Ran.Load() == 1 {
			e.Client.Del(context.Background(), e.RedisKey(lease.Key()))
		}
		x.W.Header().Set("X-Order", "7")
		return e.receipt(x)
	}))
	a := e.ask(handler, click{key: "k"})
	e.wantProblem(a, http.StatusInternalServerError, lockmw.CodeLost)
	if a.header.Get("X-Order") != "" {
		e.Errorf("header = %v, want none of the handler's", a.header)
	}
	first := e.ask(handler, click{key: "k"})
	e.wantStatus(first, http.StatusCreated)
	e.wantReplay(e.ask(handler, click{key: "k"}), first)
	e.WantRuns(2)
}

// forged encodes answers as somebody may write them to Redis.
type forged struct{ data string }

func (forged) Name() string                         { return "forged" }
func (f forged) Encode(string, any) ([]byte, error) { return []byte(f.data), nil }
func (forged) Decode(_ string, data []byte, answer any) error {
	return json.Unmarshal(data, answer)
}

func forgedAnswerIsNotSent(e *env) {
	for i, data := range []string{
		`{"status":42}`, `{"status":1000}`, `{}`, `{"status":200,"header":{"X-A":["a\r\nSet-Cookie: b"]}}`, `{"status":200,"header":{"Set-Cookie":["a=b"]}}`,
		`{"status":200,"header":{"X A":["a"]}}`, `{"status":200,"header":{"Content-Length":["7"]}}`, `{"status":200,"header":{"":["a"]}}`, `no answer`,
	} {
		e.Ran.Store(0)
		route := e.onceRoute(e.receipt)
		route.Flight.Codec = forged{data}
		handler := e.handler(route)
		c := click{key: fmt.Sprint("k", i)}
		e.wantStatus(e.ask(handler, c), http.StatusCreated)
		e.wantProblem(e.ask(handler, c), http.StatusInternalServerError, lockmw.CodeMisuse)
		e.WantRuns(1)
	}
}

// A jsonCodec is one that a program may have.
type jsonCodec struct{ fails bool }

func (jsonCodec) Name() string { return "own" }
func (c jsonCodec) Encode(_ string, answer any) ([]byte, error) {
	data, err := json.Marshal(answer)
	if c.fails && strings.Contains(string(data), "body") {
		err = errors.New("no key to encrypt it with")
	}
	return data, err
}

func (jsonCodec) Decode(_ string, data []byte, answer any) error {
	return json.Unmarshal(data, answer)
}

func codecOfTheProgramWorks(e *env) {
	route := e.onceRoute(e.receipt)
	route.Flight.Codec = jsonCodec{}
	handler := e.handler(route)
	first := e.ask(handler, click{key: "k"})
	e.wantReplay(e.ask(handler, click{key: "k"}), first)
	e.WantRuns(1)
	route.Flight.Codec = jsonCodec{fails: true}
	handler = e.handler(route)
	e.wantStatus(e.ask(handler, click{key: "l"}), http.StatusCreated)
	e.wantProblem(e.ask(handler, click{key: "l"}), http.StatusConflict, lockmw.CodeIdempotencyAnswerNotKept)
	e.WantRuns(2)
}
