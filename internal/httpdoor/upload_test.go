package httpdoor

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// A piped writer has a connection whose read deadline breaks the pipe, as a
// server's does.
type piped struct {
	http.ResponseWriter
	pipe *io.PipeReader
}

func (w piped) SetReadDeadline(deadline time.Time) error {
	if !deadline.Before(time.Now()) {
		return errors.New("the read deadline is changed before it is needed")
	}
	return w.pipe.CloseWithError(os.ErrDeadlineExceeded)
}

const testTimeout = 5 * time.Second

// uploading runs test in a bubble, with the rest of a body whose client writes
// to the pipe; hidden tells that the deadlines are.
func uploading(t *testing.T, hidden bool, test func(t *testing.T, u *upload, client *io.PipeWriter, end context.CancelCauseFunc)) {
	synctest.Test(t, func(t *testing.T) {
		server, client := io.Pipe()
		outer := post(server)
		ctx, end := context.WithCancelCause(t.Context())
		var w http.ResponseWriter = piped{httptest.NewRecorder(), server}
		if hidden {
			w = httptest.NewRecorder()
		}
		u := newUpload(outer, outer.WithContext(ctx), w, testTimeout)
		test(t, u, client, end)
		u.leave()
		u.closeBelow()
		_ = client.Close() // where the deadlines are hidden, a reader still waits for it
		_ = server.Close()
	})
}

func both(t *testing.T, test func(t *testing.T, u *upload, client *io.PipeWriter, end context.CancelCauseFunc)) {
	for name, hidden := range map[string]bool{"deadlines": false, "no deadlines": true} {
		t.Run(name, func(t *testing.T) { uploading(t, hidden, test) })
	}
}

func TestSilentBodyFailsInTime(t *testing.T) {
	both(t, func(t *testing.T, u *upload, _ *io.PipeWriter, _ context.CancelCauseFunc) {
		begin := time.Now()
		for range 2 { // and the error stays
			if n, err := u.Read(make([]byte, 10)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read %d, %v; want %v", n, err, os.ErrDeadlineExceeded)
			}
		}
		if got := time.Since(begin); got != testTimeout {
			t.Errorf("the body failed after %v, want %v", got, testTimeout)
		}
	})
}

func TestBodyThatComesIsReadToItsEnd(t *testing.T) {
	const pieces = 14 // within the time that the whole body has
	both(t, func(t *testing.T, u *upload, client *io.PipeWriter, _ context.CancelCauseFunc) {
		go func() {
			for range pieces {
				time.Sleep(testTimeout - time.Second)
				_, _ = client.Write(make([]byte, leastUpload))
			}
			_ = client.Close()
		}()
		got := 0
		for {
			n, err := u.Read(make([]byte, 100))
			got += n
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("after %d bytes: %v", got, err)
			}
			if got%1000 == 0 {
				time.Sleep(2 * testTimeout) // the handler's own time is not the client's
			}
		}
		if got != pieces*leastUpload {
			t.Errorf("read %d bytes, want %d", got, pieces*leastUpload)
		}
	})
}

// TestAnswerWaitsForWhoReads: the Read that is under way may be the last, and
// net/http then reads the rest, without a bound of its own.
func TestAnswerWaitsForWhoReads(t *testing.T) {
	uploading(t, false, func(t *testing.T, u *upload, client *io.PipeWriter, _ context.CancelCauseFunc) {
		begin := time.Now()
		var others sync.WaitGroup
		others.Go(func() {
			if n, err := u.Read(make([]byte, 10)); n != 1 || err != nil {
				t.Errorf("read %d, %v; want what came", n, err)
			}
		})
		synctest.Wait()
		others.Go(func() {
			if err := u.answers(flushed); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(io.Discard, u.below) // as net/http does it
		})
		answering := func() bool {
			u.mu.Lock()
			defer u.mu.Unlock()
			return u.noRest
		}
		for range 1_000_000 { // who waits for a mutex is not blocked to a bubble
			if answering() {
				break
			}
			runtime.Gosched()
		}
		_, _ = client.Write([]byte{'a'})
		others.Wait()
		if got := time.Since(begin); got != testTimeout {
			t.Errorf("the answer waited for %v, want %v", got, testTimeout)
		}
	})
}

func TestTrickleFailsInTime(t *testing.T) {
	both(t, func(t *testing.T, u *upload, client *io.PipeWriter, _ context.CancelCauseFunc) {
		var trickle sync.WaitGroup
		trickle.Go(func() {
			for {
				time.Sleep(time.Second)
				if _, err := client.Write([]byte{'a'}); err != nil {
					return
				}
			}
		})
		begin := time.Now()
		_, err := io.Copy(io.Discard, u)
		if got := time.Since(begin); got != testTimeout || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the body failed after %v with %v, want %v after %v", got, err, os.ErrDeadlineExceeded, testTimeout)
		}
		_ = client.CloseWithError(err)
		trickle.Wait() // the bubble's time stops with the test
	})
}

// TestBodyHasATimeInAll: a client that sends as little as it may, for as long as it may.
func TestBodyHasATimeInAll(t *testing.T) {
	both(t, func(t *testing.T, u *upload, client *io.PipeWriter, _ context.CancelCauseFunc) {
		var slow sync.WaitGroup
		slow.Go(func() {
			for range 1000 {
				time.Sleep(testTimeout - time.Second)
				if _, err := client.Write(make([]byte, leastUpload)); err != nil {
					return
				}
			}
			_ = client.Close()
		})
		begin := time.Now()
		_, err := io.Copy(io.Discard, u)
		if got := time.Since(begin); got != time.Minute || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the body ended after %v with %v, want %v after a minute", got, err, os.ErrDeadlineExceeded)
		}
		_ = client.CloseWithError(os.ErrDeadlineExceeded)
		slow.Wait() // the bubble's time stops with the test
	})
}

func TestBodyEndsWithTheLease(t *testing.T) {
	for _, cause := range []error{lockmw.ErrLost, lockmw.ErrMaxHold} {
		both(t, func(t *testing.T, u *upload, _ *io.PipeWriter, end context.CancelCauseFunc) {
			time.AfterFunc(time.Second, func() { end(cause) })
			begin := time.Now()
			if _, err := u.Read(make([]byte, 1)); !errors.Is(err, cause) || time.Since(begin) != time.Second {
				t.Errorf("the body failed after %v with %v, want %v after %v", time.Since(begin), err, cause, time.Second)
			}
		})
		both(t, func(t *testing.T, u *upload, _ *io.PipeWriter, end context.CancelCauseFunc) {
			end(cause)
			if _, err := u.Read(make([]byte, 1)); !errors.Is(err, cause) {
				t.Errorf("the body of an ended lease: %v, want %v", err, cause)
			}
		})
	}
}

// TestPanicOfABodyIsTheHandlers: also where it happens in another goroutine.
func TestPanicOfABodyIsTheHandlers(t *testing.T) {
	pipe, _ := io.Pipe()
	for _, w := range []http.ResponseWriter{piped{httptest.NewRecorder(), pipe}, httptest.NewRecorder()} {
		outer := post(panicking{})
		u := newUpload(outer, outer, w, testTimeout)
		defer u.leave()
		func() {
			defer func() {
				if got := recover(); got != "broken body" {
					t.Errorf("panic = %v", got)
				}
			}()
			_, _ = u.Read(make([]byte, 1))
			t.Error("no panic")
		}()
	}
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("broken body") }

func TestBodyTimeoutHasADefault(t *testing.T) {
	if got := NewConfig("x", Middleware).timeout; got != 5*time.Second {
		t.Errorf("timeout = %v, want what the options say", got)
	}
}

func TestBodyTimeoutMayBeForEver(t *testing.T) {
	c := NewConfig("x", Middleware)
	c.TimeBody(math.MaxInt64)
	r := post(strings.NewReader("all of it"))
	u := newUpload(r, r, httptest.NewRecorder(), c.timeout)
	if got, err := io.ReadAll(u); err != nil || string(got) != "all of it" {
		t.Errorf("read %q, %v", got, err)
	}
	u.leave()
	u.closeBelow()
}
