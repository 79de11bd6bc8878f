package echodoor

import (
	"errors"
	"net/http"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Door is the middleware of one version of Echo. It is safe for concurrent use.
type Door[C Context, R http.ResponseWriter] struct {
	options Options[C]
	version Version[C, R]
	common  *httpdoor.Door
}

// New returns the door with that name. It panics if l or key or an option is nil or p is
// invalid.
func New[C Context, R http.ResponseWriter](
	name string, version Version[C, R], l *lockmw.Locker, key keyfunc.Func, p lockmw.Policy, opts []Option[C],
) *Door[C, R] {
	o := newOptions(name, httpdoor.Middleware, opts)
	return &Door[C, R]{options: o, version: version, common: httpdoor.New(l, key, p, o.config)}
}

// Handle runs next under the lock, or has the request refused.
func (d *Door[C, R]) Handle(c C, next func(C) error) error {
	if d.options.skip != nil && d.options.skip(c) {
		return next(c)
	}
	v := &view[C]{Visit: d.common.Visit(c.Request()), c: c, routing: d.version}
	response := d.version.Response(c)
	locked, err := v.Enter(v, d.version.Below(response))
	switch {
	case err != nil:
		return d.refuse(c, err)
	case v.answer != nil:
		return v.answer
	case !locked:
		return next(c)
	}
	written, err, lost := d.run(c, response, v, next)
	switch {
	case lost == nil:
		return err
	case written:
		return door.WithLoss(err, lost)
	}
	v.TakeBack()
	return d.refuse(c, door.WithLoss(err, lost))
}

// run runs the handler and releases the lock, also when it panics. It returns whether
// the handler has written anything that cannot be taken back, the handler's error, and
// one that says that the lock was lost.
func (d *Door[C, R]) run(c C, response R, v *view[C], next func(C) error) (written bool, err, lost error) {
	defer v.Leave() //nolint:errcheck // it is for panics; otherwise its second call
	c.SetRequest(v.Inner())
	defer c.SetRequest(v.Outer())
	if !v.HoldsResponse() {
		watched := d.watch(c, response, &v.Visit)
		defer d.putBack(c, response, watched)
		if err = next(c); err == nil {
			v.Returned(watched.Status())
		}
		lost = v.Leave()
		return watched.Written(), err, lost
	}
	held := v.Hold(httpdoor.Watch(response, &v.Visit))
	d.version.Hold(c, response, held)
	defer d.version.PutBack(c, response, d.version.Below(response))
	if err = next(c); err == nil {
		v.Returned(held.Status())
	}
	if lost = v.Leave(); lost == nil || !held.Held() {
		held.Send()
	}
	return !held.Held(), err, lost
}

// watch has c's handler write to a writer that remembers it. v is nil where there is no
// handler under a lock.
func (d *Door[C, R]) watch(c C, response R, v *httpdoor.Visit) *httpdoor.Response {
	watched := httpdoor.Watch(d.version.Below(response), v)
	d.version.Watch(c, response, watched.Alike())
	watched.Beneath(d.version.Beneath(response)) //nolint:bodyclose // it is a writer
	return watched
}

// putBack undoes watch. What a handler has sent past Echo's own writer, which counts what goes
// through it, is an answer, too. Where the door's writer is below Echo's, that is whatever was written.
func (d *Door[C, R]) putBack(c C, response R, watched *httpdoor.Response) {
	d.version.PutBack(c, response, watched.ResponseWriter)
	beneath := d.version.Beneath(response) //nolint:bodyclose // it is a writer
	watched.NotBeneath(beneath)
	if watched.Sent() || watched.Written() && beneath == nil {
		d.version.Commit(response)
	}
}

// refuse returns the error of a request that did not get the lock, or lost it.
func (d *Door[C, R]) refuse(c C, err error) error {
	refusal := door.Refusal(err)
	response := d.version.Response(c)
	if door.ClientGone(refusal) {
		httpdoor.WriteProblem(response, c.Request(), refusal)
		return err // for those who log it: an answer is committed
	}
	if d.options.onError != nil {
		written, own := d.handleError(c, response, err)
		switch {
		case written:
			return own
		case door.HandsOn(own, err) && !d.version.Answers(own): // with the refusal's status: Echo would make 500 of it
			if errors.Is(own, err) {
				err = own
			}
		case own != nil:
			return own
		}
	}
	httpdoor.SetProblemHeader(response.Header(), c.Request(), refusal)
	return d.version.Refusal(refusal, door.Recorded(err))
}

// handleError calls the function of WithErrorHandler. It returns whether that has written
// an answer, and the error that it returns.
func (d *Door[C, R]) handleError(c C, response R, err error) (written bool, own error) {
	watched := d.watch(c, response, nil)
	defer d.putBack(c, response, watched)
	own = d.options.onError(c, err)
	return watched.Written(), own
}
