package httplock

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
)

// sniffed is how much of a body net/http looks at to find its Content-Type.
const sniffed = 512

// A response is a handler's writer that remembers whether anything was
// written, which net/http does not tell. It changes nothing else: what the
// writer below can do, it can do too.
type response struct {
	http.ResponseWriter
	written bool
}

// alike returns the response with the optional methods that handlers look for
// and that the writer below has. Those that may fail are always there: they
// fail as they would have been missing.
func (w *response) alike() http.ResponseWriter {
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

// Unwrap is for http.ResponseController: deadlines, and what else is to come.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.written = true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	w.written = true
	return w.ResponseWriter.Write(p)
}

func (w *response) WriteString(s string) (int, error) {
	w.written = true
	return io.WriteString(w.ResponseWriter, s)
}

// ReadFrom keeps sendfile. The beginning is written first, as net/http does it
// too: if there is none, nothing is written, and the answer is still open.
func (w *response) ReadFrom(src io.Reader) (int64, error) {
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
	rest, err := io.Copy(w.ResponseWriter, src)
	return n + rest, err
}

func (w *response) Push(target string, opts *http.PushOptions) error {
	if pusher, ok := w.ResponseWriter.(http.Pusher); ok {
		return pusher.Push(target, opts)
	}
	return http.ErrNotSupported
}

// FlushError is what http.ResponseController looks for first.
func (w *response) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.written = w.written || !errors.Is(err, http.ErrNotSupported)
	return err
}

type (
	flusher       struct{ *response }
	hijacker      struct{ *response }
	flushHijacker struct{ *response }
)

func (w flusher) Flush()       { _ = w.FlushError() }
func (w flushHijacker) Flush() { _ = w.FlushError() }

func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error)      { return w.hijack() }
func (w flushHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }

func (w *response) hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.written = true
	return w.ResponseWriter.(http.Hijacker).Hijack()
}
