package lockadmin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/lockmw/kit/lockmw"
)

// resolutions are what the page can say of uncertain work. Done is not among them: it takes an
// answer, of a type that only the program knows.
var resolutions = map[string]lockmw.Resolution{"again": lockmw.Again, "discard": lockmw.Discard}

// resolveAs says what became of the work that the operator was shown.
func (c *console) resolveAs(r *http.Request, asked wish) (status int, text string) {
	resolution, known := resolutions[asked.As]
	if !known {
		return http.StatusBadRequest, "This says neither again nor discard."
	}
	// Whoever closes the page now has asked for it all the same.
	ctx := context.WithoutCancel(r.Context())
	by := c.by(r, asked)
	err := c.locks.ResolveAs(ctx, asked.Key, asked.Work, resolution, by)
	logger := c.options.logger.With("key", asked.Key, "work", asked.Work, "as", asked.As, "remote", r.RemoteAddr, "author", by.Author, "because", by.Reason)
	switch {
	case errors.Is(err, lockmw.ErrNotUncertain):
		return http.StatusConflict, "This work is not uncertain any more: it has its answer, or somebody has said what became of it."
	case errors.Is(err, lockmw.ErrNotAcquired):
		return http.StatusConflict, "Somebody has the lock, and may be at work. Nothing was changed."
	case errors.Is(err, lockmw.ErrUnavailable):
		logger.Warn("lockadmin: it is not known whether work was resolved", slog.Any("error", err))
		return http.StatusServiceUnavailable, "Redis has not answered: it may have heard of this or not. Try again."
	case err != nil:
		return c.failed(err)
	}
	logger.Warn("lockadmin: work was resolved")
	return http.StatusOK, "Resolved."
}
