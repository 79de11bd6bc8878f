package doortest

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/test/memnet"
)

// request returns a request for the server. Headers are pairs. A body is said
// to be JSON unless they say something else.
func (e *env) request(method, path string, body io.Reader, headers ...string) *http.Request {
	e.Helper()
	r, err := http.NewRequest(method, e.server.URL+path, body)
	if err != nil {
		e.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	if body != nil && r.Header["Content-Type"] == nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// do sends a request and reads the answer.
func (e *env) do(r *http.Request) answer {
	e.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), e.Patience)
	defer cancel()
	response, err := e.server.Client().Do(r.WithContext(ctx))
	if err != nil {
		e.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		e.Fatalf("%s %s: read the answer: %v", r.Method, r.URL, err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// pay sends the usual request.
func (e *env) pay() answer {
	e.Helper()
	return e.do(e.request(http.MethodPost, payPath, nil))
}

// post sends a body to the bodyRoute.
func (e *env) post(body string) answer {
	e.Helper()
	return e.do(e.request(http.MethodPost, "/orders", strings.NewReader(body)))
}

// background sends a request and returns where its answer will come.
func (e *env) background(r *http.Request) <-chan answer {
	answers := make(chan answer, 1)
	go func() { // ends by do's deadline
		defer close(answers)
		response, err := e.server.Client().Do(r)
		if err != nil {
			return // no answer: the channel is closed
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil {
			answers <- answer{response.StatusCode, response.Header, string(body)}
		}
	}()
	return answers
}

// connect opens a connection to the server that waits no longer than a test may.
func (e *env) connect() net.Conn {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), e.Patience)
	defer cancel()
	dial := new(net.Dialer).DialContext
	if listener, ok := e.server.Listener.(*memnet.Listener); ok {
		dial = listener.Dial
	}
	conn, err := dial(ctx, "tcp", e.server.Listener.Addr().String())
	if err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() { _ = conn.Close() }) // before the server's, which waits for it
	if err := conn.SetDeadline(time.Now().Add(e.Patience)); err != nil {
		e.Fatal(err)
	}
	return conn
}
