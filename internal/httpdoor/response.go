package httpdoor

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// sniffed is how much of a body net/http looks at to find its Content-Type.
const sniffed = 512

// A Response is a handler's writer that remembers whether anything was
// written, which net/http does not tell, and tells the visit, which must know
// before the answer is sent. It changes nothing else: what the writer below can
// do, it can do too.
type Response struct {
	http.ResponseWriter
	visit   *Visit // nil: there is no handler under a lock
	written bool
	sent    bool // by Flush or Hijack, or past the Response
	status  int  // that WriteHeader was called with; 0: it was not
}

// Watch returns a Response over w. v is nil where there is no handler under a
// lock.
func Watch(w http.ResponseWriter, v *Visit) *Response {
	return &Response{ResponseWriter: w, visit: v}
}

// Written reports whether anything was written.
func (w *Response) Written() bool { return w.written }

// Sent reports whether an answer has begun by Flush or Hijack, which are no calls of
// WriteHeader or Write, or past the Response.
func (w *Response) Sent() bool { return w.sent }

// Status returns the status of the answer, if the handler has set one, and 0 otherwise.
func (w *Response) Status() int { return w.status }

// Alike returns the response with those of the methods Flush and Hijack that the
// writer below has, because handlers look whether they are there. Push, FlushError
// and EnableFullDuplex are always there: where the writer below lacks one it returns
// http.ErrNotSupported.
func (w *Response) Alike() http.ResponseWriter {
	_, flushes := w.ResponseWriter.(http.Flusher)
	_, hijacks := w.ResponseWriter.(http.Hijacker)
	switch {
	case flushes && hijacks:
		return flushHijacker{w}
	case flushes:
		return flusher{w}
	case hijacks:
		return hijacker{w}
	}
	return w
}

// Unwrap is for http.ResponseController, which finds the methods here that a Response
// does not have, such as SetReadDeadline.
func (w *Response) Unwrap() http.ResponseWriter { return lower{w.ResponseWriter, w} }

// A lower is what is found below a Response, by an http.ResponseController or by a handler that
// unwraps it. What is done there goes past the Response, which is told of it: an answer is an
// answer. If the writer below has no Hijack, but wraps one that has, then Alike has none either,
// and a controller looks for it further down; so lower has one.
type lower struct {
	http.ResponseWriter
	response *Response
}

// Beneath puts a lower into the place of a writer below, whose address it gets. It is for
// frameworks that show handlers a writer of theirs, which is neither the Response nor what that
// unwraps to at once. Where there is none the address is nil.
func (w *Response) Beneath(writer *http.ResponseWriter) {
	if writer != nil {
		*writer = lower{*writer, w}
	}
}

// NotBeneath undoes Beneath.
func (w *Response) NotBeneath(writer *http.ResponseWriter) {
	if writer == nil {
		return
	}
	if ours, is := (*writer).(lower); is && ours.response == w {
		*writer = ours.ResponseWriter
	}
}

// Unwrap returns the writer below.
func (w lower) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w lower) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.response.hijack(w.ResponseWriter)
}

// WriteHeader writes the header past the Response.
func (w lower) WriteHeader(status int) {
	w.response.note(status)
	w.response.sent = w.response.written
	w.ResponseWriter.WriteHeader(status)
}

// Write writes past the Response.
func (w lower) Write(p []byte) (int, error) {
	w.response.written, w.response.sent = true, true
	return w.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController looks for first.
func (w lower) FlushError() error { return w.response.flush(w.ResponseWriter) }

// WriteHeader writes the header. 1xx responses are no answer yet.
func (w *Response) WriteHeader(status int) {
	w.note(status)
	w.ResponseWriter.WriteHeader(status)
}

// note remembers the status of an answer, which is the first.
func (w *Response) note(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		if !w.written {
			w.status = status
		}
		w.written = true
	}
}

// Write writes to the writer below.
func (w *Response) Write(p []byte) (int, error) {
	w.written = true
	if err := w.answers(len(p)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// WriteString writes as Write does.
func (w *Response) WriteString(s string) (int, error) {
	w.written = true
	if err := w.answers(len(s)); err != nil {
		return 0, err
	}
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom lets the writer below use sendfile. It writes the beginning by itself,
// as net/http does too: so if src is empty nothing counts as written.
func (w *Response) ReadFrom(src io.Reader) (int64, error) {
	var n int64
	if !w.written {
		var err error
		if n, err = io.CopyN(struct{ io.Writer }{w}, src, sniffed); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
	}
	if err := w.answers(flushed); err != nil {
		return n, err
	}
	rest, err := io.Copy(w.ResponseWriter, src)
	return n + rest, err
}

// Push pushes if the writer below can.
func (w *Response) Push(target string, opts *http.PushOptions) error {
	if pusher, ok := w.ResponseWriter.(http.Pusher); ok {
		return pusher.Push(target, opts)
	}
	return http.ErrNotSupported
}

// FlushError is what http.ResponseController looks for first.
func (w *Response) FlushError() error {
	if err := w.answers(flushed); err != nil {
		return err
	}
	return w.flush(w.ResponseWriter)
}

// flush flushes a writer below.
func (w *Response) flush(below http.ResponseWriter) error {
	err := http.NewResponseController(below).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		w.written, w.sent = true, true
	}
	return err
}

type (
	flusher       struct{ *Response }
	hijacker      struct{ *Response }
	flushHijacker struct{ *Response }
)

func (w flusher) Flush()       { _ = w.FlushError() }
func (w flushHijacker) Flush() { _ = w.FlushError() }

func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.hijack(w.ResponseWriter)
}

func (w flushHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.hijack(w.ResponseWriter)
}

// hijack hijacks the connection of a writer below.
func (w *Response) hijack(below http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	if w.written { // then net/http sends it first
		if err := w.answers(flushed); err != nil {
			return nil, nil, err
		}
	}
	conn, buffered, err := http.NewResponseController(below).Hijack()
	if err == nil {
		w.written, w.sent = true, true
		w.duplex()
	}
	return conn, buffered, err
}

// EnableFullDuplex is for http.ResponseController.
func (w *Response) EnableFullDuplex() error {
	err := http.NewResponseController(w.ResponseWriter).EnableFullDuplex()
	if err == nil {
		w.duplex()
	}
	return err
}

func (w *Response) duplex() {
	if w.visit != nil {
		w.visit.Duplex()
	}
}

func (w *Response) answers(n int) error {
	if w.visit == nil {
		return nil
	}
	return w.visit.Answers(n)
}
