package doortest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// Bodies over the limit: the handler reads them while it holds the lock.

// overLimit is the length of a body of which nothing is read before the lock
// is taken.
const overLimit = 64<<10 + 1

// bodyTimeout is how long a handler waits for such a body.
const bodyTimeout = 200 * time.Millisecond

// upload begins the usual request with a body, and sends the first bytes of
// it. Without a length the body is chunked, and begin is its first chunk.
func (e *env) upload(path string, length int, begin []byte) (net.Conn, *bufio.Reader) {
	e.Helper()
	conn := e.connect()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: shop.test\r\n", path)
	if length > 0 {
		fmt.Fprintf(conn, "Content-Length: %d\r\n\r\n", length)
	} else {
		fmt.Fprintf(conn, "Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(begin))
		begin = append(begin, "\r\n"...)
	}
	_, _ = conn.Write(begin)
	return conn, bufio.NewReader(conn)
}

// answerOf reads the answer to what was sent over a connection.
func (e *env) answerOf(r *bufio.Reader) answer {
	e.Helper()
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		e.Fatalf("the answer: %v", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		e.Fatalf("the answer's body: %v", err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// stalled are beginnings of bodies whose rest does not come.
var stalled = map[string]struct {
	length int
	begin  []byte
}{
	"nothing":        {overLimit, nil},
	"the beginning":  {overLimit, make([]byte, 1000)},
	"nearly all":     {overLimit, make([]byte, overLimit-1)},
	"of a large one": {1 << 30, make([]byte, 1000)},
	"a chunk":        {0, make([]byte, overLimit)},
}

// servedAfter has another request wait for the lock of one that has started,
// and returns how long.
func (e *env) servedAfter(started <-chan struct{}) time.Duration {
	e.Helper()
	testenv.Receive(e.Env, "the handler's start", started)
	since := time.Now()
	e.wantStatus(e.pay(), http.StatusOK)
	return time.Since(since)
}

// reader returns a handler that reads its request's body, and tells when it starts
// and what error ends the body. A request without a body it answers at once.
func reader() (handle func(*Exchange) error, started <-chan struct{}, ended <-chan error) {
	starts, ends := make(chan struct{}, 1), make(chan error, 1)
	return func(x *Exchange) error {
		if x.R.ContentLength == 0 {
			return nil
		}
		starts <- struct{}{}
		_, err := io.Copy(io.Discard, x.R.Body)
		ends <- err
		return nil
	}, starts, ends
}

// serveReader serves a reader, with a body timeout and others that wait.
func (e *env) serveReader() (started <-chan struct{}, ended <-chan error) {
	handle, started, ended := reader()
	route := e.route(handle)
	route.Policy.Wait = e.Patience
	route.Options.BodyTimeout = bodyTimeout
	e.serve(route)
	return started, ended
}

func silentBodyEndsTheHold(e *env) {
	started, ended := e.serveReader()
	var longest time.Duration
	for what, body := range stalled {
		conn, answers := e.upload(payPath, body.length, body.begin)
		longest = max(longest, e.servedAfter(started))
		if err := testenv.Receive(e.Env, "the error of the body", ended); !errors.Is(err, os.ErrDeadlineExceeded) {
			e.Errorf("%s: to read the body: %v, want %v", what, err, os.ErrDeadlineExceeded)
		}
		e.wantStatus(e.answerOf(answers), http.StatusOK) // the handler's
		_ = conn.Close()
	}
	e.WantRuns(2 * len(stalled))
	e.Logf("others were served within %v while a body did not come for which %v were given", longest, bodyTimeout)
}

// trickleHoldsNoLock: a byte from time to time is no upload.
func trickleHoldsNoLock(e *env) { e.drips(overLimit, make([]byte, 1)) }

// endlessBodyEndsTheHold: what comes fast enough comes to an end all the same.
func endlessBodyEndsTheHold(e *env) { e.drips(1<<30, make([]byte, 4<<10)) }

// drips fails the test if a client that sends a piece of its body again and again, and is never
// done, keeps the lock from others.
func (e *env) drips(length int, piece []byte) {
	e.Helper()
	started, ended := e.serveReader()
	conn, _ := e.upload(payPath, length, nil)
	defer conn.Close()
	over := make(chan struct{})
	defer close(over)
	go func() { // ends with the case
		for {
			select {
			case <-over:
				return
			case <-time.After(bodyTimeout / 10):
				_, _ = conn.Write(piece)
			}
		}
	}()
	e.servedAfter(started)
	if err := testenv.Receive(e.Env, "the error of the body", ended); !errors.Is(err, os.ErrDeadlineExceeded) {
		e.Errorf("to read the body: %v, want %v", err, os.ErrDeadlineExceeded)
	}
}

func endedLockEndsTheBody(e *env) {
	read, started, ended := reader()
	long, lossy := e.route(read), e.lossy(read)
	long.Policy.MaxHold = bodyTimeout
	long.Path = "/long/{id}"
	for _, route := range []*Route{&long, &lossy} {
		route.Options.BodyTimeout = time.Hour
	}
	e.serve(long, lossy)
	for path, want := range map[string]error{"/long/" + id: lockmw.ErrMaxHold, payPath: lockmw.ErrLost} {
		conn, answers := e.upload(path, overLimit, make([]byte, 1000))
		testenv.Receive(e.Env, "the handler's start", started)
		lost := errors.Is(want, lockmw.ErrLost)
		if lost {
			e.ways()["deleted"]()
		}
		if err := testenv.Receive(e.Env, "the error of the body", ended); !errors.Is(err, want) {
			e.Errorf("to read the body: %v, want %v", err, want)
		}
		if a := e.answerOf(answers); lost {
			e.wantProblem(a, http.StatusInternalServerError, "LOCK_LOST")
		} else {
			e.wantStatus(a, http.StatusOK)
		}
		_ = conn.Close()
	}
}

// uploadThatComesIsNotDisturbed: neither one that takes long, nor what follows
// it on the connection.
func uploadThatComesIsNotDisturbed(e *env) {
	const pieces, size = 10, 16 << 10
	const timeout, pause = 2 * time.Second, 250 * time.Millisecond // together the pauses are longer than the time-out
	route := e.route(func(x *Exchange) error {
		e.wantBody(x.R, strings.Repeat("a", pieces*size))
		if err := x.R.Context().Err(); err != nil {
			e.Errorf("the handler's context after the body: %v", err)
		}
		return nil
	})
	route.Options.BodyTimeout = timeout
	e.serve(route)
	for _, length := range []int{pieces * size, 0} {
		piece := bytes.Repeat([]byte("a"), size)
		conn, answers := e.upload(payPath, length, piece)
		for range pieces - 1 {
			time.Sleep(pause) // a client that is slow, and not dead
			if length == 0 {
				fmt.Fprintf(conn, "%x\r\n%s\r\n", size, piece)
			} else {
				_, _ = conn.Write(piece)
			}
		}
		if length == 0 {
			_, _ = io.WriteString(conn, "0\r\n\r\n")
		}
		e.wantStatus(e.answerOf(answers), http.StatusOK)
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: shop.test\r\nContent-Length: %d\r\n\r\n", payPath, pieces*size)
		_, _ = conn.Write(bytes.Repeat(piece, pieces))
		e.wantStatus(e.answerOf(answers), http.StatusOK)
		_ = conn.Close()
	}
	e.WantRuns(4)
}

// answerDoesNotWaitForTheBody: over HTTP/1 the server reads what the handler
// has left of a body before it sends more than a short answer.
func answerDoesNotWaitForTheBody(e *env) {
	const long = 3 << 10
	buffered := 10
	for how, answer := range map[string]func(w http.ResponseWriter){
		"a long one": func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, long)) },
		"a copy": func(w http.ResponseWriter) {
			_, _ = io.Copy(w, struct{ io.Reader }{bytes.NewReader(make([]byte, long))})
		},
		"flushed": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "paid")
			_ = http.NewResponseController(w).Flush()
		},
		"over the buffer": func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat("a", long)) },
	} {
		started := make(chan struct{}, 1)
		route := e.route(func(x *Exchange) error {
			if x.R.ContentLength == 0 {
				return nil
			}
			started <- struct{}{}
			answer(x.W)
			return nil
		})
		route.Policy.Wait = e.Patience
		route.Options.BodyTimeout = bodyTimeout
		if how == "over the buffer" {
			route.Options.BufferedResponse = &buffered
		}
		e.serve(route)
		for what, body := range stalled {
			conn, answers := e.upload(payPath, body.length, body.begin)
			e.servedAfter(started)
			if a := e.answerOf(answers); a.status != http.StatusOK || a.body == "" {
				e.Errorf("%s, %s: answer = %d %q, want the handler's", how, what, a.status, a.body)
			}
			_ = conn.Close()
		}
	}
}

// answerInPlaceOfContinue: a client that asks first is not told to send a body
// that the handler does not want.
func answerInPlaceOfContinue(e *env) {
	route := e.route(func(x *Exchange) error {
		x.W.WriteHeader(http.StatusForbidden)
		_, _ = x.W.Write(make([]byte, 3<<10))
		return nil
	})
	route.Options.BodyTimeout = time.Hour
	e.serve(route)
	conn := e.connect()
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: shop.test\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", payPath, overLimit)
	e.wantStatus(e.answerOf(bufio.NewReader(conn)), http.StatusForbidden)
	e.WantRuns(1)
}

// bodyCanBeReadAfterTheAnswerHasBegun, as far as the server has read it.
func bodyCanBeReadAfterTheAnswerHasBegun(e *env) {
	var body string
	e.serve(e.route(func(x *Exchange) error {
		_, _ = x.W.Write(make([]byte, 3<<10))
		e.wantBody(x.R, body)
		return nil
	}))
	long := strings.Repeat("a", 2*overLimit)
	huge := strings.Repeat("a", 1<<20) // which net/http does not read
	for _, sent := range []io.Reader{strings.NewReader(long), bufio.NewReader(strings.NewReader(long)), strings.NewReader(huge)} {
		body = long
		if r, sized := sent.(*strings.Reader); sized && r.Len() == len(huge) {
			body = huge
		}
		e.wantStatus(e.do(e.request(http.MethodPost, payPath, sent)), http.StatusOK)
	}
	e.WantRuns(3)
}

func hijackedConnectionIsLeftAlone(e *env) {
	route := e.route(func(x *Exchange) error {
		conn, rw, err := http.NewResponseController(x.W).Hijack()
		if err != nil {
			e.Errorf("hijack: %v", err)
			return nil
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
		_ = rw.Flush()
		time.Sleep(2 * bodyTimeout) // what disturbs the connection does it meanwhile
		line, err := rw.ReadString('\n')
		if err != nil {
			e.Errorf("the connection gives %q, %v", line, err)
		}
		_, _ = rw.WriteString(line)
		return rw.Flush()
	})
	route.Options.BodyTimeout = bodyTimeout / 4
	e.serve(route)
	conn, answers := e.upload(payPath, overLimit, nil)
	defer conn.Close()
	if line, err := answers.ReadString('\n'); !strings.Contains(line, "101") {
		e.Fatalf("answer = %q, %v; want 101", line, err)
	}
	_, _ = answers.ReadString('\n')
	_, _ = io.WriteString(conn, "hello\n")
	if line, err := answers.ReadString('\n'); line != "hello\n" {
		e.Errorf("the connection gives %q, %v; want it back", line, err)
	}
}

func closedBodyIsNotRead(e *env) {
	route := e.route(func(x *Exchange) error {
		if err := x.R.Body.Close(); err != nil {
			e.Errorf("close: %v", err)
		}
		if n, err := x.R.Body.Read(make([]byte, 1)); n > 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
			e.Errorf("to read a closed body: %d, %v; want %v", n, err, http.ErrBodyReadAfterClose)
		}
		return nil
	})
	e.serve(route)
	for _, body := range []string{"small", strings.Repeat("large", overLimit)} {
		e.wantStatus(e.do(e.request(http.MethodPost, payPath, strings.NewReader(body))), http.StatusOK)
	}
	e.WantRuns(2)
	// net/http reads on when it closes a body.
	conn, _ := e.upload(payPath, overLimit, nil)
	defer conn.Close()
	e.Until("the handler is done", func() bool { return e.Ran.Load() == 3 && len(e.Left()) == 0 })
}

func trailersArrive(e *env) {
	e.serve(e.route(func(x *Exchange) error {
		_, _ = io.Copy(io.Discard, x.R.Body)
		if got := x.R.Trailer.Get("X-Sum"); got != "7" {
			e.Errorf("trailer = %q, want 7", got)
		}
		return nil
	}))
	for _, size := range []int{1000, overLimit} {
		conn, answers := e.upload(payPath, 0, make([]byte, size))
		_, _ = io.WriteString(conn, "0\r\nX-Sum: 7\r\n\r\n")
		e.wantStatus(e.answerOf(answers), http.StatusOK)
		_ = conn.Close()
	}
	e.WantRuns(2)
}

// readerLeftBehindEnds: a handler that returns while another goroutine reads
// the body.
func readerLeftBehindEnds(e *env) {
	ended := make(chan error, 1)
	route := e.route(func(x *Exchange) error {
		reading := make(chan struct{})
		body := x.R.Body
		go func() {
			close(reading)
			_, err := io.Copy(io.Discard, body)
			ended <- err
		}()
		<-reading
		return nil
	})
	route.Options.BodyTimeout = time.Hour
	e.serve(route)
	conn, answers := e.upload(payPath, overLimit, make([]byte, 10))
	defer conn.Close()
	if err := testenv.Receive(e.Env, "the end of the reader", ended); !errors.Is(err, lockmw.ErrReleased) {
		e.Errorf("to read the body: %v, want %v", err, lockmw.ErrReleased)
	}
	e.Until("the key is free", func() bool { return len(e.Left()) == 0 })
	_, _ = conn.Write(make([]byte, overLimit)) // net/http reads it first
	e.wantStatus(e.answerOf(answers), http.StatusOK)
}
