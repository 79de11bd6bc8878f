package ginlock

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/lockmw/kit/internal/httpdoor"
)

const (
	defaultStatus = http.StatusOK // of a Gin response before anybody sets one
	noSize        = -1            // of a Gin response before anything is written
)

// A heldResponse is the writer of handlers whose response is held back. Like
// Gin's own it keeps a status without writing it.
type heldResponse struct {
	gin.ResponseWriter // the one below; it gives CloseNotify
	held               *httpdoor.Buffer
	status             int
}

// Unwrap is for http.ResponseController: the deadlines of the connection.
func (w *heldResponse) Unwrap() http.ResponseWriter { return w.held }

func (w *heldResponse) Header() http.Header { return w.held.Header() }

func (w *heldResponse) WriteHeader(status int) {
	if status > 0 && !w.Written() {
		w.status = status
	}
}

func (w *heldResponse) WriteHeaderNow() { w.held.WriteHeader(w.status) }

func (w *heldResponse) Write(p []byte) (int, error) {
	w.WriteHeaderNow()
	return w.held.Write(p)
}

func (w *heldResponse) WriteString(s string) (int, error) {
	w.WriteHeaderNow()
	return w.held.WriteString(s)
}

func (w *heldResponse) Status() int { return w.status }

func (w *heldResponse) Written() bool { return w.held.Written() }

// answer is that of a response.
func (w *heldResponse) answer() (written bool, status int) { return w.Written(), w.Status() }

func (w *heldResponse) Size() int {
	if !w.Written() {
		return noSize
	}
	return w.held.Size()
}

func (w *heldResponse) Flush() {
	w.WriteHeaderNow()
	w.held.Flush()
}

func (w *heldResponse) Pusher() http.Pusher { return nil }

func (w *heldResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, http.ErrNotSupported
}

// send sends what was held back. A status that was set and not written stays
// so.
func (w *heldResponse) send() {
	w.ResponseWriter.WriteHeader(w.status)
	w.held.Send()
}

// A response is the writer of handlers that do not have their answer held back. It tells the
// visit before the answer is sent, and finds out whether there is one. What the handlers write
// to Gin's writer Gin knows; past knows what they write to the one below that.
type response struct {
	gin.ResponseWriter // the one below
	visit              *httpdoor.Visit
	past               httpdoor.Response
}

// watch has what runs next write to v.response, on top of c.Writer, which it returns.
func (v *view) watch() (below gin.ResponseWriter) {
	below = v.c.Writer
	v.response = response{ResponseWriter: below, visit: &v.Visit}
	if gins, ok := below.(interface{ Unwrap() http.ResponseWriter }); ok {
		v.response.past = *httpdoor.Watch(gins.Unwrap(), &v.Visit)
	}
	v.c.Writer = &v.response
	return below
}

// Unwrap returns what the writer below unwraps to: the one below Gin's, which without a lock
// handlers reach by one Unwrap, too. If there is none it returns the writer below.
func (w *response) Unwrap() http.ResponseWriter {
	if w.past.ResponseWriter == nil {
		return w.ResponseWriter
	}
	return w.past.Alike()
}

// answer reports whether the handlers have written an answer, and returns the status that they
// have set, which is 0 if they have left that to the server.
func (w *response) answer() (written bool, status int) {
	if w.past.Written() && !w.Written() {
		return true, w.past.Status()
	}
	return w.Written(), w.Status()
}

func (w *response) Write(p []byte) (int, error) {
	if err := w.visit.Answers(len(p)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

func (w *response) WriteString(s string) (int, error) {
	if err := w.visit.Answers(len(s)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.WriteString(s)
}

func (w *response) Flush() {
	if w.visit.Flushes() == nil {
		w.ResponseWriter.Flush()
	}
}

func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.Written() { // then net/http sends it first
		if err := w.visit.Flushes(); err != nil {
			return nil, nil, err
		}
	}
	conn, buffered, err := w.ResponseWriter.Hijack()
	if err == nil {
		w.visit.Duplex()
	}
	return conn, buffered, err
}

// EnableFullDuplex is for http.ResponseController.
func (w *response) EnableFullDuplex() error {
	err := http.NewResponseController(w.ResponseWriter).EnableFullDuplex()
	if err == nil {
		w.visit.Duplex()
	}
	return err
}
