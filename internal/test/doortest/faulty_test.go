package doortest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A faultyDoor is a net/http door with the fault of that name, or with none.
type faultyDoor struct {
	fault string
	redis *redistest.Mini // for faults that go behind the Locker's back
}

func (d faultyDoor) framework() Framework {
	return Framework{Door: "testdoor", Serve: d.serve, Key: d.key}
}

func (d faultyDoor) serve(routes ...Route) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		h := &brokenHandler{faultyDoor: d, Route: route}
		if route.Behind != nil {
			inner := *route.Behind
			inner.Handle = route.Handle
			h.behind = &brokenHandler{faultyDoor: d, Route: inner}
			h.behind.open()
		}
		h.open()
		mux.HandleFunc(route.Method+" "+route.Path, func(w http.ResponseWriter, r *http.Request) {
			maps.Copy(w.Header(), route.Header.Clone())
			h.ServeHTTP(w, r)
			if route.After != nil {
				route.After(r)
			}
		})
	}
	return mux
}

func (d faultyDoor) key(native func(*http.Request) (string, error)) keyfunc.Func {
	if native == nil {
		panic("testdoor: Key: the function is nil")
	}
	return func(r keyfunc.Request) (string, error) {
		v, ok := keyfunc.As[*brokenView](r)
		switch {
		case d.fault == "ignores native keys":
			return "any", nil
		case !ok:
			return door.NativeElsewhere("testdoor.Key", r)
		}
		if d.fault == "does not escape native keys" {
			return native(v.Outer())
		}
		return httpdoor.NativeKey(&v.Visit, "testdoor.Key", native, v.Outer())
	}
}

type brokenHandler struct {
	faultyDoor
	Route
	common *httpdoor.Door
	behind *brokenHandler // nil: the route's own handler
}

func (h *brokenHandler) open() {
	if h.fault == "checks nothing at the start" {
		defer func() { _ = recover() }()
	}
	if h.Flight != nil && h.fault == "takes Idempotent for a lock" {
		h.Policy, h.Flight = h.Flight.Policy, nil
	}
	if h.Flight != nil {
		h.openOnce()
		return
	}
	c := httpdoor.NewConfig("testdoor", httpdoor.Middleware)
	h.apply(&c)
	switch h.fault {
	case "does not wait":
		h.Policy.Wait, h.Policy.Retries, h.Policy.AsyncRelease = 0, 0, false
	case "enforces what is in shadow":
		h.Policy.Shadow = false
	case "awaits each release":
		h.Policy.AsyncRelease = false
	case "forgets the policy's name":
		h.Policy.Name = ""
	}
	key := h.Key
	switch h.fault {
	case "blames the client":
		key = func(r keyfunc.Request) (string, error) {
			key, err := h.Key(r)
			if errors.Is(err, keyfunc.ErrMisuse) {
				err = keyfunc.ErrMissing
			}
			return key, err
		}
	case "takes whatever is missing for empty":
		key = keyfunc.Join(keyfunc.Optional(h.Key), keyfunc.Const("x"))
	case "takes nothing for optional":
		key = func(r keyfunc.Request) (string, error) {
			key, err := h.Key(r)
			if strings.HasSuffix(key, ":") {
				err = keyfunc.ErrMissing
			}
			return key, err
		}
	case "takes one lock of several":
		key = func(r keyfunc.Request) (string, error) {
			keys, err := keyfunc.KeysOf(h.Key, r)
			return keys.List()[0], err
		}
	}
	h.common = httpdoor.New(h.Locks, key, h.Policy, c)
}

// apply applies the options of the route.
func (h *brokenHandler) apply(c *httpdoor.Config) {
	o := h.Options
	if o.Nil {
		httpdoor.Apply(*c, c, []func(*httpdoor.Config){nil})
	}
	c.Func("WithErrorHandler", o.NilErrorHandler)
	c.Func("WithSkipper", o.NilSkipper)
	switch {
	case !o.ReadWrite, h.fault == "makes no difference of methods":
	case h.fault == "shares with all methods":
		h.Policy.Mode = lockmw.Shared
	default:
		c.ReadWrite()
	}
	if o.Keep != nil || o.NilKeep {
		c.Keep(o.Keep)
	}
	if o.Fingerprint != nil || o.NilFingerprint {
		c.Fingerprint(o.Fingerprint == nil)
	}
	if o.OptionalKey {
		c.OptionalKey()
	}
	if o.KeysOfEverybody {
		c.KeysOfEverybody()
	}
	if o.BodyLimit != nil {
		c.LimitBody(*o.BodyLimit)
	}
	if h.fault == "has a high limit for bodies" {
		c.LimitBody(1 << 20)
	}
	if o.BodyTimeout != 0 {
		c.TimeBody(o.BodyTimeout)
	}
	if h.fault == "cuts uploads off" {
		c.TimeBody(bodyTimeout / 4)
	}
	if o.BufferedResponse != nil && h.fault != "does not hold responses back" {
		c.HoldResponse(*o.BufferedResponse)
	}
}

func (h *brokenHandler) next(w http.ResponseWriter, r *http.Request) {
	if h.behind != nil {
		h.behind.ServeHTTP(w, r)
		return
	}
	x := &Exchange{W: w, R: r, Param: r.PathValue, Query: r.URL.Query().Get}
	if err := h.Handle(x); err != nil {
		http.Error(w, "error", http.StatusInternalServerError)
	}
}

func (h *brokenHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if skip := h.Options.Skipper; h.fault == "does not lock" || skip != nil && skip(r) && h.fault != "locks what is to be skipped" {
		h.next(w, r)
		return
	}
	if h.Flight != nil {
		h.serveOnce(w, r)
		return
	}
	if h.asksForItself(w, r) {
		return
	}
	defer h.before(r)()
	visited := r
	if h.fault == "loses the request's context" {
		visited = r.WithContext(context.Background())
		visited.SetPathValue("id", r.PathValue("id"))
	}
	v := &brokenView{Visit: h.common.Visit(visited), fault: h.fault, values: h.Values}
	locked, err := v.Enter(v, w)
	switch {
	case err != nil:
		h.refuse(w, r, err)
	case !locked:
		h.next(w, r)
	default:
		h.run(w, r, v)
	}
}

// before does what should not be done before the key is known, and returns
// what is to be done at the end.
func (h *brokenHandler) before(r *http.Request) func() {
	switch h.fault {
	case "eats the body":
		_, _ = io.Copy(io.Discard, r.Body)
	case "locks before it reads":
		if _, lease, err := h.Locks.Acquire(r.Context(), "early", lockmw.Policy{Wait: testenv.Patience}); err == nil {
			return func() { _ = lease.Release(r.Context()) }
		}
	case "removes other data":
		h.redis.FlushAll()
	}
	return func() {}
}

func (h *brokenHandler) run(w http.ResponseWriter, r *http.Request, v *brokenView) {
	leave := v.Leave
	switch h.fault {
	case "never releases":
		leave = func() error { return nil }
	case "releases late", "releases beside the answer":
		late := 200 * time.Millisecond // later than a busy machine looks at the lock
		if h.fault == "releases beside the answer" {
			late = 0
		}
		leave = func() error {
			lease, _ := lockmw.FromContext(v.Inner().Context())
			time.AfterFunc(late, func() { _ = lease.Release(context.Background()) })
			return nil
		}
	}
	switch h.fault {
	case "releases on return only":
	case "swallows panics":
		defer func() { _ = leave(); _ = recover() }()
	default:
		defer leave() // for panics
	}
	inner := v.Inner()
	switch h.fault {
	case "keeps the request's own context":
		inner = v.Outer()
	case "changes the request for good":
		*r = *inner
	case "forgets uploads":
		inner = inner.WithContext(inner.Context())
	case "loses trailers":
		inner = inner.WithContext(inner.Context())
		inner.Trailer = nil
	case "waits for bodies":
		inner.Body = v.Outer().Body
	case "asks for every body":
		_, _ = inner.Body.Read(make([]byte, 1))
	case "leaves bodies open":
		inner.Body = io.NopCloser(inner.Body)
	case "disturbs the connection":
		defer disturb(w)()
	}
	watched := &watchedWriter{ResponseWriter: w, visit: &v.Visit, blind: h.fault == "does not look past its writer"}
	switch h.fault {
	case "waits for bodies before it answers":
		watched.visit = nil
	case "drops what it has read for an answer":
		inner.Body = &forgetfulBody{inner.Body, watched}
	}
	if v.HoldsResponse() {
		h.runHeld(watched, r, v, inner)
		return
	}
	switch h.fault {
	case "hides the writer":
		h.next(struct{ http.ResponseWriter }{watched}, inner)
	case "takes an empty copy for an answer":
		h.next(hastyWriter{watched}, inner)
	default:
		h.next(watched, inner)
	}
	h.returned(v, watched.status)
	err := leave()
	switch {
	case err != nil && h.fault == "takes the other holder's key away":
		h.redis.FlushAll()
		h.lost(w, r, v, err)
	case err == nil, h.fault == "does not notice a loss":
	case !watched.written, h.fault == "always answers a loss":
		h.lost(w, r, v, err)
	}
}

// returned says how the handler has ended.
func (h *brokenHandler) returned(v *brokenView, status int) {
	switch h.fault {
	case "takes failed work for done":
		v.Returned(http.StatusOK)
	case "takes all work for failed":
	case "takes work for failed whose client has left":
		if v.Outer().Context().Err() == nil {
			v.Returned(status)
		}
	default:
		v.Returned(status)
	}
}

func (h *brokenHandler) runHeld(w *watchedWriter, r *http.Request, v *brokenView, inner *http.Request) {
	held := v.Hold(w)
	switch h.fault {
	case "hides the writer":
		h.next(struct{ http.ResponseWriter }{held}, inner)
	case "drops held headers":
		h.next(headlessWriter{held}, inner)
	case "takes whatever is written":
		h.next(trustingWriter{held}, inner)
	default:
		h.next(held, inner)
	}
	h.returned(v, held.Status())
	err := v.Leave()
	switch {
	case err == nil, h.fault == "does not notice a loss", !held.Held() && h.fault != "always answers a loss":
		held.Send()
	default:
		h.lost(w, r, v, err)
	}
}

func (h *brokenHandler) lost(w http.ResponseWriter, r *http.Request, v *brokenView, err error) {
	if h.fault != "keeps the handler's headers" {
		v.TakeBack()
	}
	h.refuse(w, r, err)
}

func (h *brokenHandler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	o := door.Refusal(err)
	switch {
	case h.fault == "shows the error":
		o.Detail = err.Error()
	case h.fault == "says when a cool-down is over":
		if refused, ok := errors.AsType[*lockmw.AcquireError](err); ok {
			o.RetryAfter = refused.CoolingDown
		}
	case h.fault == "names nothing":
		o, _ = lockmw.RefusalOf(err)
	case h.fault == "names the holder":
		o.Detail += " " + holderOf(err).Instance
	case h.fault == "shows the holder's note":
		w.Header().Set("X-Holder", holderOf(err).Note)
	case h.fault == "answers in plain text":
		http.Error(w, o.Detail, o.Status)
		return
	case h.Options.ErrorHandler != nil && !door.ClientGone(o) && h.fault != "ignores error handlers":
		watched := &watchedWriter{ResponseWriter: w}
		h.Options.ErrorHandler(watched, r, err)
		if watched.written || h.fault == "trusts error handlers" {
			return
		}
	}
	httpdoor.WriteProblem(w, r, o)
	if h.fault == "runs what was refused" {
		h.next(w, r)
	}
}

// disturb sets a deadline that is over, again and again: a hijack undoes one that was set before it. end ends that.
func disturb(w http.ResponseWriter) (end func()) {
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(bodyTimeout / 4) // often, before the handler reads
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
			case <-over:
				return
			}
		}
	})
	return func() { close(over); running.Wait() }
}
