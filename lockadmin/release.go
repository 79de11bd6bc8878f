package lockadmin

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/seen"
)

// releaseAs releases the lock, unless others hold it by now than the operator was shown. Between that look and the release, the lock may still pass on.
func (c *console) releaseAs(r *http.Request, asked wish) (status int, text string) {
	ctx := r.Context()
	info, err := c.locks.Inspect(ctx, asked.Key)
	if err != nil {
		return c.failed(err)
	}
	now := lockOf(info, c.locks.Instance(), time.Now())
	switch {
	case len(now.Holders) == 0:
		c.noticed(info)
		return http.StatusConflict, "Nobody holds it any more."
	case !seen.Same(holds(now.Holders), holds(asked.Holders)):
		c.noticed(info)
		return http.StatusConflict, "Others hold it by now. Look again."
	}
	// Whoever closes the page now has asked for it all the same.
	ctx = context.WithoutCancel(ctx)
	by := c.by(r, asked)
	if err := c.locks.ForceReleaseAs(ctx, asked.Key, by); err != nil {
		return c.failed(err)
	}
	c.options.logger.Warn("lockadmin: lock was released by force", "key", asked.Key, "holders", instances(now.Holders), "remote", r.RemoteAddr, "author", by.Author, "because", by.Reason)
	if info, err := c.locks.Inspect(ctx, asked.Key); err == nil {
		c.noticed(info)
	}
	return http.StatusOK, "Released."
}

// holds are holders as package seen compares them.
func holds(holders []holder) []seen.Hold {
	var all []seen.Hold
	for _, h := range holders {
		of := seen.Hold{Instance: h.Instance, Note: h.Note}
		if h.Since != 0 {
			of.Since = time.UnixMilli(h.Since)
		}
		all = append(all, of)
	}
	return all
}

func instances(holders []holder) string {
	var all []string
	for _, h := range holders {
		all = append(all, h.Instance)
	}
	return strings.Join(all, ", ")
}
