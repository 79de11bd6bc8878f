package httplock

import (
	"errors"
	"net/http"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/httpdoor"
	"github.com/lockmw/kit/lockmw"
)

// WriteRefusal answers r as Middleware answers a request that does not get its lock. It is for a handler that takes a lock itself, by
// Locker.WithLock or lockmw.Do. It returns false, and writes nothing, if err is nil, or none of those that lockmw.RefusalOf knows: answer the work's own errors yourself. Call it
// before anything is written. In Gin call it with c.Writer and c.Request, in Echo with c.Response() and c.Request().
//
// The answer is an application/problem+json with a code, and has a Retry-After where asking again helps. It does not show the key, nor anything else of
// err's text. A client that has left gets the status alone, for those who log it.
//
// Behind Idempotent, a refusal is for its own client alone, as if the handler had called lockmw.NotAnAnswer: so call it only where nothing was done before.
// If the lock was lost (lockmw.ErrLost), the work may have been done, and if the work itself says that it does not know (lockmw.ErrUncertain), nobody
// knows: it is as if the handler had called lockmw.MarkUncertain. After a lost lock, lockmw.NotAnAnswer still says that nothing was done.
func WriteRefusal(w http.ResponseWriter, r *http.Request, err error) bool {
	if _, ours := lockmw.RefusalOf(err); !ours {
		return false
	}
	switch _, refused := errors.AsType[*lockmw.AcquireError](err); {
	case errors.Is(err, lockmw.ErrLost):
		door.Doubt(r.Context())
	case errors.Is(err, lockmw.ErrUncertain) && !refused: // the work's own word
		lockmw.MarkUncertain(r.Context())
	default:
		lockmw.NotAnAnswer(r.Context())
	}
	httpdoor.WriteProblem(w, r, door.Refusal(err))
	return true
}
