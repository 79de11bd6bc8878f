package httpdoor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// An upload is a request's body that was not read, or not to its end, before
// the lock was taken. The handler reads it while it holds the lock, so the
// client must not be able to hold the lock by sending nothing: a Read fails
// when less than leastUpload has come in the time that the door allows, when the
// body has taken wholeUpload times that, and when the lease's context ends. Only the
// time in which somebody waits for the client counts.
//
// A Read that is blocked can be ended from outside only by the connection's
// read deadline. The deadline is touched when a Read is to fail, or when the answer
// begins before the body has come (readRest), and never before: until then the server's own
// ReadTimeout stays in force, and a
// connection that the handler hijacks is not disturbed. Where outer middleware
// hides the deadlines (a ResponseWriter without Unwrap), each Read is done by
// a goroutine that the handler can stop waiting for.
type upload struct {
	below    io.ReadCloser
	request  *http.Request // the door's, whose trailers are set at the end of the body
	inner    *http.Request // the handler's
	ctx      context.Context
	unfollow func() bool // has ctx's end no longer end the reading
	timeout  time.Duration
	deadline func(time.Time) error // sets the connection's read deadline; nil: hidden

	turn  sync.Mutex // of those who read; below belongs to its holder
	early []byte     // what was read before the handler asked for it
	own   []byte     // for reads by a goroutine

	mu      sync.Mutex
	count   int64 // of bytes that came
	reading bool
	since   time.Time     // when the Read began
	until   time.Time     // when it is to fail
	spent   time.Duration // how long Reads have waited in all
	waited  time.Duration // how long of that since leastUpload bytes came last
	came    int           // how many bytes came since then
	timer   *time.Timer   // calls expire
	err     error         // of every Read from now on, if not nil
	gaveUp  chan struct{} // closed with err set, if a goroutine reads
	noRest  bool          // readRest is not called, or not again
	closed  bool          // the handler has called Close
	answer  int           // how many bytes of the answer were written
}

const (
	// leastUpload is what has to come of a body in the time that the door
	// allows. A client that sends a byte from time to time is not at work.
	leastUpload = 1 << 10

	// wholeUpload times as long may the whole body take, which is a minute by default. At the least
	// rate alone a client could hold the lock for days.
	wholeUpload = 12

	// serverHolds is how much of an answer net/http keeps before it sends the
	// beginning.
	serverHolds = 2 << 10

	// serverReads is how much of a body net/http reads over HTTP/1 before it
	// writes an answer.
	serverReads = 256 << 10
)

// serverLeaves reports whether net/http leaves a body alone when it writes an
// answer, of which it knows that so many bytes are left. It does so if the client
// was to ask before it sends, and if there is too much. But it only knows that of
// bodies of its own types, and middleware may have put another into the request.
func serverLeaves(body io.Reader, left int64) bool {
	if outer, is := body.(*upload); is { // of another door
		return serverLeaves(outer.below, left)
	}
	switch fmt.Sprintf("%T", body) {
	case "*http.body":
		return left >= serverReads
	case "*http.expectContinueReader":
		return true
	}
	return false
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// newUpload returns what is left of outer's body for the handler's request.
func newUpload(outer, inner *http.Request, w http.ResponseWriter, timeout time.Duration) *upload {
	u := &upload{
		below: outer.Body, request: outer, inner: inner, ctx: inner.Context(), timeout: timeout, deadline: deadlineOf(w),
		noRest: outer.ProtoMajor != 1, // later versions answer while they read
	}
	if u.deadline == nil {
		u.gaveUp = make(chan struct{})
	}
	u.unfollow = context.AfterFunc(u.ctx, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.fail(u.over())
	})
	return u
}

// deadlineOf returns the method that sets the read deadline of w's connection,
// which it finds as http.ResponseController does, or nil.
func deadlineOf(w http.ResponseWriter) func(time.Time) error {
	for {
		switch below := w.(type) {
		case *Buffer:
			w = below.below
		case interface{ SetReadDeadline(time.Time) error }:
			return below.SetReadDeadline
		case interface{ Unwrap() http.ResponseWriter }:
			w = below.Unwrap()
		default:
			return nil
		}
	}
}

// Read returns what readRest has read, and then reads from the client.
func (u *upload) Read(p []byte) (int, error) {
	u.turn.Lock()
	defer u.turn.Unlock()
	if u.isClosed() {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(u.early) > 0 {
		n := copy(p, u.early)
		u.early = u.early[n:]
		return n, nil
	}
	return u.fetch(p)
}

// Close ends the reading. The body below is closed after the release of the lock,
// by closeBelow, because net/http reads from the client when it closes a body.
func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	return nil
}

func (u *upload) isClosed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.closed
}

// fetch reads from the client. The caller has the turn.
func (u *upload) fetch(p []byte) (n int, err error) {
	if err := u.begin(); err != nil {
		return 0, err
	}
	if u.deadline != nil {
		n, err = u.below.Read(p)
	} else {
		n, err = u.readAside(p)
	}
	if errors.Is(err, io.EOF) {
		u.inner.Trailer = u.request.Trailer
	}
	return n, u.end(n, err)
}

// begin notes that a Read waits for the client from now on. Its error is that of
// the Read, if nothing is read any more.
func (u *upload) begin() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil && u.ctx.Err() != nil {
		u.err = u.over()
	}
	if u.err != nil {
		return u.err
	}
	left := min(u.timeout-u.waited, wholeUpload*u.timeout-u.spent)
	u.reading, u.since = true, time.Now()
	u.until = u.since.Add(left)
	if u.timer == nil {
		u.timer = time.AfterFunc(left, u.expire)
	} else {
		u.timer.Reset(left)
	}
	return nil
}

// end notes that the Read is over, and what came. It returns the Read's error.
func (u *upload) end(n int, err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reading = false
	u.timer.Stop()
	u.count += int64(n)
	took := time.Since(u.since)
	u.waited, u.spent = u.waited+took, u.spent+took
	if u.came += n; u.came >= leastUpload {
		u.came, u.waited = 0, 0
	}
	if u.err == nil && err != nil {
		u.err = err
		u.unfollow()
	}
	return u.err
}

// expire is called when a Read has taken too long. The timer may have been set
// anew meanwhile.
func (u *upload) expire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	switch whole := wholeUpload * u.timeout; {
	case !u.reading || now.Before(u.until):
	case u.spent+now.Sub(u.since) >= whole:
		u.fail(fmt.Errorf("lockmw: the request's body took longer than %v while its lock was held: %w", whole, os.ErrDeadlineExceeded))
	default:
		u.fail(fmt.Errorf("lockmw: too little of the request's body came in %v while its lock was held: %w", u.timeout, os.ErrDeadlineExceeded))
	}
}

// over is the error of a Read when the lease's context has ended.
func (u *upload) over() error {
	return fmt.Errorf("lockmw: the request's body is not read any more: %w", context.Cause(u.ctx))
}

// fail ends the Read that is under way, if there is one, and has all later
// ones fail. The caller holds mu.
func (u *upload) fail(err error) {
	if u.err != nil {
		return
	}
	u.err = err
	switch {
	case !u.reading:
	case u.deadline == nil:
		close(u.gaveUp)
	default:
		_ = u.deadline(longAgo) // a connection without deadlines cannot be helped
	}
}

// leave is called when the handler has returned, before the release. From then on no Read of
// the handler touches the connection, which is the server's again. closeBelow may, after the
// release, and so may a goroutine that reads, until the client sends something or leaves.
func (u *upload) leave() {
	u.unfollow()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.noRest = true
	u.fail(fmt.Errorf("lockmw: the request's body is not read any more: %w", lockmw.ErrReleased))
}

// closeBelow is called after the release. It does what the handler's Close has put
// off.
func (u *upload) closeBelow() {
	if u.isClosed() {
		_ = u.below.Close() // the handler has returned: nobody wants the error
	}
}

// answers is called before n bytes of the answer are written, and with the constant flushed in
// place of n before those that were written so far are sent. The error is readRest's.
func (u *upload) answers(n int) error {
	u.mu.Lock()
	u.answer += max(n, 0)
	send := !u.noRest && (n == flushed || u.answer > serverHolds)
	u.mu.Unlock()
	if send {
		return u.readRest()
	}
	return nil
}

// flushed is an n of answers.
const flushed = -1

// readRest is called before the handler's answer is sent. Over HTTP/1, net/http
// then reads the rest of the body, for as long as the client takes to send it. So
// the rest is read here first, in the time that a Read has, and kept for the
// handler. If it does not come, or is more than net/http reads, the read
// deadline ends net/http's own attempt: it sends the answer and then closes
// the connection, as it does with every body that is too long.
//
// Another goroutine may be in a Read, as that of a proxy is whose server has answered early.
// It is waited for, as net/http would: the body may end with it, and otherwise nobody would
// limit the time that net/http takes to read the rest.
//
// The error is nil unless the answer cannot be sent within that time.
func (u *upload) readRest() error {
	u.duplex()
	if left, _ := u.progress(); serverLeaves(u.below, left) {
		return nil
	}
	u.turn.Lock()
	defer u.turn.Unlock()
	left, came := u.progress()
	if came || !expectsContinue(u.request) {
		early, err := readUpTo(reader(u.fetch), left, serverReads+1)
		u.early = append(u.early, early...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if u.deadline == nil {
			return err
		}
	} else if u.deadline == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = errors.New("lockmw: the request's body is not read any more, because the answer has begun")
	}
	_ = u.deadline(longAgo)
	return nil
}

// progress returns how much of the body is left, -1 if that is not known, and
// whether any of it came.
func (u *upload) progress() (left int64, came bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.request.ContentLength < 0 {
		return -1, u.count > 0
	}
	return u.request.ContentLength - u.count, u.count > 0
}

// expectsContinue reports whether the client sends its body when it is asked
// for it. An answer in place of the question is what it asked for.
func expectsContinue(r *http.Request) bool {
	return strings.EqualFold(strings.TrimSpace(r.Header.Get("Expect")), "100-continue")
}

// duplex has readRest not be called from now on: it runs already, or net/http will not read
// before the answer, since the handler has asked to write while it reads (EnableFullDuplex) or
// has hijacked the connection.
func (u *upload) duplex() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.noRest = true
}

// A reader is a function that is an io.Reader.
type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// ownBuffer is the size of readAside's buffer.
const ownBuffer = 32 << 10

// readAside reads in a goroutine, until fail is called. Then it returns without
// the goroutine, which therefore reads into a buffer of its own, and ends when the
// client sends something or leaves. net/http waits for that before it goes on with
// the connection.
func (u *upload) readAside(p []byte) (int, error) {
	if u.own == nil {
		u.own = make([]byte, ownBuffer)
	}
	own := u.own[:min(len(p), ownBuffer)]
	type result struct {
		n        int
		err      error
		panicked any
	}
	results := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			r.panicked = recover() // it goes on in the handler's goroutine
			results <- r
		}()
		r.n, r.err = u.below.Read(own)
	}()
	select {
	case r := <-results:
		if r.panicked != nil {
			panic(r.panicked)
		}
		return copy(p, own[:r.n]), r.err
	case <-u.gaveUp:
		return 0, nil // end returns the error that fail has set
	}
}
