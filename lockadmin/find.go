package lockadmin

import (
	"context"
	"errors"
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

// look answers with the lock that has just this key, if nobody has it or waits for it and it
// has an answer: for a page that has all others.
func (c *console) look(w http.ResponseWriter, r *http.Request, key string) {
	answer := found{Now: time.Now().UnixMilli(), Rows: []lock{}}
	info, err := c.locks.Inspect(r.Context(), key)
	switch {
	case r.Context().Err() != nil: // something else was typed meanwhile
		return
	case err != nil && !errors.Is(err, lockmw.ErrInvalidKey): // what was typed need not be a key
		status, text := c.failed(err)
		c.answer(w, r, status, reply{text})
		return
	case info.Answer != nil && !inUse(info):
		answer.Rows = append(answer.Rows, lockOf(info, c.locks.Instance(), time.Now()))
	}
	c.answer(w, r, http.StatusOK, answer)
}

// inUse reports whether somebody has a lock or waits for it.
func inUse(info lockmw.Info) bool { return len(info.Holders) > 0 || info.Waiting > 0 }

// find answers with the lock that has just this key, and those whose keys begin so: for
// more locks than the page has.
func (c *console) find(w http.ResponseWriter, r *http.Request, prefix string) {
	answer, err := c.search(r.Context(), prefix)
	if err != nil {
		status, text := c.failed(err)
		c.answer(w, r, status, reply{text})
		return
	}
	c.answer(w, r, http.StatusOK, answer)
}

// search asks Redis for find. There is one search at a time, and the next one begins before
// a browser has read what this one has found.
func (c *console) search(ctx context.Context, prefix string) (found, error) {
	answer := found{Rows: []lock{}}
	select {
	case c.finding <- struct{}{}:
		defer func() { <-c.finding }()
	case <-ctx.Done():
		return answer, nil
	}
	ctx, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	answer.Now = time.Now().UnixMilli()
	add := func(info lockmw.Info) {
		answer.Rows = append(answer.Rows, lockOf(info, c.locks.Instance(), time.Now()))
	}
	// In a Redis that has many other keys the search takes long, and this does not.
	if info, err := c.locks.Inspect(ctx, prefix); err == nil && (inUse(info) || info.Answer != nil) {
		add(info)
	}
	for info, err := range c.locks.List(ctx, prefix) {
		if err != nil && ctx.Err() == nil {
			return found{}, err
		}
		if err != nil || len(answer.Rows) == mostFound {
			answer.Cut = true
			break
		}
		if len(answer.Rows) == 0 || info.Key != answer.Rows[0].Key {
			add(info)
		}
	}
	return answer, nil
}
