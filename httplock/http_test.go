package httplock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/httplock"
	"github.com/lockmw/kit/internal/test/testenv"
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
	locks, _ := testenv.Locker(t)
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
		locks, client := testenv.Locker(t)
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
	locks, client := testenv.Locker(t)
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
	locks, _ := testenv.Locker(t)
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

func TestNilHandlerPanics(t *testing.T) {
	locks, _ := testenv.Locker(t)
	defer func() {
		if got, want := recover(), "httplock: Middleware: the handler is nil"; got != want {
			t.Errorf("panic = %v, want %s", got, want)
		}
	}()
	httplock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{})(nil)
}

// A hiding writer is that of middleware that wraps the writer in the old way:
// the connection's deadlines are out of reach.
type hiding struct{ http.ResponseWriter }

// TestSilentBodyEndsTheHold is here for what doortest does not have: HTTP/2,
// middleware that hides the deadlines, and a server with a ReadTimeout.
func TestSilentBodyEndsTheHold(t *testing.T) {
	const timeout = 200 * time.Millisecond
	const readTimeout = time.Second // also the handshake's and the header's, on a busy machine
	for name, tc := range map[string]struct {
		http2       bool
		around      func(http.ResponseWriter) http.ResponseWriter
		readTimeout time.Duration
		timeout     time.Duration
	}{
		"HTTP/1":            {timeout: timeout},
		"HTTP/2":            {http2: true, timeout: timeout},
		"deadlines hidden":  {around: func(w http.ResponseWriter) http.ResponseWriter { return hiding{w} }, timeout: timeout},
		"the server's own":  {readTimeout: readTimeout, timeout: time.Hour},
		"the server's, too": {http2: true, readTimeout: readTimeout, timeout: time.Hour},
	} {
		locks, _ := testenv.Locker(t)
		ended := make(chan error, 1)
		handler := httplock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, httplock.WithBodyTimeout(tc.timeout))(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				ended <- err
				w.WriteHeader(http.StatusRequestTimeout)
			}))
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tc.around != nil {
				w = tc.around(w)
			}
			handler.ServeHTTP(w, r)
		}))
		server.EnableHTTP2 = tc.http2
		server.Config.ReadTimeout = tc.readTimeout
		server.StartTLS()
		body, client := io.Pipe()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = 1 << 20
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			if response, err := server.Client().Do(request); err == nil {
				_ = response.Body.Close()
			}
		}()
		begin := time.Now()
		select {
		case err := <-ended:
			// The server's own timeout ends the request's context as well, and so the lease's:
			// either may be seen first.
			if !errors.Is(err, os.ErrDeadlineExceeded) && (tc.readTimeout == 0 || !errors.Is(err, context.Canceled)) {
				t.Errorf("%s: to read the body: %v, want %v", name, err, os.ErrDeadlineExceeded)
			}
			t.Logf("%s: the body failed after %v", name, time.Since(begin))
		case <-time.After(testenv.Patience):
			t.Errorf("%s: the handler still waits for the body", name)
		}
		_ = client.CloseWithError(io.ErrUnexpectedEOF) // the client leaves
		<-answered
		server.Close()
	}
}

// TestAnswerDoesNotWaitForALimitedBody: net/http reads more of a body that
// middleware has wrapped.
func TestAnswerDoesNotWaitForALimitedBody(t *testing.T) {
	locks, _ := testenv.Locker(t)
	written := make(chan struct{})
	handler := httplock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, httplock.WithBodyTimeout(100*time.Millisecond))(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(written)
			_, _ = w.Write(make([]byte, 3<<10))
		}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, 1<<40)
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1000000\r\n\r\n")
	select {
	case <-written:
	case <-time.After(testenv.Patience):
		t.Error("the answer waits for the body")
	}
}

// TestProxyDoesNotWaitForTheBody: the server behind a proxy answers before it has
// the body, and goes. The proxy is at a Read then, its last.
func TestProxyDoesNotWaitForTheBody(t *testing.T) {
	behind, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan struct{})
	go func() { // ends with its one connection, or the listener
		conn, err := behind.Accept()
		if err != nil {
			return
		}
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		fmt.Fprintf(conn, "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", 10<<10, strings.Repeat("a", 10<<10))
		_ = conn.Close()
		close(answered)
	}()
	defer behind.Close()
	locks, _ := testenv.Locker(t)
	done := make(chan struct{})
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: behind.Addr().String()})
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	handler := httplock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, httplock.WithBodyTimeout(time.Second))
	server := httptest.NewServer(handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		proxy.ServeHTTP(w, r)
	})))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 100000\r\n\r\na")
	rigged := time.After(testenv.Patience)
	select {
	case <-answered:
	case <-rigged:
		t.Fatal("the server behind the proxy is not asked")
	}
	for range 20 { // one while the proxy is at its Read, and begins to answer
		time.Sleep(10 * time.Millisecond)
		_, _ = conn.Write([]byte{'a'})
	}
	select {
	case <-done:
	case <-rigged:
		t.Error("the proxy waits for the body")
	}
}

// TestBodyCanBeReadAfterTheAnswerHasBegun: also where another door has the body,
// and where the client has asked before it sent it. net/http reads neither.
func TestBodyCanBeReadAfterTheAnswerHasBegun(t *testing.T) {
	const size = 1 << 20
	once := func(next http.Handler) http.Handler { return next }
	locks, _ := testenv.Locker(t)
	for name, tc := range map[string]struct {
		around func(http.Handler) http.Handler
		expect string
	}{
		"one lock":  {around: once},
		"two locks": {around: httplock.Middleware(locks, keyfunc.Const("outer"), lockmw.Policy{})},
		"asked for": {around: once, expect: "Expect: 100-continue\r\n"},
		"both":      {around: httplock.Middleware(locks, keyfunc.Const("outer2"), lockmw.Policy{}), expect: "Expect: 100-continue\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.around(lock(locks, func(w http.ResponseWriter, r *http.Request) {
				begin, err := r.Body.Read(make([]byte, 1))
				if err != nil {
					t.Errorf("the first byte: %v", err)
				}
				_, _ = w.Write(make([]byte, 3<<10))
				if n, err := io.Copy(io.Discard, r.Body); n+int64(begin) != size || err != nil {
					t.Errorf("read %d bytes of the body, %v; want %d", n, err, size)
				}
			})))
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: %d\r\n%s\r\n", size, tc.expect)
			answers := bufio.NewReader(conn)
			if tc.expect != "" {
				if line, err := answers.ReadString('\n'); !strings.Contains(line, "100") {
					t.Errorf("the first line is %q, %v; want 100", line, err)
				}
				_, _ = answers.ReadString('\n')
			}
			_, _ = conn.Write(make([]byte, size))
			response, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("status = %d, want 200", response.StatusCode)
			}
		})
	}
}

// TestConnectionThatIsNotGivenDoesNotWaitForTheBody: net/http goes on to read
// the body before it answers when a handler asked for a connection of its own
// in vain, or has written before.
func TestConnectionThatIsNotGivenDoesNotWaitForTheBody(t *testing.T) {
	for name, tc := range map[string]struct {
		around func(http.ResponseWriter) http.ResponseWriter
		ask    func(t *testing.T, w http.ResponseWriter)
	}{
		"full duplex is refused": {
			around: func(w http.ResponseWriter) http.ResponseWriter { return hiding{w} },
			ask: func(t *testing.T, w http.ResponseWriter) {
				if err := http.NewResponseController(w).EnableFullDuplex(); !errors.Is(err, http.ErrNotSupported) {
					t.Errorf("EnableFullDuplex: %v, want %v", err, http.ErrNotSupported)
				}
				_, _ = w.Write(make([]byte, 3<<10))
			},
		},
		"hijacked behind a header": {
			around: func(w http.ResponseWriter) http.ResponseWriter { return w },
			ask: func(t *testing.T, w http.ResponseWriter) {
				w.WriteHeader(http.StatusOK)
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Errorf("hijack: %v", err)
					return
				}
				_ = conn.Close()
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			locks, _ := testenv.Locker(t)
			asked := make(chan struct{})
			handler := httplock.Middleware(locks, keyfunc.Const("k"), lockmw.Policy{}, httplock.WithBodyTimeout(100*time.Millisecond))(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					defer close(asked)
					tc.ask(t, w)
				}))
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				handler.ServeHTTP(tc.around(w), r)
			}))
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 100000\r\n\r\n")
			select {
			case <-asked:
			case <-time.After(testenv.Patience):
				t.Error("the handler waits for the body")
			}
		})
	}
}

func TestHijackingByAControllerIsAnAnswer(t *testing.T) {
	locks, client := testenv.Locker(t)
	var logged strings.Builder
	handler := lock(locks, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return
		}
		client.Del(context.Background(), "lock:{k}")
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		_ = conn.Close()
	})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(unwrapping{w}, r)
	}))
	server.Config.ErrorLog = log.New(&logged, "", 0)
	server.Start()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	server.Close()
	if logged.Len() > 0 {
		t.Errorf("the server says %q", logged.String())
	}
}

// An unwrapping writer is that of middleware that wraps the writer in the new
// way.
type unwrapping struct{ http.ResponseWriter }

func (w unwrapping) Unwrap() http.ResponseWriter { return w.ResponseWriter }
