package httpdoor

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// A Buffer is an http.ResponseWriter that holds a response back, header and
// body, until Send. Without a Send nothing of it reaches the client, and
// another answer can be written in its place.
//
// A body that grows over the limit is sent, as far as it has come, and from
// then on nothing is held back: there is no place to keep it, and to refuse it
// would fail a request that was done. Flush does nothing while the response is
// held back. 1xx responses are dropped. There is no Hijack. What net/http refuses
// to take is refused at once, where the handler is: a status of less or more than
// three digits, a body where none may be, one that is longer than its
// Content-Length.
type Buffer struct {
	below  http.ResponseWriter
	before http.Header // what the handler's began with
	header http.Header // the handler's
	frozen http.Header // header as it was at WriteHeader; nil before
	status int
	length int64 // what frozen says, -1 if it does not
	body   []byte
	size   int // of the body, sent or not
	max    int
	sent   bool
}

func newBuffer(w http.ResponseWriter, max int) *Buffer {
	return &Buffer{below: w, before: w.Header().Clone(), header: w.Header().Clone(), status: http.StatusOK, max: max}
}

// Header returns the header of the response that is held back. It begins with
// what outer middleware has set.
func (b *Buffer) Header() http.Header {
	if b.header == nil {
		b.header = make(http.Header)
	}
	return b.header
}

// WriteHeader sets the status, once, and the header as it is now.
func (b *Buffer) WriteHeader(status int) {
	if b.Written() {
		return
	}
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // in net/http's words
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	b.status = status
	b.frozen = b.Header().Clone()
	b.length = -1
	if length, err := strconv.ParseInt(b.frozen.Get("Content-Length"), 10, 64); err == nil && length >= 0 {
		b.length = length
	}
}

// Write adds to the body.
func (b *Buffer) Write(p []byte) (int, error) {
	held, err := b.take(len(p))
	switch {
	case err != nil:
		return 0, err
	case !held:
		return b.below.Write(p)
	}
	b.body = append(b.body, p...)
	return len(p), nil
}

// WriteString adds to the body.
func (b *Buffer) WriteString(s string) (int, error) {
	held, err := b.take(len(s))
	switch {
	case err != nil:
		return 0, err
	case !held:
		return io.WriteString(b.below, s)
	}
	b.body = append(b.body, s...)
	return len(s), nil
}

// take reports whether n more bytes are to be held back. The error is the one
// that net/http has for bytes that it does not send.
func (b *Buffer) take(n int) (held bool, err error) {
	b.WriteHeader(b.status)
	switch {
	case b.sent || n == 0: // the writer below judges, or there is nothing to judge
	case b.status < 200 || b.status == http.StatusNoContent || b.status == http.StatusNotModified:
		return true, http.ErrBodyNotAllowed
	case b.length >= 0 && int64(b.size)+int64(n) > b.length:
		return true, http.ErrContentLength
	}
	b.size += n
	if !b.sent && b.size > b.max {
		b.Send()
	}
	return !b.sent, nil
}

// Flush sets the header as it is now, and flushes a response that is not held
// back any more.
func (b *Buffer) Flush() {
	b.WriteHeader(b.status)
	if b.sent {
		_ = http.NewResponseController(b.below).Flush() // not all can
	}
}

// SetReadDeadline, SetWriteDeadline and EnableFullDuplex are for
// http.ResponseController. They concern the connection, not what is held back.
// An Unwrap in their place would give the connection itself away, by Hijack.

// SetReadDeadline sets the connection's.
func (b *Buffer) SetReadDeadline(deadline time.Time) error {
	return http.NewResponseController(b.below).SetReadDeadline(deadline)
}

// SetWriteDeadline sets the connection's.
func (b *Buffer) SetWriteDeadline(deadline time.Time) error {
	return http.NewResponseController(b.below).SetWriteDeadline(deadline)
}

// EnableFullDuplex lets the handler read the request's body after it has
// answered.
func (b *Buffer) EnableFullDuplex() error {
	return http.NewResponseController(b.below).EnableFullDuplex()
}

// Written reports whether the handler has written a header or body.
func (b *Buffer) Written() bool { return b.frozen != nil }

// Status returns the status of the response: 200 until the handler sets another one.
func (b *Buffer) Status() int { return b.status }

// Size returns how much of a body the handler has written.
func (b *Buffer) Size() int { return b.size }

// Held reports whether nothing has been sent.
func (b *Buffer) Held() bool { return !b.sent }

// isCutOff reports whether the handler has written less than it has announced. net/http breaks such a connection off.
func (b *Buffer) isCutOff() bool {
	return b.length > int64(b.size) && b.status != http.StatusNotModified
}

// Send sends what is held back, and the trailers that the handler has set
// since. If the handler has written nothing, only the header is handed on.
func (b *Buffer) Send() {
	if !b.sent {
		b.sent = true
		if b.Written() {
			b.handOn(b.frozen)
			b.below.WriteHeader(b.status)
			if len(b.body) > 0 {
				_, _ = b.below.Write(b.body) // the handler is not there to be told
			}
			b.body = nil
		}
	}
	b.handOn(b.header)
}

// handOn puts what the handler has changed of its header into the one below. The rest of that is not the handler's: code in front may write there while
// the handler runs, as one does that keeps a session in a cookie.
func (b *Buffer) handOn(header http.Header) {
	below := b.below.Header()
	for name := range b.before {
		if _, there := header[name]; !there {
			delete(below, name)
		}
	}
	for name, values := range header {
		was, there := b.before[name]
		switch {
		case there && slices.Equal(was, values), slices.Equal(below[name], values):
		case name == "Set-Cookie" && len(was) <= len(values) && slices.Equal(was, values[:len(was)]):
			below[name] = append(below[name], values[len(was):]...)
		default:
			below[name] = values
		}
	}
}
