package httpdoor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A once is what a door has that is called Idempotent: its handler's response is kept, and all who ask for the same get it.
type once struct {
	answers   *door.Idempotent
	keeps     func(status int, header http.Header) bool
	uncertain bool // work that has failed is not done again
}

// NewIdempotent returns the door of an Idempotent. It panics if l or key is nil, f is invalid for l, or key is made of one header
// and nothing else.
func NewIdempotent(l *lockmw.Locker, key keyfunc.Func, f lockmw.Flight, c Config) *Door {
	c.check(l, key)
	answers, err := door.NewIdempotent(l, f, httpCodec{}, bareFact, c.optional)
	if err != nil {
		c.Panic(err.Error())
	}
	o := &once{answers: answers, keeps: c.keep, uncertain: f.Crash == lockmw.Uncertain}
	if o.keeps == nil {
		o.keeps = o.isKept
	}
	if err := door.WhoseKey(c.Sample(key)); err != nil && !c.ofEverybody {
		c.Panic(err.Error())
	}
	d := newDoor(l, key, f.Policy, c)
	d.once = o
	return d
}

// A Way is what has become of a request in Once.
type Way uint8

const (
	// Passed: it goes on as if the door were not there.
	Passed Way = iota
	// Answered: by its handler, or by a response that was kept.
	Answered
	// Refused: nothing was written.
	Refused
)

// Once answers a request by its handler, or by the response that is kept for all who ask for the same. view is the keyfunc.Request
// that v is embedded in, w where the answer is written.
//
// handle runs the handler with Inner, and has it write to held. It returns whether there is an answer, be it an empty one; where a
// handler only leaves an error, of which somebody else may make an answer, there is none. The response is kept before it is sent. A
// panic goes through, and nothing is kept.
//
// With Refused the error is a *lockmw.AcquireError, and the handler has not run, or, with Uncertain, it has run, was told to stop and has written nothing:
// then the error has a *lockmw.UncertainError in it. Or the error Is lockmw.ErrLost, and nothing was sent of what the handler did: the lock was lost while
// it ran, or it was told to stop and has written nothing. With Answered the error is nil, or lockmw.ErrLost, and it was too late to say so.
func (v *Visit) Once(view keyfunc.Request, w http.ResponseWriter, handle func(held *Buffer) (answered bool)) (Way, error) {
	o := v.door.once
	if isSafe(v.outer.Method) {
		return Passed, nil
	}
	wanted := v.wanted(view)
	if o.answers.Runs(wanted) {
		return Passed, nil
	}
	defer v.handOnForm()
	var held *Buffer
	silent := false // told to stop, it has written nothing
	answer, shared, err := door.Answered(v.outer.Context(), o.answers, wanted, func(ctx context.Context) (Answer, error) {
		v.inner = v.outer.WithContext(ctx)
		held = newBuffer(w, o.answers.Most())
		answered := handle(held)
		if o.isStopped(ctx, held) {
			door.Doubt(ctx)
			silent = answered && !held.Written()
		}
		return o.toKeep(ctx, held, answered), nil
	})
	switch {
	case held == nil && err != nil:
		return Refused, err
	case silent:
		return Refused, v.silence(wanted, err)
	case shared:
		err := answer.check()
		if err == nil && !accepts(v.outer.Header, answer.Header["Content-Encoding"]) {
			err = fmt.Errorf("%w in an encoding that this client reads", lockmw.ErrAnswerNotKept)
		}
		if err != nil {
			return Refused, o.answers.Refuse(v.outer.Context(), wanted, err)
		}
		answer.writeTo(w)
		return Answered, nil
	}
	lost := errors.Is(err, lockmw.ErrLost)
	if lost && held.Held() {
		door.Doubt(v.outer.Context())
		return Refused, lockmw.ErrLost
	}
	held.Send()
	if lost {
		return Answered, lockmw.ErrLost
	}
	if err != nil {
		v.Misused(fmt.Errorf("the answer of %s cannot be kept: %w", wanted.Route, err))
	}
	return Answered, nil
}

// silence is the refusal of a request whose handler was told to stop and has written nothing. err is lockmw.Do's.
func (v *Visit) silence(wanted door.Wanted, err error) error {
	outer := v.outer.Context()
	if !errors.Is(err, lockmw.ErrLost) {
		if unknown := v.door.once.answers.Unknown(outer, v.inner.Context(), wanted); unknown != nil {
			return unknown
		}
	}
	door.Doubt(outer)
	return fmt.Errorf("%w: the handler was told to stop, and has written nothing", lockmw.ErrLost)
}

// isStopped reports whether the handler was told to stop, by MaxHold or by a lost lock, that of this door or one behind it, and has not said what it
// did: it has written nothing, or with Uncertain a failure. An empty 200 would be told to whoever sends the request again.
func (o *once) isStopped(ctx context.Context, held *Buffer) bool {
	return door.IsStopped(ctx) && (!held.Written() || o.uncertain && held.Status() >= http.StatusInternalServerError)
}

// toKeep returns what is kept of a response. Of one that does not tell whether the work was done, nothing is.
func (o *once) toKeep(ctx context.Context, held *Buffer, answered bool) Answer {
	if door.IsDoubted(ctx) {
		return Answer{}
	}
	answer, keep := o.answerOf(held, answered)
	if !keep {
		lockmw.NotAnAnswer(ctx)
	}
	return answer
}

// wanted is what the request asks for.
func (v *Visit) wanted(view keyfunc.Request) door.Wanted {
	keys, err := v.routedKeys(view)
	method := v.outer.Method
	wanted := door.Wanted{Keys: keys, KeyErr: err, Route: method}
	if pattern := view.Route(); pattern == "" {
		wanted.Path = pathSent(v.outer)
	} else {
		wanted.Path = strings.TrimSuffix(pathSent(v.outer), v.outer.URL.EscapedPath()) // what http.StripPrefix has taken away
		wanted.Route += " " + strings.TrimPrefix(pattern, method+" ")                  // net/http's has the method
	}
	if !slices.Contains(methods, method) { // a client may send any, and metrics show what is in Route
		wanted.Route, wanted.Path = "another method"+strings.TrimPrefix(wanted.Route, method), method+" "+wanted.Path
	}
	if err == nil {
		wanted.Fingerprint, wanted.KeyErr = v.fingerprint()
	}
	return wanted
}

// methods are those that metrics show, beside the safe ones.
var methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// pathSent is the path as the client has sent it, also behind the name of a host, or as it is known.
func pathSent(r *http.Request) string {
	if sent, err := url.ParseRequestURI(r.RequestURI); err == nil && strings.HasPrefix(sent.Path, "/") {
		return sent.EscapedPath()
	}
	return r.URL.EscapedPath()
}

// answerOf returns what is kept of a response, and whether anything is. It sets the header of the response as it is now.
func (o *once) answerOf(held *Buffer, answered bool) (answer Answer, keep bool) {
	if !answered {
		return bareFact, o.uncertain
	}
	held.WriteHeader(held.status)
	if !o.keeps(held.status, held.frozen.Clone()) {
		return bareFact, false
	}
	if !held.Held() || held.status < http.StatusOK || held.isCutOff() || hasTrailers(held.before, held.frozen) || hasTrailers(held.before, held.header) {
		return bareFact, true
	}
	header, added, ok := changed(held.before, held.frozen)
	if !ok {
		return bareFact, true
	}
	return Answer{Status: held.status, Header: header, Added: added, Body: held.body}, true
}

// notKept are statuses below 500 that are no answer to keep: nothing was done, and the same request may be welcome another time, or elsewhere; and
// a part is not the whole.
var notKept = []int{
	http.StatusPartialContent, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	http.StatusUnauthorized, http.StatusForbidden, http.StatusNotAcceptable, http.StatusProxyAuthRequired, http.StatusRequestTimeout, http.StatusConflict,
	http.StatusPreconditionFailed, http.StatusExpectationFailed, http.StatusMisdirectedRequest, http.StatusLocked, http.StatusFailedDependency,
	http.StatusTooEarly, http.StatusUpgradeRequired, http.StatusPreconditionRequired, http.StatusTooManyRequests, http.StatusRequestHeaderFieldsTooLarge,
}

// halfDone are those of notKept by which work may have been done all the same. With Uncertain it is not done again.
var halfDone = []int{http.StatusPartialContent, http.StatusRequestTimeout}

// isKept reports whether a response is kept where the door has no function for it.
func (o *once) isKept(status int, _ http.Header) bool {
	if o.uncertain && (status >= http.StatusInternalServerError || slices.Contains(halfDone, status)) {
		return true
	}
	return status < http.StatusInternalServerError && !slices.Contains(notKept, status)
}
