package httplock_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What strange handlers, and strange middleware in front of Idempotent, make of an answer. All doors share the code behind this.

// twice sends a request twice to a handler behind Idempotent, and returns both answers and how often the handler ran. front is around all of it.
func twice(t *testing.T, f lockmw.Flight, handle http.HandlerFunc, front func(http.Handler) http.Handler, second ...string) (answers [2]*http.Response, runs int) {
	t.Helper()
	locks, _ := testenv.Locker(t)
	if f.Retain == 0 {
		f.Retain = time.Minute
	}
	handler := httplock.Idempotent(locks, keyfunc.Header("Idempotency-Key"), f, httplock.WithKeysOfEverybody())(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			runs++
			handle(w, r)
		}))
	if front != nil {
		handler = front(handler)
	}
	for i := range answers {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/pay", strings.NewReader("7"))
		r.Header.Set("Idempotency-Key", "k")
		for at := 0; i == 1 && at < len(second); at += 2 {
			r.Header.Set(second[at], second[at+1])
		}
		handler.ServeHTTP(w, r)
		answers[i] = w.Result()
	}
	return answers, runs
}

// textOf is the status and the body of an answer, or its code.
func textOf(a *http.Response) string {
	body, _ := io.ReadAll(a.Body)
	if _, code, problem := strings.Cut(string(body), `"code":"`); problem {
		code, _, _ = strings.Cut(code, `"`)
		return fmt.Sprint(a.StatusCode, " ", code)
	}
	return fmt.Sprint(a.StatusCode, " ", string(body))
}

// A handler that was told to stop, and says nothing, has not answered: with an empty 200 nobody would pay.
func TestHandlerThatStopsHasNotAnswered(t *testing.T) {
	silent := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	fails := func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	says := func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		_, _ = io.WriteString(w, "paid")
	}
	for name, tc := range map[string]struct {
		crash         lockmw.Crash
		handle        http.HandlerFunc
		first, second string
		runs          int
	}{
		"silent":              {lockmw.RunAgain, silent, "500 LOCK_LOST", "500 LOCK_LOST", 2},
		"silent, uncertain":   {lockmw.Uncertain, silent, "409 IDEMPOTENCY_UNCERTAIN", "409 IDEMPOTENCY_UNCERTAIN", 1},
		"it fails":            {lockmw.RunAgain, fails, "503 ", "503 ", 2},
		"it fails, unsure":    {lockmw.Uncertain, fails, "503 ", "409 IDEMPOTENCY_UNCERTAIN", 1},
		"it has done it":      {lockmw.RunAgain, says, "200 paid", "200 paid", 1},
		"it has, and is sure": {lockmw.Uncertain, says, "200 paid", "200 paid", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := lockmw.Flight{Policy: lockmw.Policy{MaxHold: 50 * time.Millisecond}, Crash: tc.crash}
			answers, runs := twice(t, f, tc.handle, nil)
			if first, second := textOf(answers[0]), textOf(answers[1]); first != tc.first || second != tc.second || runs != tc.runs {
				t.Errorf("%s, %s in %d runs, want %s, %s in %d", first, second, runs, tc.first, tc.second, tc.runs)
			}
		})
	}
}

// After a panic, and where a handler that has lost its lock says nothing, or a 5xx, nobody knows whether it has paid.
func TestHandlerOfWhichNobodyKnows(t *testing.T) {
	for name, handle := range map[string]func(w http.ResponseWriter, lease *lockmw.Lease){
		"a panic": func(http.ResponseWriter, *lockmw.Lease) { panic("in the middle of it") },
		"lost, and silent": func(_ http.ResponseWriter, lease *lockmw.Lease) {
			<-lease.Context().Done()
		},
		"lost, and it fails": func(w http.ResponseWriter, lease *lockmw.Lease) {
			<-lease.Context().Done()
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			locks, client := testenv.Locker(t)
			other := testenv.Open(t, client)
			runs := 0
			f := lockmw.Flight{Policy: lockmw.Policy{Prefix: "pay:", TTL: time.Second}, Retain: time.Minute, Crash: lockmw.Uncertain} // a renewal finds the loss
			handler := httplock.Idempotent(locks, keyfunc.Header("Idempotency-Key"), f, httplock.WithKeysOfEverybody())(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					runs++
					lease, _ := lockmw.FromContext(r.Context())
					if strings.HasPrefix(name, "lost") {
						if err := other.ForceRelease(r.Context(), lease.Key()); err != nil {
							t.Error(err)
						}
					}
					handle(w, lease)
				}))
			ask := func() (text string) {
				defer func() {
					if value := recover(); value != nil {
						text = fmt.Sprint(value)
					}
				}()
				w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/pay", nil)
				r.Header.Set("Idempotency-Key", "k")
				handler.ServeHTTP(w, r)
				return textOf(w.Result())
			}
			want := map[string]string{"a panic": "in the middle of it", "lost, and silent": "500 LOCK_LOST", "lost, and it fails": "500 LOCK_LOST"}[name]
			if first := ask(); first != want {
				t.Errorf("the first client is told %s, want %s", first, want)
			}
			if second := ask(); second != "409 IDEMPOTENCY_UNCERTAIN" || runs != 1 {
				t.Errorf("the second is told %s, in %d runs", second, runs)
			}
		})
	}
}

// An Idempotent within another one, as around a group and on a route, is no witness that nothing was done when it has lost track of its handler.
func TestIdempotentWithinAnother(t *testing.T) {
	for name, tc := range map[string]struct {
		crash lockmw.Crash // of the inner one
		loses func(ctx context.Context, other *lockmw.Locker, key string)
		first string
	}{
		"stopped":            {lockmw.RunAgain, func(ctx context.Context, _ *lockmw.Locker, _ string) { <-ctx.Done() }, "500 LOCK_LOST"},
		"stopped, uncertain": {lockmw.Uncertain, func(ctx context.Context, _ *lockmw.Locker, _ string) { <-ctx.Done() }, "409 IDEMPOTENCY_UNCERTAIN"},
		"lost": {lockmw.RunAgain, func(_ context.Context, other *lockmw.Locker, key string) {
			_ = other.ForceRelease(context.Background(), key)
		}, "500 LOCK_LOST"},
	} {
		t.Run(name, func(t *testing.T) {
			locks, client := testenv.Locker(t)
			other := testenv.Open(t, client)
			runs := 0
			inner := lockmw.Flight{Policy: lockmw.Policy{Prefix: "inner:", MaxHold: 50 * time.Millisecond}, Retain: time.Minute, Crash: tc.crash}
			if name == "lost" {
				inner.Policy.MaxHold = 0
			}
			outer := lockmw.Flight{Policy: lockmw.Policy{Prefix: "outer:"}, Retain: time.Minute, Crash: lockmw.Uncertain}
			handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				lease, _ := lockmw.FromContext(r.Context())
				tc.loses(r.Context(), other, lease.Key())
				if name == "lost" {
					_, _ = io.WriteString(w, "paid")
				}
			}))
			for _, f := range []lockmw.Flight{inner, outer} {
				handler = httplock.Idempotent(locks, keyfunc.Header("X-User"), f, httplock.WithKeysOfEverybody())(handler)
			}
			for i, want := range []string{tc.first, "409 IDEMPOTENCY_UNCERTAIN"} {
				if got := textOf(payAt(handler, "/pay", "").Result()); got != want {
					t.Errorf("%d: %s, want %s", i, got, want)
				}
			}
			if keys := uncertainKeys(t, locks); runs != 1 || !slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, "outer:") }) {
				t.Errorf("%d runs, %q are uncertain, want one run and the outer work", runs, keys)
			}
		})
	}
}

// uncertainKeys are those of the work that is uncertain.
func uncertainKeys(t *testing.T, locks *lockmw.Locker) (keys []string) {
	t.Helper()
	for info, err := range locks.ListUncertain(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// What says that nothing was done is not kept. What may have been done by half is not done again with Uncertain.
func TestStatusesThatAreKept(t *testing.T) {
	for status, want := range map[int]struct{ runs, uncertain int }{
		200: {1, 1}, 204: {1, 1}, 301: {1, 1}, 303: {1, 1}, 400: {1, 1}, 402: {1, 1}, 404: {1, 1}, 410: {1, 1}, 422: {1, 1},
		206: {2, 1}, 408: {2, 1}, 500: {2, 1}, 503: {2, 1},
		307: {2, 2}, 308: {2, 2}, 401: {2, 2}, 403: {2, 2}, 406: {2, 2}, 407: {2, 2}, 409: {2, 2}, 412: {2, 2}, 417: {2, 2}, 421: {2, 2},
		423: {2, 2}, 424: {2, 2}, 425: {2, 2}, 426: {2, 2}, 428: {2, 2}, 429: {2, 2}, 431: {2, 2},
	} {
		handle := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
		_, runs := twice(t, lockmw.Flight{}, handle, nil)
		_, uncertain := twice(t, lockmw.Flight{Crash: lockmw.Uncertain}, handle, nil)
		if runs != want.runs || uncertain != want.uncertain {
			t.Errorf("%d: %d runs, and with Uncertain %d; want %d and %d", status, runs, uncertain, want.runs, want.uncertain)
		}
	}
}

// Half of an answer is not given as a whole one.
func TestAnswerThatIsCutOffIsNotKept(t *testing.T) {
	answers, runs := twice(t, lockmw.Flight{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"receipt": "4`)
	}, nil)
	if got := textOf(answers[1]); got != "409 IDEMPOTENCY_ANSWER_NOT_KEPT" || runs != 1 {
		t.Errorf("%s in %d runs", got, runs)
	}
}

// Code in front keeps the writer that it was given, and sets a cookie while the handler runs.
func TestHeaderOfFrontIsNotWiped(t *testing.T) {
	var outer http.ResponseWriter
	front := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			outer = w
			w.Header().Set("X-Request-Number", "1")
			w.Header().Set("Server", "front")
			next.ServeHTTP(w, r)
		})
	}
	answers, _ := twice(t, lockmw.Flight{}, func(w http.ResponseWriter, _ *http.Request) {
		outer.Header().Add("Set-Cookie", "session=1")
		outer.Header().Set("X-Late", "late")
		outer.Header().Set("X-Request-Number", "2")
		w.Header().Add("Set-Cookie", "own=1")
		w.Header().Set("X-Own", "own")
		w.Header().Del("Server")
		w.WriteHeader(http.StatusCreated)
	}, front)
	h := answers[0].Header
	if got := fmt.Sprint(h["Set-Cookie"], h["X-Late"], h["X-Request-Number"], h["X-Own"], h["Server"]); got != "[session=1 own=1] [late] [2] [own] []" {
		t.Errorf("the first has %s", got)
	}
	h = answers[1].Header
	if got := fmt.Sprint(h["Set-Cookie"], h["X-Late"], h["X-Own"], h["Server"]); got != "[] [] [own] []" {
		t.Errorf("the second has %s", got)
	}
}

// What describes the body is kept with it, whoever has set it.
func TestTypeOfTheBodyIsKept(t *testing.T) {
	byAccept := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Header.Get("Accept") == "text/html" {
				w.Header().Set("Content-Type", "text/html")
			}
			next.ServeHTTP(w, r)
		})
	}
	answers, _ := twice(t, lockmw.Flight{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `"<b>"`) }, byAccept, "Accept", "text/html")
	if got := answers[1].Header["Content-Type"]; fmt.Sprint(got) != "[application/json]" {
		t.Errorf("the second one's type is %q", got)
	}
}

// Who cannot read the encoding of the answer that is kept does not get it.
func TestEncodingOfTheBody(t *testing.T) {
	for accepts, want := range map[string]string{
		"gzip": "200 zipped", "br, gzip;q=0.5": "200 zipped", "*": "200 zipped", "identity": "409 IDEMPOTENCY_ANSWER_NOT_KEPT",
		"gzip;q=0": "409 IDEMPOTENCY_ANSWER_NOT_KEPT", "gzip; q=0.0": "409 IDEMPOTENCY_ANSWER_NOT_KEPT", "br": "409 IDEMPOTENCY_ANSWER_NOT_KEPT",
	} {
		answers, runs := twice(t, lockmw.Flight{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, "zipped")
		}, nil, "Accept-Encoding", accepts)
		if got := textOf(answers[1]); got != want || runs != 1 {
			t.Errorf("Accept-Encoding: %s: %s in %d runs, want %s", accepts, got, runs, want)
		}
	}
}

// A trailer of middleware in front is its own affair.
func TestTrailerOfFront(t *testing.T) {
	front := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "Server-Timing")
			next.ServeHTTP(w, r)
		})
	}
	answers, runs := twice(t, lockmw.Flight{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "paid") }, front)
	if got := textOf(answers[1]); got != "200 paid" || runs != 1 {
		t.Errorf("%s in %d runs", got, runs)
	}
}

// Middleware that decompresses puts a longer body into the place of the one that was sent.
func TestBodyThatIsDecompressedInFront(t *testing.T) {
	front := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader("7, 7, 7"))
			next.ServeHTTP(w, r)
		})
	}
	answers, runs := twice(t, lockmw.Flight{}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }, front)
	if got := textOf(answers[1]); got != "200 7, 7, 7" || runs != 1 {
		t.Errorf("%s in %d runs", got, runs)
	}
}

// The path that the client has sent decides, in whatever form it names it.
func TestAbsoluteFormIsTheSameRequest(t *testing.T) {
	locks, _ := testenv.Locker(t)
	mux := http.NewServeMux()
	runs := make(map[string]int)
	for _, mount := range []string{"/shop", "/admin"} {
		inner := http.NewServeMux()
		inner.Handle("POST /{what}/pay", once(locks)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			runs[mount]++
			_, _ = io.WriteString(w, mount)
		})))
		mux.Handle(mount+"/", http.StripPrefix(mount, inner))
	}
	for _, target := range []string{
		"/shop/%C3%BC/pay", "http://h/shop/%C3%BC/pay", "/shop/ü/pay", "/admin/%C3%BC/pay", "http://h/admin/%C3%BC/pay",
	} {
		r, err := http.NewRequest(http.MethodPost, target, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.RequestURI = target
		r.Header.Set("X-User", "ann")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if mount := "/" + strings.Split(strings.TrimPrefix(target, "http://h"), "/")[1]; w.Code != http.StatusOK || w.Body.String() != mount {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if runs["/shop"] != 1 || runs["/admin"] != 1 {
		t.Errorf("runs: %v", runs)
	}
}

// A client may invent methods. Metrics are named by those that there are.
func TestMethodsMakeNoNames(t *testing.T) {
	var mu sync.Mutex
	names := make(map[string]bool)
	locks := testenv.Open(t, redistest.Embedded(t).Client(t), lockmw.WithObserver(func(_ context.Context, e lockmw.Event) {
		mu.Lock()
		defer mu.Unlock()
		names[e.Name] = true
	}))
	mux, runs := http.NewServeMux(), 0
	mux.Handle("/pay", once(locks)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs++ })))
	for i := range 30 {
		for range 2 {
			r := httptest.NewRequest(fmt.Sprint("M", i%10), "/pay", nil)
			r.Header.Set("X-User", fmt.Sprint("ann", i/10))
			mux.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(names) != 1 || !names["another method /pay"] || runs != 30 {
		t.Errorf("%d runs, names %v", runs, names)
	}
}

// A form that was parsed in front has a limit as well, also where nobody has said how long it is.
func TestUploadThatWasParsedInFront(t *testing.T) {
	locks, _ := testenv.Locker(t)
	handler := once(locks, httplock.WithBodyLimit(1000))(http.NotFoundHandler())
	for size, want := range map[int]int{900: http.StatusNotFound, 1100: http.StatusRequestEntityTooLarge} {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		part, err := form.CreateFormFile("file", "a")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write(bytes.Repeat([]byte("x"), size))
		_ = form.Close()
		r := httptest.NewRequest(http.MethodPost, "/files", io.MultiReader(&body)) // of unknown length
		r.Header.Set("Content-Type", form.FormDataContentType())
		r.Header.Set("X-User", fmt.Sprint("ann", size))
		if err := r.ParseMultipartForm(10); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%d bytes: %d %s, want %d", size, w.Code, w.Body, want)
		}
	}
}
