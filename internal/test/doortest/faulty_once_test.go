package doortest

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// The Idempotent of a faultyDoor.

// optionsOnce returns the configuration of an Idempotent.
func (h *brokenHandler) optionsOnce() httpdoor.Config {
	c := httpdoor.NewConfig("testdoor", httpdoor.Idempotent)
	h.apply(&c)
	if h.fault == "keeps every answer" {
		c.Keep(func(int, http.Header) bool { return true })
	}
	if h.fault == "runs without a key" {
		c.OptionalKey()
	}
	return c
}

func (h *brokenHandler) openOnce() {
	c, key, flight := h.optionsOnce(), h.Key, *h.Flight
	switch h.fault {
	case "knows no users":
		key = keyfunc.Header("Idempotency-Key")
		c.KeysOfEverybody()
	case "takes keys as they are written":
		key = keyfunc.MustParse("{header.X-User}:{header.Idempotency-Key}")
	case "keeps every size":
		flight.MaxAnswer = 1 << 20
	case "forgets what a crash means":
		flight.Crash = lockmw.RunAgain
	}
	h.common = httpdoor.NewIdempotent(h.Locks, key, flight, c)
}

// fingerprint is what tells requests apart, or nil.
func (h *brokenHandler) fingerprint() func(*http.Request) ([]byte, error) {
	switch h.fault {
	case "has one fingerprint for all":
		return func(*http.Request) ([]byte, error) { return nil, nil }
	case "takes bodies as they are sent":
		return func(r *http.Request) ([]byte, error) {
			var text bytes.Buffer
			_, err := io.Copy(&text, r.Body)
			return append(text.Bytes(), r.URL.String()...), err
		}
	}
	return h.Options.Fingerprint
}

func (h *brokenHandler) serveOnce(w http.ResponseWriter, r *http.Request) {
	visited := r
	switch h.fault {
	case "loses the request's context":
		visited = r.WithContext(context.Background())
	case "asks safe methods for a key":
		visited = r.WithContext(r.Context())
		visited.Method = http.MethodPost
	}
	v := &brokenView{Visit: h.common.Visit(visited), fault: h.fault, values: h.Values}
	httpdoor.FingerprintBy(&v.Visit, h.fingerprint(), visited)
	below := w
	if h.fault == "replays every header" {
		below = &lateHeader{ResponseWriter: w, header: make(http.Header)}
	}
	way, err := v.Once(v, below, func(held *httpdoor.Buffer) bool {
		h.runOnce(w, r, v.Inner(), held)
		return true
	})
	switch {
	case way == httpdoor.Passed:
		h.next(w, r)
	case way == httpdoor.Refused && h.fault == "tells the first client the bare error" && v.Inner() != nil:
		h.refuse(w, r, lockmw.ErrUncertain)
	case way == httpdoor.Refused && h.fault != "does not notice a loss":
		h.refuse(w, r, err)
	}
}

func (h *brokenHandler) runOnce(w http.ResponseWriter, r, inner *http.Request, held *httpdoor.Buffer) {
	var response http.ResponseWriter = held
	switch h.fault {
	case "ends the work with the client":
		inner = inner.WithContext(r.Context())
	case "loses the request's context":
		inner = inner.WithContext(context.Background())
	case "replays every header":
		maps.Copy(held.Header(), w.Header().Clone())
	case "holds nothing back":
		response = w
	case "swallows panics":
		defer func() { _ = recover() }()
	case "doubts whatever was told to stop":
		defer func() {
			if ctx := inner.Context(); door.IsStopped(ctx) {
				lockmw.MarkUncertain(ctx)
			}
		}()
	}
	h.next(response, inner)
}

// A lateHeader has nothing in its header of what is in that of the writer below, until it is written.
type lateHeader struct {
	http.ResponseWriter
	header http.Header
}

func (w *lateHeader) Header() http.Header { return w.header }

func (w *lateHeader) WriteHeader(status int) {
	maps.Copy(w.ResponseWriter.Header(), w.header)
	w.ResponseWriter.WriteHeader(status)
}
