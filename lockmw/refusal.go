package lockmw

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/lockmw/kit/internal/holds"
	"github.com/lockmw/kit/internal/seam"
)

// The codes by which a client tells one refusal from another. They are in the body of an HTTP
// response and in the ErrorInfo of a gRPC status. They do not change.
const (
	// CodeBusy: others hold the lock, and the policy allowed one attempt
	// (ErrNotAcquired).
	CodeBusy = "LOCK_BUSY"
	// CodeWaitTimeout: others held the lock for as long as the policy or the request's deadline let
	// the call wait (ErrNotAcquired).
	CodeWaitTimeout = "LOCK_WAIT_TIMEOUT"
	// CodeCooldown: nobody is at work under the lock. Its work was done a moment ago, and
	// Policy.MinHold keeps the key taken for a while (ErrNotAcquired). The client is not told when
	// to ask again, because it would then do the work again.
	CodeCooldown = "LOCK_COOLDOWN"
	// CodeTicketSpent: nobody can go on with the work by this ticket (ErrTicketSpent). It was used,
	// its time is over, or the lock was never handed on to it.
	CodeTicketSpent = "LOCK_TICKET_SPENT"
	// CodeQueueFull: too many calls wait already (ErrQueueFull).
	CodeQueueFull = "LOCK_QUEUE_FULL"
	// CodeBackendUnavailable: Redis cannot be reached, or refuses (ErrUnavailable).
	CodeBackendUnavailable = "LOCK_BACKEND_UNAVAILABLE"
	// CodeLost: the lock was lost while the request was at work (ErrLost).
	CodeLost = "LOCK_LOST"
	// CodeKeyInvalid: the request does not name what is locked (ErrInvalidKey).
	CodeKeyInvalid = "LOCK_KEY_INVALID"
	// CodeMisuse: a mistake of the program, about which no client can do anything. The error Is
	// ErrInvalidPolicy, ErrReentrant or ErrInvalidTicket; or the call asked for a lock with the
	// context of a lease that was released; or, in a middleware, the key is one that no request to
	// its route can have (keyfunc.ErrMisuse).
	CodeMisuse = "LOCK_MISUSE"
	// CodeClosed: the Locker is closed (ErrClosed).
	CodeClosed = "LOCK_CLOSED"
)

// The codes of requests that Do, or a middleware called Idempotent, answers once for all who ask for
// the same.
const (
	// CodeIdempotencyKeyMissing: the request needs an idempotency key, and has none.
	CodeIdempotencyKeyMissing = "IDEMPOTENCY_KEY_MISSING"
	// CodeIdempotencyKeyReused: the key was used for another request (ErrOtherRequest).
	CodeIdempotencyKeyReused = "IDEMPOTENCY_KEY_REUSED"
	// CodeIdempotencyInProgress: the first request with the key is still at work (ErrNotAcquired
	// from Do).
	CodeIdempotencyInProgress = "IDEMPOTENCY_IN_PROGRESS"
	// CodeIdempotencyUncertain: the work for the key was begun, and nobody knows whether it was
	// done (ErrUncertain). Asking again tells nothing new: somebody has to look.
	CodeIdempotencyUncertain = "IDEMPOTENCY_UNCERTAIN"
	// CodeIdempotencyAnswerNotKept: the work for the key was done, or Resolve has discarded it, and
	// there is no answer that could be given again (ErrAnswerNotKept).
	CodeIdempotencyAnswerNotKept = "IDEMPOTENCY_ANSWER_NOT_KEPT"
)

// StatusClientGone is the Status of a request whose client left while the request waited. No client
// sees it, but access logs do. nginx uses the same number for that. It is not 200 because a context
// may also be cancelled by the server's own shut-down while the client is still there. That client
// must not take silence for success.
const StatusClientGone = 499

// A Refusal is what a client is told of an error of this package. Nothing of the error's own text
// is in it: no key, no token and nothing that Redis said. So you can send it as it is, in whatever
// envelope your API has. The middlewares' own answer to CodeKeyInvalid also names the value that is
// missing or cannot be used, see keyfunc.ValueError.
type Refusal struct {
	Status   int    // of the HTTP response
	GRPCCode uint32 // codes.Code(r.GRPCCode) is the code of google.golang.org/grpc
	Code     string // one of the Code constants; empty if the client has left, so that there is nobody to tell
	Detail   string // a sentence for people; RefusalOf has one for each kind of refusal; empty if Code is empty

	// RetryAfter is after how long it makes sense to ask again. Zero means that it does not.
	RetryAfter time.Duration
}

// The codes of gRPC that a Refusal may have. This package does not import gRPC.
// Contention is Aborted, which clients do not retry unless they are told to, so
// that it does not become a storm.
const (
	grpcCanceled           = 1
	grpcInvalidArgument    = 3
	grpcDeadlineExceeded   = 4
	grpcAlreadyExists      = 6
	grpcResourceExhausted  = 8
	grpcFailedPrecondition = 9
	grpcAborted            = 10
	grpcInternal           = 13
	grpcUnavailable        = 14
)

// The refusals that there are, without RetryAfter. This is the one table of what
// clients are told: all middlewares and interceptors answer by it.
var (
	refusedBusy = Refusal{
		Status: http.StatusConflict, GRPCCode: grpcAborted, Code: CodeBusy,
		Detail: "Another request is at work on the same resource.",
	}
	refusedWaitTimeout = Refusal{
		Status: http.StatusConflict, GRPCCode: grpcAborted, Code: CodeWaitTimeout,
		Detail: "Other requests were at work on the same resource for as long as this one could wait.",
	}
	refusedDeadline = Refusal{
		Status: http.StatusConflict, GRPCCode: grpcDeadlineExceeded, Code: CodeWaitTimeout,
		Detail: "Other requests were at work on the same resource until this one's time was up.",
	}
	refusedCooldown = Refusal{
		Status: http.StatusConflict, GRPCCode: grpcAborted, Code: CodeCooldown,
		Detail: "The same was done a moment ago.",
	}
	refusedTicketSpent = Refusal{
		Status: http.StatusConflict, GRPCCode: grpcFailedPrecondition, Code: CodeTicketSpent,
		Detail: "This was gone on with before, or its time is over.",
	}
	refusedInProgress = Refusal{
		Status: http.StatusConflict, GRPCCode: grpcAborted, Code: CodeIdempotencyInProgress,
		Detail: "The first request with this key is still being processed.",
	}
	refusedInProgressDeadline = Refusal{
		Status: http.StatusConflict, GRPCCode: grpcDeadlineExceeded, Code: CodeIdempotencyInProgress,
		Detail: "The first request with this key is still being processed.",
	}
	refusedKeyMissing = Refusal{
		Status: http.StatusBadRequest, GRPCCode: grpcInvalidArgument, Code: CodeIdempotencyKeyMissing,
		Detail: "The request has no idempotency key.",
	}
	refusedKeyReused = Refusal{
		Status: http.StatusUnprocessableEntity, GRPCCode: grpcInvalidArgument, Code: CodeIdempotencyKeyReused,
		Detail: "The key was used for another request.",
	}
	refusedUncertain = Refusal{
		Status: http.StatusConflict, GRPCCode: grpcFailedPrecondition, Code: CodeIdempotencyUncertain,
		Detail: "A request with this key was begun, and it is not known whether it took effect.",
	}
	refusedNotKept = Refusal{
		Status: http.StatusConflict, GRPCCode: grpcAlreadyExists, Code: CodeIdempotencyAnswerNotKept,
		Detail: "The request with this key was processed, or is not to be processed any more, and there is no answer to give.",
	}
	refusedClientGone = Refusal{Status: StatusClientGone, GRPCCode: grpcCanceled}
	refusedQueueFull  = Refusal{
		Status: http.StatusServiceUnavailable, GRPCCode: grpcResourceExhausted, Code: CodeQueueFull,
		Detail: "Too many requests are waiting for the same resource.",
	}
	refusedUnavailable = Refusal{
		Status: http.StatusServiceUnavailable, GRPCCode: grpcUnavailable, Code: CodeBackendUnavailable,
		Detail: "The request was not processed, because exclusive access cannot be arranged at the moment.",
	}
	refusedLost = Refusal{
		Status: http.StatusInternalServerError, GRPCCode: grpcInternal, Code: CodeLost,
		Detail: "Exclusive access was lost while the request was processed; it may have taken effect.",
	}
	refusedInvalidKey = Refusal{
		Status: http.StatusBadRequest, GRPCCode: grpcInvalidArgument, Code: CodeKeyInvalid,
		Detail: "The request does not name the resource it is about: a parameter, header or body field is missing or cannot be used.",
	}
	refusedTooLarge = Refusal{
		Status: http.StatusRequestEntityTooLarge, GRPCCode: grpcInvalidArgument, Code: CodeKeyInvalid,
		Detail: "The request body is too large.",
	}
	refusedMisuse = Refusal{
		Status: http.StatusInternalServerError, GRPCCode: grpcInternal, Code: CodeMisuse,
		Detail: "The request was not processed, because of a mistake in the server.",
	}
	refusedClosed = Refusal{
		Status: http.StatusServiceUnavailable, GRPCCode: grpcUnavailable, Code: CodeClosed,
		Detail: "The request was not processed, because the server is shutting down.",
	}
)

// RefusalOf returns what a client is to be told of err, and whether err is one of this package's:
// an *AcquireError, or an error that Is ErrLost, ErrInvalidKey, ErrOtherRequest, ErrUncertain,
// ErrAnswerNotKept, ErrTicketSpent, ErrNotAcquired, ErrQueueFull, ErrUnavailable, ErrClosed,
// ErrInvalidPolicy, ErrReentrant or ErrInvalidTicket. For nil and for any other error it returns
// the zero Refusal and false.
//
// If an error Is several of these, the first of them in that order counts. A lost lock comes first,
// because the handler's own error may be joined to it, and that may be the error of a nested lock.
// A key that cannot be derived comes next, because it may wrap anything that a key function
// returns. An *AcquireError that Is none of them is a mistake of the program (CodeMisuse), unless
// the request has no idempotency key (CodeIdempotencyKeyMissing).
func RefusalOf(err error) (Refusal, bool) {
	refusal, ours := kindOf(err)
	switch refusal.Code {
	case CodeBusy, CodeWaitTimeout, CodeIdempotencyInProgress, CodeQueueFull, CodeBackendUnavailable, CodeClosed:
		refusal.RetryAfter = soonest
		if detail, ok := errors.AsType[*AcquireError](err); ok {
			refusal.RetryAfter = detail.RetryAfter
		}
	}
	return refusal, ours
}

// kindOf returns what a client is told of err, without RetryAfter.
func kindOf(err error) (kind Refusal, ours bool) {
	switch {
	case err == nil:
		return Refusal{}, false
	case errors.Is(err, ErrLost):
		return refusedLost, true
	case errors.Is(err, seam.ErrNoIdempotencyKey):
		return refusedKeyMissing, true
	case errors.Is(err, ErrInvalidKey):
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return refusedTooLarge, true
		}
		return refusedInvalidKey, true
	case errors.Is(err, ErrOtherRequest):
		return refusedKeyReused, true
	case errors.Is(err, ErrUncertain):
		return refusedUncertain, true
	case errors.Is(err, ErrAnswerNotKept):
		return refusedNotKept, true
	case errors.Is(err, ErrTicketSpent):
		return refusedTicketSpent, true
	case errors.Is(err, ErrNotAcquired):
		return kindOfWait(err), true
	case errors.Is(err, ErrQueueFull):
		return refusedQueueFull, true
	case errors.Is(err, ErrUnavailable):
		return refusedUnavailable, true
	case errors.Is(err, ErrClosed):
		return refusedClosed, true
	case errors.Is(err, ErrInvalidPolicy), errors.Is(err, ErrReentrant), errors.Is(err, ErrInvalidTicket):
		return refusedMisuse, true
	}
	if _, ok := errors.AsType[*AcquireError](err); ok {
		return refusedMisuse, true
	}
	return Refusal{}, false
}

// kindOfWait tells by what an attempt that found the lock held, or the wait for it,
// was ended.
func kindOfWait(err error) Refusal {
	refused, ok := errors.AsType[*AcquireError](err)
	cools := ok && refused.CoolingDown > 0
	forAnswer := ok && refused.forAnswer
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrMaxHold):
		if cools {
			return refusedCooldown
		}
		if forAnswer {
			return refusedInProgressDeadline
		}
		return refusedDeadline
	case errors.Is(err, ErrReleased): // work goes on with the context of a lease that it has released
		return refusedMisuse
	case errors.Is(err, context.Canceled):
		return refusedClientGone
	case cools:
		return refusedCooldown
	case forAnswer:
		return refusedInProgress
	case ok && refused.Queued:
		return refusedWaitTimeout
	}
	return refusedBusy
}

// soonest is the least that a refused client is told to wait.
const soonest = holds.Soonest
