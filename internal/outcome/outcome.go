// Package outcome says once, for every door, what an error of lockmw means to
// the client whose request was refused: the kind, the reason code, the HTTP
// status and a text that is the same for everybody. Doors write it in their
// own way; grpclock makes its codes from [Kind].
//
// Nothing of the error's own text is in an [Outcome]: no key, no token and
// nothing that Redis said.
package outcome

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// Kind tells the outcomes apart. Several kinds may share a reason code.
type Kind uint8

const (
	// None is the outcome of no error.
	None Kind = iota
	// Busy: others hold the lock, and the policy allowed one attempt.
	Busy
	// WaitTimeout: others held the lock for as long as the policy allowed.
	WaitTimeout
	// Deadline: the request's own deadline ended the wait, or the MaxHold of a
	// lock that it held already.
	Deadline
	// ClientGone: the request was cancelled while it waited. There is nobody
	// left to read an answer, so a door writes no body.
	ClientGone
	// QueueFull: too many wait already.
	QueueFull
	// Unavailable: Redis could not be reached or refused.
	Unavailable
	// Lost: the lock was lost while the request was at work.
	Lost
	// InvalidKey: no key can be derived from the request.
	InvalidKey
	// TooLarge: no key can be derived, because the body is over the limit.
	TooLarge
	// Misuse: a mistake of the program.
	Misuse
	// Closed: the Locker is closed.
	Closed
)

// StatusClientGone is what a request is logged with whose client has left. No
// client sees it. The number is nginx's. It is not 200, because a context may
// also be cancelled by the server's own shut-down while the client is still
// there, and that client must not take silence for success.
const StatusClientGone = 499

// An Outcome is what a client is told.
type Outcome struct {
	Kind   Kind
	Code   string // LOCK_BUSY and so on; empty for None and ClientGone
	Status int    // of HTTP
	Detail string // a sentence for people, the same for each error of the kind

	// RetryAfter is when asking again makes sense. Zero means that it does
	// not.
	RetryAfter time.Duration
}

// Title returns the HTTP status in words.
func (o Outcome) Title() string { return http.StatusText(o.Status) }

// The outcomes by kind, without RetryAfter.
var known = [...]Outcome{
	None: {},
	Busy: {
		Code: "LOCK_BUSY", Status: http.StatusConflict,
		Detail: "Another request is at work on the same resource.",
	},
	WaitTimeout: {
		Code: "LOCK_WAIT_TIMEOUT", Status: http.StatusConflict,
		Detail: "Other requests were at work on the same resource for as long as this one could wait.",
	},
	Deadline: {
		Code: "LOCK_WAIT_TIMEOUT", Status: http.StatusConflict,
		Detail: "Other requests were at work on the same resource until this one's time was up.",
	},
	ClientGone: {Status: StatusClientGone},
	QueueFull: {
		Code: "LOCK_QUEUE_FULL", Status: http.StatusServiceUnavailable,
		Detail: "Too many requests are waiting for the same resource.",
	},
	Unavailable: {
		Code: "LOCK_BACKEND_UNAVAILABLE", Status: http.StatusServiceUnavailable,
		Detail: "The request was not processed, because exclusive access cannot be arranged at the moment.",
	},
	Lost: {
		Code: "LOCK_LOST", Status: http.StatusInternalServerError,
		Detail: "Exclusive access was lost while the request was processed; it may have taken effect.",
	},
	InvalidKey: {
		Code: "LOCK_KEY_INVALID", Status: http.StatusBadRequest,
		Detail: "The request does not name the resource it is about: a parameter, header or body field is missing or cannot be used.",
	},
	TooLarge: {
		Code: "LOCK_KEY_INVALID", Status: http.StatusRequestEntityTooLarge,
		Detail: "The request body is too large.",
	},
	Misuse: {
		Code: "LOCK_MISUSE", Status: http.StatusInternalServerError,
		Detail: "The request was not processed, because of a mistake in the server.",
	},
	Closed: {
		Code: "LOCK_CLOSED", Status: http.StatusServiceUnavailable,
		Detail: "The request was not processed, because the server is shutting down.",
	},
}

// Of returns what err means to the client.
//
// An error that Is several of lockmw's is judged by the first of this list: a
// lost lock (the handler's own error may be joined to it, and may be that of a
// nested lock); a key that cannot be derived (which may wrap anything that a
// key function returns); then what Acquire returns, each of which is only one.
//
// An error that is none of lockmw's is Misuse: doors hand over nothing else,
// so it is a mistake of the program. Of(nil) is the zero Outcome.
func Of(err error) Outcome {
	kind := kindOf(err)
	o := known[kind]
	o.Kind = kind
	o.RetryAfter = retryAfter(kind, err)
	return o
}

func kindOf(err error) Kind {
	switch {
	case err == nil:
		return None
	case errors.Is(err, lockmw.ErrLost):
		return Lost
	case errors.Is(err, lockmw.ErrInvalidKey):
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return TooLarge
		}
		return InvalidKey
	case errors.Is(err, lockmw.ErrNotAcquired):
		return notAcquired(err)
	case errors.Is(err, lockmw.ErrQueueFull):
		return QueueFull
	case errors.Is(err, lockmw.ErrUnavailable):
		return Unavailable
	case errors.Is(err, lockmw.ErrClosed):
		return Closed
	}
	return Misuse
}

// notAcquired tells by what the wait was ended.
func notAcquired(err error) Kind {
	switch refused, ok := errors.AsType[*lockmw.AcquireError](err); {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, lockmw.ErrMaxHold):
		return Deadline
	case errors.Is(err, context.Canceled):
		return ClientGone
	case ok && refused.Queued:
		return WaitTimeout
	}
	return Busy
}

// minRetryAfter is for errors that do not say it themselves.
const minRetryAfter = time.Second

func retryAfter(kind Kind, err error) time.Duration {
	switch kind {
	case Busy, WaitTimeout, Deadline, QueueFull, Unavailable, Closed:
	default:
		return 0
	}
	if refused, ok := errors.AsType[*lockmw.AcquireError](err); ok && refused.RetryAfter > 0 {
		return refused.RetryAfter
	}
	return minRetryAfter
}
