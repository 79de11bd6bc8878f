package doortest

import (
	"errors"
	"net/http"

	"github.com/lockmw/kit/lockmw"
)

// What a faultyDoor does with what it knows of who is in the way.

// holderOf is who has the lock for which a request is refused, as far as that is known.
func holderOf(err error) lockmw.Holder {
	if refused, ok := errors.AsType[*lockmw.AcquireError](err); ok && refused.Holder != nil {
		return *refused.Holder
	}
	return lockmw.Holder{}
}

// asksForItself refuses a request by a look at the lock, in place of an attempt to take it. The refusal is told, but nobody knows whom
// the request has found.
func (h *brokenHandler) asksForItself(w http.ResponseWriter, r *http.Request) (refused bool) {
	if h.fault != "asks for itself" {
		return false
	}
	info, err := h.Locks.Inspect(r.Context(), lockKey)
	if err != nil || !info.Held {
		return false
	}
	h.refuse(w, r, h.Locks.Refuse(r.Context(), h.Policy, lockmw.ErrNotAcquired))
	return true
}
