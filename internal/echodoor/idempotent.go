package echodoor

import (
	"net/http"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// An Idempotent is the middleware of one version of Echo by which a handler runs once for all requests with the same key. It is safe
// for concurrent use.
type Idempotent[C Context, R http.ResponseWriter] struct{ Door[C, R] }

// NewIdempotent returns the Idempotent of the door with that name. It panics where httpdoor.NewIdempotent does, and if an option is nil.
func NewIdempotent[C Context, R http.ResponseWriter](
	name string, version Version[C, R], l *lockmw.Locker, key keyfunc.Func, f lockmw.Flight, opts []Option[C],
) *Idempotent[C, R] {
	o := newOptions(name, httpdoor.Idempotent, opts)
	return &Idempotent[C, R]{Door[C, R]{options: o, version: version, common: httpdoor.NewIdempotent(l, key, f, o.config)}}
}

// Handle runs next, or answers with the response of another request that asked for the same. The error of next is returned although it
// is answered already, as by Echo's own RequestLogger with HandleError: for those who log it.
func (d *Idempotent[C, R]) Handle(c C, next func(C) error) error {
	if d.options.skip != nil && d.options.skip(c) {
		return next(c)
	}
	v := &view[C]{Visit: d.common.Visit(c.Request()), c: c, routing: d.version}
	httpdoor.FingerprintBy(&v.Visit, d.options.fingerprint, c)
	response := d.version.Response(c)
	var err error
	answered := false
	way, why := v.Once(v, response, func(held *httpdoor.Buffer) bool {
		answered, err = d.runHeld(c, response, v, held, next)
		return answered
	})
	switch {
	case v.answer != nil:
		return v.answer
	case way == httpdoor.Passed:
		return next(c)
	case why == nil && answered && !d.version.IsCommitted(response):
		return nil // whoever answers errors would answer once more
	case why == nil:
		return err
	case way == httpdoor.Answered:
		return door.WithLoss(err, why)
	}
	return d.refuse(c, door.WithLoss(err, why))
}

// runHeld runs the handler, which writes to held. Its error is answered there, so that the answer can be kept. It returns whether there is
// an answer, and the handler's error.
func (d *Idempotent[C, R]) runHeld(c C, response R, v *view[C], held *httpdoor.Buffer, next func(C) error) (answered bool, err error) {
	c.SetRequest(v.Inner())
	defer c.SetRequest(v.Outer())
	d.version.Hold(c, response, held)
	defer d.version.PutBack(c, response, d.version.Below(response))
	if err = next(c); err != nil {
		if !held.Written() {
			door.DoubtError(v.Inner().Context(), err)
		}
		d.version.Render(c, err)
	}
	return err == nil || held.Written(), err
}
