package lockadmin

import (
	"context"
	"net/http"
	"time"

	"github.com/lockmw/kit/lockmw"
)

const (
	mostFound  = 200             // locks in one answer
	findWithin = 5 * time.Second // of work for Redis
)

// found is what is told of the locks whose keys begin with what was typed.
type found struct {
	Now  int64  `json:"now"`
	Rows []lock `json:"rows"`
	Cut  bool   `json:"cut,omitzero"` // there may be more
}

// find answers with the lock that has just this key, and those whose keys begin so: for
// more locks than the page has. Redis does one such search at a time.
func (c *console) find(w http.ResponseWriter, r *http.Request, prefix string) {
	select {
	case c.finding <- struct{}{}:
		defer func() { <-c.finding }()
	case <-r.Context().Done():
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), findWithin)
	defer cancel()
	answer := found{Now: time.Now().UnixMilli(), Rows: []lock{}}
	add := func(info lockmw.Info) {
		answer.Rows = append(answer.Rows, lockOf(info, c.locks.Instance(), time.Now()))
	}
	// In a Redis that has many other keys the search takes long, and this does not.
	if info, err := c.locks.Inspect(ctx, prefix); err == nil && (info.Held || info.Waiting > 0) {
		add(info)
	}
	for info, err := range c.locks.List(ctx, prefix) {
		if err != nil && ctx.Err() == nil {
			status, text := c.failed(err)
			c.answer(w, r, status, reply{text})
			return
		}
		if err != nil || len(answer.Rows) == mostFound {
			answer.Cut = true
			break
		}
		if len(answer.Rows) == 0 || info.Key != answer.Rows[0].Key {
			add(info)
		}
	}
	c.answer(w, r, http.StatusOK, answer)
}
