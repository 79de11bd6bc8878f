package lockadmin

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// releaseAs releases the lock, unless others hold it by now than the operator was shown.
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
	case !sameHolders(now.Holders, asked.Holders):
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

// shownAgain is by how many milliseconds the time may differ since which the same holder
// seems to have a lock, when it is read again.
const shownAgain = 2000

// sameHolders reports whether those who hold a lock now are those who were shown. Where
// several do, some may have left.
func sameHolders(now, shown []holder) bool {
	for _, h := range now {
		found := false
		for _, s := range shown {
			found = found || h.Instance == s.Instance && h.Note == s.Note && abs(h.Since-s.Since) <= shownAgain
		}
		if !found {
			return false
		}
	}
	return true
}

func instances(holders []holder) string {
	var all []string
	for _, h := range holders {
		all = append(all, h.Instance)
	}
	return strings.Join(all, ", ")
}
