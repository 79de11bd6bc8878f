package httpdoor

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// A body is what was read of a request's body before the handler runs.
type body struct {
	state  bodyState
	bytes  []byte
	err    error    // of failed
	parsed bool     // bytes is JSON as field wants it
	form   []string // the names in bytes, if they were read as a form; else nil

	formRead *http.Request // with bytes parsed as a form; nil: not yet
	formErr  error         // of that
}

type bodyState uint8

const (
	unread bodyState = iota
	whole            // bytes is all of it
	tooLong
	failed // after bytes, with err
)

const (
	firstRead  = 4 << 10 // of a body that is long, or of unknown length
	readGrowth = 5       // large, so that little garbage is made
)

// read reads up to limit bytes and puts a body in r's place that gives the
// same: all bytes from the beginning, then what was left or the error. It does
// so once.
func (b *body) read(r *http.Request, limit int64) {
	if b.state != unread {
		return
	}
	if r.Body == nil || r.Body == http.NoBody {
		b.state = whole
		return
	}
	buf, err := readUpTo(r.Body, r.ContentLength, limit+1)
	b.bytes = buf
	again := &replay{bytes: buf, below: r.Body}
	switch {
	case int64(len(buf)) > limit:
		b.state = tooLong
		again.rest = r.Body
	case errors.Is(err, io.EOF):
		b.state = whole
	default:
		b.state, b.err = failed, err
		again.rest = failing{err}
	}
	r.Body = again
}

// readUpTo reads max bytes, or what comes before an error. length is what the
// client says it sends, -1 for unknown. To say so costs the client nothing:
// memory for more than a little is taken when there are bytes for a part of it.
func readUpTo(r io.Reader, length, max int64) (buf []byte, err error) {
	size := int64(firstRead)
	if 0 <= length && length < size {
		size = length + 1 // one more, to see the end
	}
	for size = min(size, max); err == nil && int64(len(buf)) < max; size = min(size, max) {
		grown := make([]byte, len(buf), size)
		copy(grown, buf)
		buf = grown
		for err == nil && int64(len(buf)) < size {
			var n int
			n, err = r.Read(buf[len(buf):size])
			buf = buf[:len(buf)+n]
		}
		if size <= length && length < readGrowth*size {
			size = length + 1
		} else {
			size *= readGrowth
		}
	}
	return buf, err
}

// readAhead reads a body that the key does not need. One that is known to be
// longer than the limit is left alone: reading its beginning gains nothing.
func (b *body) readAhead(r *http.Request, limit int64) {
	if r.ContentLength <= limit {
		b.read(r, limit)
	}
}

// use takes bytes for the body.
func (b *body) use(bytes []byte, limit int64) {
	b.state, b.bytes = whole, bytes
	if int64(len(bytes)) > limit {
		b.state = tooLong
	}
}

// remains reports whether there is more of r's body to come from the client.
func (b *body) remains(r *http.Request) bool {
	switch b.state {
	case unread:
		return r.Body != nil && r.Body != http.NoBody
	case tooLong:
		return true
	case whole, failed:
	}
	return false
}

// load reads the body. The error is its own, or an *http.MaxBytesError if it is
// over the limit.
func (b *body) load(r *http.Request, limit int64) error {
	if b.state == unread && r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit} // not a byte of it is needed
	}
	b.read(r, limit)
	switch b.state {
	case tooLong:
		return &http.MaxBytesError{Limit: limit}
	case failed:
		return b.err
	default:
		return nil
	}
}

// field returns the field at path of a JSON body. No body has no fields.
func (b *body) field(r *http.Request, limit int64, path string) (string, bool, error) {
	if err := b.parse(r, limit); err != nil || !b.parsed {
		return "", false, err
	}
	return field(b.bytes, path)
}

// elements returns the elements of the array at path of a JSON body.
func (b *body) elements(r *http.Request, limit int64, path string, max int) ([][]byte, bool, error) {
	if err := b.parse(r, limit); err != nil || !b.parsed {
		return nil, false, err
	}
	return elements(b.bytes, path, max)
}

// parse makes sure that a body, if there is one, is JSON.
func (b *body) parse(r *http.Request, limit int64) error {
	if err := b.load(r, limit); err != nil || len(b.bytes) == 0 || b.parsed {
		return err
	}
	if !saysJSON(r.Header) {
		return errType
	}
	if err := checkJSON(b.bytes); err != nil {
		return err
	}
	b.parsed = true
	return nil
}

// A replay reads bytes, then rest.
type replay struct {
	bytes  []byte
	rest   io.Reader // nil: nothing
	below  io.Closer
	closed atomic.Bool // others than the reader may close it
}

// Close closes the body below.
func (p *replay) Close() error {
	p.closed.Store(true)
	return p.below.Close()
}

func (p *replay) Read(b []byte) (int, error) {
	if p.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(p.bytes) > 0 {
		n := copy(b, p.bytes)
		p.bytes = p.bytes[n:]
		return n, nil
	}
	if p.rest == nil {
		return 0, io.EOF
	}
	return p.rest.Read(b)
}

// failing gives a body's error again.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
