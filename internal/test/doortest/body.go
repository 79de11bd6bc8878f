package doortest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/keyfunc"
)

// wantBody fails the test unless r's body is want.
func (e *env) wantBody(r *http.Request, want string) {
	e.Helper()
	got, err := io.ReadAll(r.Body)
	if err != nil || string(got) != want {
		e.Errorf("%d bytes are read, %v; want %d bytes as they were sent", len(got), err, len(want))
	}
}

func bodyOverTheLimitIsRefused(e *env) {
	small := int64(len(`{"id":7}`))
	limited, usual := e.bodyRoute(fine), e.bodyRoute(fine)
	limited.Path, limited.Options.BodyLimit = "/limited", &small
	e.serve(limited, usual)
	for path, limit := range map[string]int{"/limited": int(small), "/orders": 64 << 10} {
		over := `{"id":7}` + strings.Repeat(" ", limit-int(small)) + " "
		for _, body := range []io.Reader{strings.NewReader(over), bufio.NewReader(strings.NewReader(over))} {
			a := e.do(e.request(http.MethodPost, path, body))
			e.wantProblem(a, http.StatusRequestEntityTooLarge, "LOCK_KEY_INVALID")
		}
	}
	e.WantRuns(0)
	e.WantUnasked()
	for path, limit := range map[string]int{"/limited": int(small), "/orders": 64 << 10} {
		most := `{"id":7}` + strings.Repeat(" ", limit-int(small))
		e.wantStatus(e.do(e.request(http.MethodPost, path, strings.NewReader(most))), http.StatusOK)
	}
	e.WantRuns(2)
}

func bodyReachesTheHandler(e *env) {
	rng := rand.New(rand.NewPCG(7, 8))
	noise := make([]byte, 100_000) // more than the limit
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	var want string
	var length int64
	handle := func(x *Exchange) error {
		e.wantBody(x.R, want)
		if x.R.ContentLength != length {
			e.Errorf("ContentLength = %d, want %d", x.R.ContentLength, length)
		}
		return nil
	}
	e.serve(e.route(handle), e.bodyRoute(handle))
	for path, bodies := range map[string][]string{
		payPath:   {"", "a", string(noise[:64<<10]), string(noise[:64<<10+1]), string(noise)},
		"/orders": {`{"id":7}`, " {\"id\" : 1e2,\r\n\"x\":\"\xff\"}\n", `{"id":7,"x":"` + strings.Repeat("y", 60_000) + `"}`},
	} {
		for _, body := range bodies {
			want, length = body, int64(len(body))
			e.wantStatus(e.do(e.request(http.MethodPost, path, strings.NewReader(body))), http.StatusOK)
			if body != "" {
				length = -1
				e.wantStatus(e.do(e.request(http.MethodPost, path, bufio.NewReader(strings.NewReader(body)))), http.StatusOK)
			}
		}
	}
	e.WantRuns(15)
}

// nativeKeyMayReadTheBody: each key function and the handler get it from the beginning.
func nativeKeyMayReadTheBody(e *env) {
	const limit = 64 << 10
	var body string
	all := func(r *http.Request) string {
		e.wantBody(r, body)
		return "k"
	}
	ways := map[string]func(*http.Request) (string, error){
		"all of it": func(r *http.Request) (string, error) { return all(r), nil },
		"some of it": func(r *http.Request) (string, error) {
			begins := make([]byte, 2)
			_, err := io.ReadFull(r.Body, begins)
			return string(begins), err
		},
		"and closes it": func(r *http.Request) (string, error) {
			defer r.Body.Close()
			return all(r), nil
		},
		"and puts another in its place": func(r *http.Request) (string, error) {
			key := all(r)
			r.Body = io.NopCloser(strings.NewReader("another"))
			return key, nil
		},
		"by way of a reader of its own": func(r *http.Request) (string, error) {
			r.Body = http.MaxBytesReader(nil, r.Body, limit)
			return all(r), nil
		},
	}
	handle := func(x *Exchange) error {
		e.wantBody(x.R, body)
		return nil
	}
	runs := 0
	for _, way := range ways {
		native := e.fw.Key(way)
		for _, key := range []keyfunc.Func{native, keyfunc.Join(native, native), keyfunc.Join(native, keyfunc.Body("id")), keyfunc.Join(keyfunc.Body("id"), native)} {
			route := e.bodyRoute(handle)
			route.Key = key
			e.serve(route)
			for _, body = range []string{`{"id":7}`, `{"id":7,"x":"` + strings.Repeat("x", limit-len(`{"id":7,"x":""}`)) + `"}`} {
				e.wantStatus(e.do(e.request(http.MethodPost, route.Path, strings.NewReader(body))), http.StatusOK)
				e.wantStatus(e.do(e.request(http.MethodPost, route.Path, bufio.NewReader(strings.NewReader(body)))), http.StatusOK)
				runs += 2
			}
		}
	}
	e.WantRuns(runs)

	body = strings.Repeat("x", limit+1)
	route := e.bodyRoute(handle)
	route.Key = e.fw.Key(ways["some of it"])
	e.serve(route)
	e.wantStatus(e.do(e.request(http.MethodPost, route.Path, strings.NewReader(body))), http.StatusOK)
	route.Key = e.fw.Key(func(r *http.Request) (string, error) {
		_, _ = io.ReadAll(r.Body) // it does not look at the error
		return "k", nil
	})
	e.serve(route)
	e.wantProblem(e.do(e.request(http.MethodPost, route.Path, strings.NewReader(body))), http.StatusRequestEntityTooLarge, "LOCK_KEY_INVALID")
	e.wantProblem(e.do(e.request(http.MethodPost, route.Path, bufio.NewReader(strings.NewReader(body)))), http.StatusRequestEntityTooLarge, "LOCK_KEY_INVALID")
	e.WantRuns(runs + 1)
}

func slowBodyHoldsNoLock(e *env) {
	const body = `{"id":7}`
	handle := func(x *Exchange) error {
		e.wantBody(x.R, body)
		return nil
	}
	e.serve(e.route(handle), e.bodyRoute(handle))
	for i, path := range []string{payPath, "/orders"} {
		conn := e.connect()
		answers := bufio.NewReader(conn)
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: shop.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, len(body))
		// The server says so when somebody begins to read the body.
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			e.Fatalf("%s: answer = %q, %v; want 100 Continue", path, line, err)
		}
		_, _ = answers.ReadString('\n')
		if i == 0 {
			e.WantUnasked()
		}
		for _, b := range []byte(body) {
			if left := e.Left(); len(left) > 0 {
				e.Errorf("%s: while the body is unread Redis has %q", path, left)
			}
			_, _ = conn.Write([]byte{b})
		}
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
			e.Errorf("%s: answer = %q, %v; want 200", path, line, err)
		}
		_ = conn.Close()
	}
	e.WantRuns(2)
}

// drip is the pause between the bytes of a body that comes slowly.
const drip = time.Second

func drippingBodyHoldsNoLock(e *env) {
	const body = `{"id":7}`
	e.serve(e.bodyRoute(fine))
	conn := e.connect()
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(e.Patience + time.Duration(len(body))*drip)); err != nil {
		e.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /orders HTTP/1.1\r\nHost: shop.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
	others := 0
	for i := range len(body) {
		_, _ = conn.Write([]byte{body[i]})
		if i == len(body)-1 {
			break
		}
		for next := time.Now().Add(drip); time.Now().Before(next); time.Sleep(drip / 20) {
			if left := e.Left(); len(left) > 0 {
				e.Fatalf("while the body comes, Redis has %q", left)
			}
			e.wantStatus(e.post(body), http.StatusOK) // another request for the same lock
			others++
		}
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
		e.Errorf("answer = %q, %v; want 200", line, err)
	}
	e.WantRuns(others + 1)
	e.Logf("%d other requests had the lock while a body came, a byte in %v", others, drip)
}

func spellingsOfAFieldAreOneLock(e *env) {
	e.serve(e.bodyRoute(fine))
	for key, bodies := range map[string][]string{
		"100": {`{"id":100}`, `{"id":"100"}`, `{"id":1e2}`, `{"id":100.0}`, `{"\u0069d":100}`, `{"id":"\u0031\u00300"}`, `{"id":1e2,"id":100}`, `{"x":{"id":1},"id":100}`},
		"-1":  {`{"id":-1}`, `{"id":-1.0}`, `{"id":"-1"}`},
	} {
		lease := e.Take(prefix + "order:" + key)
		for _, body := range bodies {
			if a := e.post(body); a.status != http.StatusConflict {
				e.Errorf("%s: status %d while %s is locked, want 409", body, a.status, key)
			}
		}
		for _, body := range []string{`{"id":101}`, `{"x":1,"x":2,"id":1}`, `{"id":"100.0"}`} {
			if a := e.post(body); a.status != http.StatusOK {
				e.Errorf("%s: status %d while %s is locked, want 200", body, a.status, key)
			}
		}
		e.Release(lease)
	}
}

// endless is a body that does not end, and counts what was read of it.
type endless struct{ read *atomic.Int64 }

func (b endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '['
	}
	b.read.Add(int64(len(p)))
	return len(p), nil
}

func hugeBodiesCostLittle(e *env) {
	const bodies, limit = 100, 64 << 10
	handler := e.handler(e.bodyRoute(fine))
	for _, length := range []int64{1 << 30, -1} {
		var read atomic.Int64
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var all sync.WaitGroup
		for range bodies {
			all.Go(func() {
				r := httptest.NewRequest(http.MethodPost, "/orders", endless{&read})
				r.ContentLength = length
				w := httptest.NewRecorder()
				w.Body = new(bytes.Buffer)
				handler.ServeHTTP(w, r)
				if w.Code != http.StatusRequestEntityTooLarge {
					e.Errorf("status = %d, want 413", w.Code)
				}
			})
		}
		all.Wait()
		runtime.ReadMemStats(&after)
		got, most := after.TotalAlloc-before.TotalAlloc, uint64(bodies*(limit+64<<10))
		if got > most {
			e.Errorf("%d bodies cost %d bytes, want at most %d", bodies, got, most)
		}
		if got, most := read.Load(), int64(bodies*(limit+1)); got > most {
			e.Errorf("%d bytes were read of %d bodies, want at most %d", got, bodies, most)
		}
		e.Logf("%d bodies of a length of %d cost %d KiB, of %d at most; %d KiB of them were read", bodies, length, got>>10, most>>10, read.Load()>>10)
	}
	e.WantRuns(0)
	e.WantUnasked()
}
