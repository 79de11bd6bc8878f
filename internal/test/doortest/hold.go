package doortest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

func lockIsHeldWhileTheHandlerRuns(e *env) {
	e.serve(e.route(func(*Exchange) error {
		if e.Token(lockKey) == "" {
			e.Error("the lock is not held while the handler runs")
		}
		return nil
	}))
	for range 20 {
		e.wantStatus(e.pay(), http.StatusOK)
		e.WantFree() // before the client has the answer
	}
	e.WantRuns(20)
	e.WantReleasedFirst(func(l *lockmw.Locker) {
		e.Locks = l
		e.serve(e.route(fine))
	}, func() { e.wantStatus(e.pay(), http.StatusOK) })
}

func handlerFindsItsLease(e *env) {
	e.serve(e.route(func(x *Exchange) error {
		ctx := x.R.Context()
		lease, found := lockmw.FromContext(ctx)
		if !found {
			e.Error("no lease in the handler's context")
			return nil
		}
		if lease.Key() != lockKey || !lease.Valid() || lease.Fence() == 0 {
			e.Errorf("lease of %q, valid %v, fence %d", lease.Key(), lease.Valid(), lease.Fence())
		}
		if ctx.Value(http.ServerContextKey) == nil {
			e.Error("the request's own context is lost")
		}
		if _, _, err := e.Locks.Acquire(ctx, lockKey, lockmw.Policy{}); !errors.Is(err, lockmw.ErrReentrant) {
			e.Errorf("to lock the same again is %v, want %v", err, lockmw.ErrReentrant)
		}
		return nil
	}))
	e.wantStatus(e.pay(), http.StatusOK)
	e.WantRuns(1)
}

func requestIsPutBack(e *env) {
	after := 0
	route := e.route(func(x *Exchange) error {
		if x.R.PathValue("id") == "" && x.Param("id") == "" {
			e.Error("the handler's request has lost its parameters")
		}
		return nil
	})
	route.After = func(r *http.Request) {
		after++
		if _, found := lockmw.FromContext(r.Context()); found || r.Context().Err() != nil {
			e.Errorf("outer middleware has the lease's context, error %v", r.Context().Err())
		}
	}
	buffered := 100
	held := route
	held.Path, held.Options.BufferedResponse = "/held/{id}", &buffered
	e.serve(route, held)
	e.wantStatus(e.pay(), http.StatusOK)
	e.wantStatus(e.do(e.request(http.MethodPost, "/held/"+id, nil)), http.StatusOK)
	if after != 2 {
		e.Errorf("outer middleware was called %d times, want 2", after)
	}
	e.WantRuns(2)
}

func clientWhoLeavesEndsTheWork(e *env) {
	for _, body := range []string{"", `{"a":"body that the handler does not read"}`} {
		started, ended := make(chan struct{}), make(chan error, 1)
		e.serve(e.route(func(x *Exchange) error {
			close(started)
			select {
			case <-x.R.Context().Done():
				ended <- x.R.Context().Err()
			case <-time.After(e.Patience):
				ended <- nil
			}
			return nil
		}))
		ctx, leave := context.WithCancel(context.Background())
		defer leave()
		answers := e.background(e.request(http.MethodPost, payPath, strings.NewReader(body)).WithContext(ctx))
		testenv.Receive(e.Env, "the handler's start", started)
		left := time.Now()
		leave()
		testenv.Receive(e.Env, "the client's end", answers)
		if err := testenv.Receive(e.Env, "the handler's end", ended); !errors.Is(err, context.Canceled) {
			e.Errorf("%q: the handler's context: %v, want %v", body, err, context.Canceled)
		}
		e.Until("the key is free", func() bool { return len(e.Left()) == 0 })
		e.Logf("the key is free %v after the client has left", time.Since(left))
	}
}

func counterIsExact(e *env) {
	const clients, rounds = 40, 10
	var counter atomic.Int64
	route := e.route(func(*Exchange) error {
		n := counter.Load()
		time.Sleep(100 * time.Microsecond) // so that others could come in between
		counter.Store(n + 1)
		return nil
	})
	route.Policy.Wait = time.Minute
	e.serve(route)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range rounds {
				a, got := <-e.background(e.request(http.MethodPost, payPath, nil))
				if !got || a.status != http.StatusOK {
					e.Errorf("answer = %d %s", a.status, a.body)
				}
			}
		})
	}
	all.Wait()
	got := counter.Load()
	if got != clients*rounds {
		e.Errorf("counter = %d, want %d", got, clients*rounds)
	}
	e.Logf("counted %d of %d", got, clients*rounds)
}

func streamingSurvives(e *env) {
	more := make(chan struct{}, 2)
	e.serve(e.route(func(x *Exchange) error {
		flusher, can := x.W.(http.Flusher)
		if !can {
			e.Errorf("%T is no http.Flusher", x.W)
			return nil
		}
		for _, part := range []string{"one", "two"} {
			_, _ = io.WriteString(x.W, part)
			flusher.Flush()
			select {
			case <-more:
			case <-time.After(e.Patience):
				e.Errorf("%q did not arrive", part)
			}
		}
		if err := http.NewResponseController(x.W).Flush(); err != nil {
			e.Errorf("flush by a controller: %v", err)
		}
		return http.NewResponseController(x.W).SetWriteDeadline(time.Now().Add(e.Patience))
	}))
	response, err := e.server.Client().Do(e.request(http.MethodPost, payPath, nil))
	if err != nil {
		e.Fatal(err)
	}
	defer response.Body.Close()
	part := make([]byte, 3)
	for _, want := range []string{"one", "two"} {
		if _, err := io.ReadFull(response.Body, part); err != nil || string(part) != want {
			e.Errorf("part = %q, %v; want %q", part, err, want)
		}
		more <- struct{}{}
	}
}

func hijackingSurvives(e *env) {
	e.serve(e.route(func(x *Exchange) error {
		hijacker, can := x.W.(http.Hijacker)
		if !can {
			e.Errorf("%T is no http.Hijacker", x.W)
			return nil
		}
		conn, rw, err := hijacker.Hijack()
		if err != nil {
			e.Errorf("hijack: %v", err)
			return nil
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
		return rw.Flush()
	}))
	if a := e.pay(); a.status != http.StatusCreated || a.body != "hi" {
		e.Errorf("answer = %d %q, want 201 hi", a.status, a.body)
	}
	e.Until("the key is free", func() bool { return len(e.Left()) == 0 })
}

func uploadedFilesAreRemoved(e *env) {
	var file string
	e.serve(e.route(func(x *Exchange) error {
		if err := x.R.ParseMultipartForm(1); err != nil {
			return err
		}
		upload, err := x.R.MultipartForm.File["scan"][0].Open()
		if err != nil {
			return err
		}
		defer upload.Close()
		onDisk, is := upload.(*os.File)
		if !is {
			return fmt.Errorf("the upload is a %T, want a file", upload)
		}
		file = onDisk.Name()
		return nil
	}))
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("scan", "scan.pdf")
	if err != nil {
		e.Fatal(err)
	}
	// ParseMultipartForm keeps 10 MiB more than it is told.
	_, _ = part.Write(make([]byte, 11<<20))
	_ = form.Close()
	e.wantStatus(e.do(e.request(http.MethodPost, payPath, bufio.NewReader(&body), "Content-Type", form.FormDataContentType())), http.StatusOK)
	e.server.Close() // waits until the request is over
	if file == "" {
		e.Fatal("no file was uploaded")
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		e.Errorf("the uploaded file is still there: %v", err)
		_ = os.Remove(file)
	}
}
