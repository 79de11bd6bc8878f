package httplock_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/rig"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// What only net/http has. What all doors do is in doortest.

// lock puts a handler under the lock k.
func lock(locks *lockmw.Locker, handle http.HandlerFunc) http.Handler {
	return httplock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{})(handle)
}

// Writers that can do less or more than a recorder.
type (
	bare     struct{ http.ResponseWriter }
	hijacks  struct{ bare }
	flushes  struct{ bare }
	doesBoth struct {
		hijacks
		http.Flusher
	}
)

func (hijacks) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, io.ErrClosedPipe }
func (flushes) Flush()                                       {}

func TestWriterCanDoWhatItCouldBefore(t *testing.T) {
	locks, _ := rig.Locker(t)
	w := bare{httptest.NewRecorder()}
	for _, tc := range []struct {
		writer              http.ResponseWriter
		canFlush, canHijack bool
	}{
		{w, false, false},
		{flushes{w}, true, false},
		{hijacks{w}, false, true},
		{doesBoth{hijacks{w}, flushes{w}}, true, true},
	} {
		lock(locks, func(w http.ResponseWriter, _ *http.Request) {
			_, canFlush := w.(http.Flusher)
			_, canHijack := w.(http.Hijacker)
			if canFlush != tc.canFlush || canHijack != tc.canHijack {
				t.Errorf("%T: flush %v, hijack %v; want %v, %v", tc.writer, canFlush, canHijack, tc.canFlush, tc.canHijack)
			}
			if err := http.NewResponseController(w).Flush(); (err == nil) != tc.canFlush {
				t.Errorf("%T: flush by a controller: %v", tc.writer, err)
			}
			if err := w.(http.Pusher).Push("/x", nil); err != http.ErrNotSupported { //nolint:errorlint // the very one
				t.Errorf("%T: push: %v", tc.writer, err)
			}
			if n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("abc")); n != 3 || err != nil {
				t.Errorf("%T: read from: %d, %v", tc.writer, n, err)
			}
		}).ServeHTTP(tc.writer, httptest.NewRequest(http.MethodGet, "/", nil))
	}
}

func TestEveryWayOfWritingIsAnAnswer(t *testing.T) {
	for name, write := range map[string]func(http.ResponseWriter){
		"WriteHeader": func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
		"Write":       func(w http.ResponseWriter) { _, _ = w.Write(nil) },
		"WriteString": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "a") },
		"ReadFrom":    func(w http.ResponseWriter) { _, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("a")}) },
		"Flush":       func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"controller":  func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
	} {
		locks, client := rig.Locker(t)
		w := httptest.NewRecorder()
		lock(locks, func(w http.ResponseWriter, _ *http.Request) {
			write(w)
			client.Del(context.Background(), "lock:{k}")
		}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code >= 300 || strings.Contains(w.Body.String(), "LOCK_LOST") {
			t.Errorf("%s: answer = %d %s, want the handler's", name, w.Code, w.Body)
		}
	}
}

func TestEarlyHintsAreNoAnswer(t *testing.T) {
	locks, client := rig.Locker(t)
	server := httptest.NewServer(lock(locks, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		client.Del(context.Background(), "lock:{k}")
	}))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusInternalServerError {
		t.Errorf("status = %d, want 500", response.StatusCode)
	}
}

func TestStreamsWorkOverHTTP2(t *testing.T) {
	locks, _ := rig.Locker(t)
	more := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(lock(locks, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the request came over %s", r.Proto)
		}
		_, _ = io.WriteString(w, "one")
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, "two")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	part := make([]byte, 3)
	_, err = io.ReadFull(response.Body, part)
	more <- struct{}{}
	if string(part) != "one" || err != nil {
		t.Fatalf("part = %q, %v; want one", part, err)
	}
	if rest, err := io.ReadAll(response.Body); string(rest) != "two" || err != nil {
		t.Errorf("rest = %q, %v; want two", rest, err)
	}
}

func TestOutsideOfTheMuxNoRouteIsKnown(t *testing.T) {
	locks, _ := rig.Locker(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/orders/{id}", func(http.ResponseWriter, *http.Request) { t.Error("the handler runs") })
	for name, key := range map[string]keyfunc.Func{
		"param": keyfunc.Param("id"), "params": keyfunc.Params(), "route": keyfunc.Route(), "value": keyfunc.Value("tenant"),
	} {
		w := httptest.NewRecorder()
		httplock.Middleware(locks, key, lockmw.Policy{})(mux).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/orders/42", nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: status = %d, want 400", name, w.Code)
		}
	}
}

func TestNilHandlerPanics(t *testing.T) {
	locks, _ := rig.Locker(t)
	defer func() {
		if got, want := recover(), "httplock: Middleware: the handler is nil"; got != want {
			t.Errorf("panic = %v, want %s", got, want)
		}
	}()
	httplock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{})(nil)
}
