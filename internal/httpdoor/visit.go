package httpdoor

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Visit is one request's way through a door: Enter, the handler, Leave. It
// is also the part of a keyfunc.Request that is the same in every framework,
// and doors embed it in theirs. It belongs to the request's goroutine.
type Visit struct {
	door    *Door
	outer   *http.Request // as it came
	inner   *http.Request // the handler's
	w       http.ResponseWriter
	clean   http.Header // of w as it was before the handler; nil: empty
	rest    *upload     // of the body; nil: all of it was read
	view    keyfunc.Request
	refused error // why no key may be made of the request, or nil
	lease   *lockmw.Lease
	done    bool // the handler's work has not failed, see Returned
	left    bool
	lost    error // Leave's answer, once left
	body    body
	known   facts                  // of values in the body and in the query
	own     func() ([]byte, error) // the program's fingerprint of the request; nil: see there
}

// Visit begins the visit of r.
func (d *Door) Visit(r *http.Request) Visit { return Visit{door: d, outer: r} }

// Enter derives the key and takes the lock. view is the keyfunc.Request that
// v is embedded in, w the response's writer as the door got it. If locked is true, the handler must run with Inner and
// Leave be called; if it is false without an error, the key function asks for
// no lock and the request goes on as it came.
//
// The error is a *lockmw.AcquireError. If no key can be derived, it Is
// lockmw.ErrInvalidKey and wraps the reason, and Redis was not asked.
//
// A body is read before the lock is taken, up to the limit, so that a slow
// client does not hold one meanwhile; the handler reads it again from the
// beginning.
func (v *Visit) Enter(view keyfunc.Request, w http.ResponseWriter) (locked bool, err error) {
	policy := v.door.policy(v.outer.Method)
	keys, err := v.routedKeys(view)
	if err == nil {
		v.body.readAhead(v.outer, v.door.bodyLimit)
	}
	v.lease, err = door.Acquire(v.outer.Context(), v.door.locker, keys, err, *policy)
	if v.lease == nil {
		return false, err
	}
	v.inner = v.outer.WithContext(v.lease.Context())
	v.w = w
	if h := w.Header(); len(h) > 0 {
		v.clean = h.Clone()
	}
	if v.body.remains(v.outer) {
		v.rest = newUpload(v.outer, v.inner, w, v.door.bodyTimeout)
		v.inner.Body = v.rest
	}
	return true, nil
}

// Routed is a view of a framework that runs middleware for requests, too, that no
// route is there for.
type Routed interface {
	// Unrouted is asked about a request of which no key can be made, because of
	// err. It returns keyfunc.Skip if nothing but an answer such as 404 follows,
	// for which nobody needs a lock, and otherwise err, perhaps with more to it.
	Unrouted(err error) error
}

// routedKeys is keys for requests that a route is there for.
func (v *Visit) routedKeys(view keyfunc.Request) (keyfunc.Keys, error) {
	keys, err := v.keys(view)
	if r, ok := view.(Routed); ok && err != nil && !errors.Is(err, keyfunc.Skip) {
		err = r.Unrouted(err)
	}
	return keys, err
}

// keys derives the keys, and refuses what Refuse was told to.
func (v *Visit) keys(view keyfunc.Request) (keyfunc.Keys, error) {
	v.view = view
	keys, err := keyfunc.KeysOf(v.door.key, view)
	if v.refused != nil && !errors.Is(err, keyfunc.Skip) {
		return keyfunc.Keys{}, v.refused
	}
	return keys, err
}

// Refuse has Enter refuse the request with err, whatever key the key function
// makes, unless that skips it. The first error counts. It is for those methods
// of a view that return no error.
func (v *Visit) Refuse(err error) {
	if v.refused == nil {
		v.refused = err
	}
}

// Misused has observers and the log told of a mistake of the program that shows when the handler has
// run already.
func (v *Visit) Misused(err error) {
	_ = door.NoKey(v.outer.Context(), v.door.locker, *v.door.policy(v.outer.Method), err) // the answer is the handler's
}

// Inner returns the handler's request, whose context is the lease's.
func (v *Visit) Inner() *http.Request { return v.inner }

// Outer returns the request as it came.
func (v *Visit) Outer() *http.Request { return v.outer }

// Returned notes that the handler has returned, and with which status it has answered; 0
// if it has left that to the server. One that answers with 400 or more has failed, and so has
// one for which a door does not call Returned, because it panics or returns an error: see
// lockmw.Policy.MinHoldOnError.
func (v *Visit) Returned(status int) { v.done = status < http.StatusBadRequest }

// Leave releases the lock. The error is nil, or Is lockmw.ErrLost: the handler
// may have worked without the lock. A release that Redis does not answer, or refuses, is no
// error: the work was done under the lock, and the Locker has logged it. Calling
// Leave again changes nothing and returns the same.
func (v *Visit) Leave() error {
	if v.left {
		return v.lost
	}
	v.left = true
	if !v.done {
		v.lease.MarkFailed()
	}
	v.handOnForm()
	if v.rest == nil {
		v.lost = door.Release(v.outer.Context(), v.lease)
		return v.lost
	}
	v.rest.leave()
	v.lost = door.Release(v.outer.Context(), v.lease)
	v.rest.closeBelow()
	return v.lost
}

// handOnForm has the server remove the files of a form that the handler has parsed.
func (v *Visit) handOnForm() {
	if v.outer.MultipartForm == nil && v.inner != nil {
		v.outer.MultipartForm = v.inner.MultipartForm
	}
}

// Uploads reports whether the handler reads the body from the client. Only then Answers, Flushes
// and Duplex do something.
func (v *Visit) Uploads() bool { return v.rest != nil }

// Answers is called before n bytes of the answer are written. The error is for
// the handler: nothing must be written, because net/http would first wait for
// the client, which sends nothing.
func (v *Visit) Answers(n int) error {
	if v.rest == nil {
		return nil
	}
	return v.rest.answers(n)
}

// Flushes is called before what was written of the answer is sent, like
// Answers.
func (v *Visit) Flushes() error { return v.Answers(flushed) }

// Duplex is called when the handler has hijacked the connection, or the server
// has agreed that it reads the body after it has answered.
func (v *Visit) Duplex() {
	if v.rest != nil {
		v.rest.duplex()
	}
}

// TakeBack has the response's header be as it was before the handler: what the
// handler has set belongs to an answer that is not given, and what outer
// middleware has set belongs to any. Nothing must have been written. It is
// called where the lock was lost: the refusal that follows does not say
// whether the work was done, and an Idempotent around the lock is told so.
func (v *Visit) TakeBack() {
	door.Doubt(v.outer.Context())
	h := v.w.Header()
	clear(h)
	maps.Copy(h, v.clean)
}

// HoldsResponse reports whether the response is to be held back until Leave.
func (v *Visit) HoldsResponse() bool { return v.door.buffer > 0 }

// Hold returns a writer that holds back what is written to w.
func (v *Visit) Hold(w http.ResponseWriter) *Buffer { return newBuffer(w, v.door.buffer) }

// Context returns the request's context.
func (v *Visit) Context() context.Context { return v.outer.Context() }

// Method returns the request's method.
func (v *Visit) Method() string { return v.outer.Method }

// Header returns the header called name, in any case. Of two lines that are not the same
// some handlers take the first and some the last, so Enter refuses the request.
func (v *Visit) Header(name string) (string, bool) {
	name = http.CanonicalHeaderKey(name)
	if name == "Host" { // the server takes it out of the headers
		return v.outer.Host, v.outer.Host != ""
	}
	lines := v.outer.Header[name]
	if len(lines) == 0 {
		return "", false
	}
	for _, other := range lines[1:] {
		if other != lines[0] {
			v.Refuse(door.Unread("header", name, door.ErrTwice))
		}
	}
	return lines[0], true
}

// Body returns the field at path of the JSON body, see field. The error is an
// *http.MaxBytesError if the body is over the limit. A body that is not said to
// be JSON is an error, and so is a name that is in the query, whether or not
// the body has it, or that is missing in the body and a parameter of the route.
func (v *Visit) Body(path string) (string, bool, error) {
	if known := v.known.find("body", path); known != nil {
		return known.text, known.ok, known.err
	}
	text, ok, err := v.body.field(v.outer, v.door.bodyLimit, path)
	if err == nil {
		err = v.checkPlaces(path, ok)
	}
	if err != nil {
		text, ok = "", false
	}
	v.known.add(fact{"body", path, text, ok, err})
	return text, ok, err
}

// checkPlaces returns an error if the name of a body's field is somewhere else, as
// Body says. ok tells whether it is in the body.
func (v *Visit) checkPlaces(path string, ok bool) error {
	if isLongQuery(v.outer.URL.RawQuery) {
		return errLongQuery
	}
	if queryHasField(v.outer.URL.RawQuery, path, ok) {
		return errInQuery
	}
	if !ok { // only then is the path of interest; a view may refuse what it is asked for
		if _, inPath := v.view.Param(leafOf(path)); inPath {
			return errInPath
		}
	}
	return nil
}

// HasBody reports whether the request has a body. It reads it up to the limit.
// A body that cannot be read counts.
func (v *Visit) HasBody() bool {
	return v.body.load(v.outer, v.door.bodyLimit) != nil || len(v.body.bytes) > 0
}

// UseBody has Body look in bytes, which earlier middleware has read.
func (v *Visit) UseBody(bytes []byte) {
	if len(bytes) > 0 && len(bytes) == len(v.body.bytes) && &bytes[0] == &v.body.bytes[0] {
		return // what was found in it is known
	}
	v.known = facts{}
	v.body.use(bytes, v.door.bodyLimit)
}

// KeyBody returns the body that Body has read and looked in, if it did.
func (v *Visit) KeyBody() ([]byte, bool) { return v.body.bytes, v.body.parsed }
