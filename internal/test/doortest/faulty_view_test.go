package doortest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/lockmw/kit/internal/httpdoor"
)

// A brokenView is what key functions see.
type brokenView struct {
	httpdoor.Visit
	fault  string
	values map[string]any
}

func (v *brokenView) Value(name string) (any, bool) {
	value, ok := v.values[name]
	return value, ok
}

func (v *brokenView) Route() string {
	if v.fault == "does not know its route" {
		return ""
	}
	if v.fault == "has one key for all routes" {
		return "/"
	}
	return v.Outer().Pattern
}

func (v *brokenView) Param(name string) (string, bool) {
	if v.fault == "takes parameters as they are written" {
		path := v.Outer().URL.EscapedPath()
		return path[strings.LastIndexByte(path, '/')+1:], true
	}
	return v.RouteParam(name, v.Outer().PathValue(name), false)
}

func (v *brokenView) Query(name string) (string, bool) {
	if v.fault != "looks for a name in one place" && v.fault != "takes the last of several" {
		v.CheckQuery(name)
	}
	return v.pick(v.Outer().URL.Query()[name])
}

func (v *brokenView) Header(name string) (string, bool) {
	if v.fault != "takes the last of several" {
		return v.Visit.Header(name)
	}
	return v.pick(v.Outer().Header.Values(name))
}

func (v *brokenView) pick(values []string) (string, bool) {
	if len(values) == 0 {
		return "", false
	}
	if v.fault == "takes the last of several" {
		return values[len(values)-1], true
	}
	return values[0], true
}

func (v *brokenView) Body(path string) (string, bool, error) {
	r := v.Outer()
	switch v.fault {
	case "takes JSON as it is written":
		var fields map[string]json.RawMessage
		err := json.NewDecoder(r.Body).Decode(&fields)
		return string(fields[path]), true, err
	case "knows JSON without parameters only":
		if r.Header.Get("Content-Type") != "application/json" {
			return "", false, errors.New("no JSON")
		}
	case "takes every body for JSON":
		r.Header.Set("Content-Type", "application/json")
	case "looks for a name in one place":
		r.URL.RawQuery = ""
	}
	return v.Visit.Body(path)
}

// A trustingWriter refuses nothing.
type trustingWriter struct{ *httpdoor.Buffer }

func (w trustingWriter) WriteHeader(status int) {
	if status >= 100 {
		w.Buffer.WriteHeader(status)
	}
}

func (w trustingWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w trustingWriter) Write(p []byte) (int, error) {
	_, _ = w.Buffer.Write(p)
	return len(p), nil
}

// A headlessWriter forgets every header.
type headlessWriter struct{ *httpdoor.Buffer }

func (headlessWriter) Header() http.Header { return make(http.Header) }

// A forgetfulBody ends where the answer begins.
type forgetfulBody struct {
	io.ReadCloser
	answer *watchedWriter
}

func (b *forgetfulBody) Read(p []byte) (int, error) {
	if b.answer.written {
		return 0, io.EOF
	}
	return b.ReadCloser.Read(p)
}

// A hastyWriter takes every copy for an answer.
type hastyWriter struct{ *watchedWriter }

func (w hastyWriter) ReadFrom(src io.Reader) (int64, error) {
	w.written = true
	return io.Copy(struct{ io.Writer }{w.ResponseWriter}, src)
}

// A watchedWriter notes whether anything was written.
type watchedWriter struct {
	http.ResponseWriter
	visit   *httpdoor.Visit // nil: none
	written bool
	status  int
	blind   bool // it does not notice what is written past it
}

func (w *watchedWriter) Flush() {
	w.written = true
	if w.visit != nil && w.visit.Flushes() != nil {
		return
	}
	w.ResponseWriter.(http.Flusher).Flush()
}

func (w *watchedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.written = true
	if w.visit != nil {
		w.visit.Duplex()
	}
	return w.ResponseWriter.(http.Hijacker).Hijack()
}

func (w *watchedWriter) Unwrap() http.ResponseWriter {
	if w.blind {
		return w.ResponseWriter
	}
	return lowerWriter{w.ResponseWriter, w}
}

// A lowerWriter is the writer below a watchedWriter, which it tells of what is done there.
type lowerWriter struct {
	http.ResponseWriter
	above *watchedWriter
}

func (w lowerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w lowerWriter) WriteHeader(status int) { w.above.WriteHeader(status) }

func (w lowerWriter) Write(p []byte) (int, error) { return w.above.Write(p) }

func (w lowerWriter) Flush() { w.above.Flush() }

func (w *watchedWriter) WriteHeader(status int) {
	w.written = true
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	w.written = true
	if w.visit != nil {
		if err := w.visit.Answers(len(p)); err != nil {
			return 0, err
		}
	}
	return w.ResponseWriter.Write(p)
}
