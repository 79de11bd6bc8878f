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

// A keptResponse is the writer of handlers whose response is kept. Their work goes on when the client leaves, so they are not told of that.
type keptResponse struct{ heldResponse }

// CloseNotify returns a channel on which nothing comes.
func (w *keptResponse) CloseNotify() <-chan bool { return nil }

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

// An uploadResponse is the writer of handlers that read the request's body from
// the client. It tells the visit before the answer is sent, and changes nothing.
type uploadResponse struct {
	gin.ResponseWriter
	v *view
}

// Unwrap is for http.ResponseController.
func (w *uploadResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *uploadResponse) Write(p []byte) (int, error) {
	if err := w.v.Answers(len(p)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

func (w *uploadResponse) WriteString(s string) (int, error) {
	if err := w.v.Answers(len(s)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.WriteString(s)
}

func (w *uploadResponse) Flush() {
	if w.v.Flushes() == nil {
		w.ResponseWriter.Flush()
	}
}

func (w *uploadResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.Written() { // then net/http sends it first
		if err := w.v.Flushes(); err != nil {
			return nil, nil, err
		}
	}
	conn, buffered, err := w.ResponseWriter.Hijack()
	if err == nil {
		w.v.Duplex()
	}
	return conn, buffered, err
}

// EnableFullDuplex is for http.ResponseController.
func (w *uploadResponse) EnableFullDuplex() error {
	err := http.NewResponseController(w.ResponseWriter).EnableFullDuplex()
	if err == nil {
		w.v.Duplex()
	}
	return err
}
