package doortest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

func errorHandlerAnswers(e *env) {
	var got error
	route := e.route(fine)
	route.Options.ErrorHandler = func(w http.ResponseWriter, r *http.Request, err error) {
		got = err
		if r.Method != http.MethodPost {
			e.Errorf("the error handler's request is a %s", r.Method)
		}
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "later")
	}
	e.serve(route)
	e.hold()
	if a := e.pay(); a.status != http.StatusTeapot || a.body != "later" || a.header.Get("Content-Type") != "text/plain" {
		e.Errorf("answer = %d %q %v, want the error handler's", a.status, a.body, a.header)
	}
	var refused *lockmw.AcquireError
	if !errors.Is(got, lockmw.ErrNotAcquired) || !errors.As(got, &refused) || refused.Key != lockKey {
		e.Errorf("error = %v, want the one of Acquire", got)
	}
	e.WantRuns(0)

	keyless := route
	keyless.Key = keyfunc.Query("sku")
	e.serve(keyless)
	e.wantStatus(e.pay(), http.StatusTeapot)
	if !errors.Is(got, lockmw.ErrInvalidKey) || !errors.Is(got, keyfunc.ErrMissing) || !errors.As(got, &refused) {
		e.Errorf("error = %v, want %v and the reason", got, lockmw.ErrInvalidKey)
	}
	e.WantRuns(0)
}

func silentErrorHandlerIsNoSuccess(e *env) {
	route := e.route(fine)
	route.Options.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {}
	e.serve(route)
	e.hold()
	e.wantProblem(e.pay(), http.StatusConflict, "LOCK_BUSY")
	e.WantRuns(0)
}

func errorHandlerHearsOfALostLock(e *env) {
	const buffer = 100
	for _, silent := range []bool{false, true} {
		for _, buffered := range []bool{false, true} {
			var got error
			route := e.route(func(x *Exchange) error {
				if buffered {
					_, _ = io.WriteString(x.W, "paid")
				}
				e.ways()["deleted"]()
				return nil
			})
			if buffered {
				max := buffer
				route.Options.BufferedResponse = &max
			}
			route.Options.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
				got = err
				if !silent {
					w.WriteHeader(http.StatusBadGateway)
					_, _ = io.WriteString(w, "lost")
				}
			}
			e.serve(route)
			a := e.pay()
			if silent {
				e.wantProblem(a, http.StatusInternalServerError, "LOCK_LOST")
			} else if a.status != http.StatusBadGateway || a.body != "lost" {
				e.Errorf("buffered %v: answer = %d %q, want the error handler's", buffered, a.status, a.body)
			}
			if !errors.Is(got, lockmw.ErrLost) {
				e.Errorf("buffered %v: error = %v, want %v", buffered, got, lockmw.ErrLost)
			}
		}
	}
	e.WantRuns(4)
}

func bufferedResponseIsTheSame(e *env) {
	answers := map[int]answer{}
	for _, max := range []int{0, 1000, 5} {
		route := e.route(func(x *Exchange) error {
			x.W.Header().Set("X-Order", "7")
			x.W.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(x.W, "one ")
			if flusher, can := x.W.(http.Flusher); can && max > 0 {
				flusher.Flush()
			}
			_, _ = x.W.Write([]byte("two"))
			return nil
		})
		if max > 0 {
			route.Options.BufferedResponse = &max
		}
		e.serve(route)
		a := e.pay()
		a.header.Del("Date")
		a.header.Del("Content-Length")
		answers[max] = a
		e.WantFree()
	}
	for max, a := range answers {
		if got, want := fmt.Sprint(a), fmt.Sprint(answers[0]); got != want {
			e.Errorf("held back up to %d bytes: %s, want %s", max, got, want)
		}
	}
	if a := answers[0]; a.status != http.StatusAccepted || a.body != "one two" {
		e.Errorf("answer = %d %q", a.status, a.body)
	}

	// Nothing written: a status and headers alone.
	max := 10
	silent := e.route(func(x *Exchange) error {
		x.W.Header().Set("X-Order", "7")
		return nil
	})
	silent.Options.BufferedResponse = &max
	e.serve(silent)
	if a := e.pay(); a.status != http.StatusOK || a.body != "" || a.header.Get("X-Order") != "7" {
		e.Errorf("answer = %d %q %v, want 200 with the header", a.status, a.body, a.header)
	}
}

func slowReaderOfABufferedResponseHoldsNoLock(e *env) {
	const size = 32 << 20 // more than the sockets take
	max := size
	written := make(chan struct{})
	route := e.route(func(x *Exchange) error {
		_, _ = x.W.Write(make([]byte, size))
		close(written)
		return nil
	})
	route.Options.BufferedResponse = &max
	e.serve(route)
	conn := e.connect()
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\n\r\n", payPath)
	// From the first byte on the response is on its way, and nobody reads it.
	if _, err := bufio.NewReaderSize(conn, 16).ReadByte(); err != nil {
		e.Fatal(err)
	}
	testenv.Receive(e.Env, "the handler's end", written)
	e.WantFree()
}

func safeMethodsShareTheLock(e *env) {
	inside, leave := make(chan struct{}, 4), make(chan struct{}) // a handler of a case that has failed must end
	write := e.route(fine)
	write.Options.ReadWrite = true
	write.Policy.Wait = e.Patience
	read := write
	read.Method = http.MethodGet
	read.Handle = func(*Exchange) error {
		inside <- struct{}{}
		<-leave
		return nil
	}
	hastyWrite, hastyRead := write, read
	hastyWrite.Path, hastyRead.Path = "/hasty/{id}", "/hasty/{id}"
	hastyWrite.Policy.Wait, hastyRead.Policy.Wait = 50*time.Millisecond, 50*time.Millisecond
	e.serve(write, read, hastyWrite, hastyRead)
	readers := []<-chan answer{
		e.background(e.request(http.MethodGet, payPath, nil)), e.background(e.request(http.MethodGet, payPath, nil)),
	}
	defer close(leave)
	for range readers { // both, before either leaves
		testenv.Receive(e.Env, "a reader beside another", inside)
	}
	hasty := func(method string) answer {
		return e.answered(func() answer { return e.do(e.request(method, "/hasty/"+id, nil)) })
	}
	e.wantProblem(hasty(http.MethodPost), http.StatusConflict, "LOCK_WAIT_TIMEOUT")
	e.WantRuns(2)

	writer := e.background(e.request(http.MethodPost, payPath, nil))
	e.Until("the writer waits", func() bool {
		return e.Client.ZCard(context.Background(), e.RedisKey(lockKey)+":queue").Val() == 1
	})
	for range readers {
		leave <- struct{}{}
	}
	for _, answers := range append(readers, writer) {
		if a := testenv.Receive(e.Env, "an answer", answers); a.status != http.StatusOK {
			e.Errorf("status = %d, want %d", a.status, http.StatusOK)
		}
	}
	e.WantRuns(3)
	e.WantFree()

	holder := e.hold() // a writer
	e.wantProblem(hasty(http.MethodGet), http.StatusConflict, "LOCK_WAIT_TIMEOUT")
	e.Release(holder)
	e.WantRuns(3)
}

func mistakesPanicAtTheStart(e *env) {
	negative, zero, none := int64(-1), int64(0), 0
	for want, change := range map[string]func(*Route){
		"Locker is nil":       func(r *Route) { r.Locks = nil },
		"key function is nil": func(r *Route) { r.Key = nil },
		"TTL":                 func(r *Route) { r.Policy.TTL = time.Millisecond },
		"Prefix":              func(r *Route) { r.Policy.Prefix = "{" },
		"option 1 is nil":     func(r *Route) { r.Options.Nil = true },
		"WithErrorHandler":    func(r *Route) { r.Options.NilErrorHandler = true },
		"WithSkipper":         func(r *Route) { r.Options.NilSkipper = true },
		"WithBodyLimit: -1":   func(r *Route) { r.Options.BodyLimit = &negative },
		"WithBodyLimit: 0":    func(r *Route) { r.Options.BodyLimit = &zero },
		"WithBodyTimeout: 5ns: is the unit missing?": func(r *Route) { r.Options.BodyTimeout = 5 },
		"WithBodyTimeout: -1ns":                      func(r *Route) { r.Options.BodyTimeout = -1 },
		"WithBufferedResponse: 0":                    func(r *Route) { r.Options.BufferedResponse = &none },
	} {
		route := e.route(fine)
		change(&route)
		e.wantPanic(route, want)
	}
	if got := panicOf(func() { e.fw.Key(nil) }); !strings.Contains(got, e.fw.Door+": Key: ") {
		e.Errorf("Key(nil) panics with %q", got)
	}
}

// wantPanic fails the test unless to serve route panics with a text that names
// the door and holds want.
func (e *env) wantPanic(route Route, want string) {
	e.Helper()
	got := panicOf(func() { e.fw.Serve(route) })
	if !strings.HasPrefix(got, e.fw.Door+": ") || !strings.Contains(got, want) {
		e.Errorf("panic = %q, want %s: … %s", got, e.fw.Door, want)
	}
}

// panicOf returns the text that f panics with.
func panicOf(f func()) (text string) {
	defer func() {
		if value := recover(); value != nil {
			text = fmt.Sprint(value)
		}
	}()
	f()
	return ""
}
