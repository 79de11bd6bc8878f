package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// Instance implements store.Store: the part of the tokens that is no secret.
func (s *Store) Instance() string { return instanceOf(s.process) }

// ForceRelease implements store.Store.
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	c := s.command()
	s.about(c, key, forceScript, &s.channels)
	_, err := s.send(ctx, deadline(ctx), key, c, nil)
	return err
}

// Inspect implements store.Store.
func (s *Store) Inspect(ctx context.Context, key string) (store.Info, error) {
	c := s.command()
	s.about(c, key, inspectScript)
	reply, err := s.send(ctx, deadline(ctx), key, c, nil)
	if err != nil {
		return store.Info{}, err
	}
	info, ok := s.info(reply)
	if !ok {
		return store.Info{}, &store.Error{Err: errReply}
	}
	return info, nil
}

// info reads inspect.lua's result.
func (s *Store) info(reply any) (store.Info, bool) {
	f, ok := reply.([]any)
	if !ok || len(f) != 6 {
		return store.Info{}, false
	}
	value, ok0 := f[0].(string)
	pttl, ok1 := f[1].(int64)
	now, ok2 := integer(f[2])
	waiting, ok3 := f[3].(int64)
	flat, ok5 := f[4].([]any)
	heartbeats, ok6 := f[5].([]any)
	if !ok0 || !ok1 || !ok2 || !ok3 || !ok5 || !ok6 {
		return store.Info{}, false
	}
	i := store.Info{Waiting: int(waiting) + s.behind(heartbeats, now)}
	limits, several := strings.CutPrefix(value, "*permits ")
	switch {
	case value == "":
		return i, true
	case several:
		i.Kind.Permits = least(strings.Fields(limits), now)
	case value == "*shared":
		i.Kind.Shared = true
	default:
		h := store.Holder{Left: time.Duration(pttl) * time.Millisecond}
		if token, fence, ok := strings.Cut(value, ":"); ok {
			h.Instance, h.Note = said(token)
			if minted, ok := integer(strings.TrimLeft(fence, "~!")); ok && h.Instance != "" {
				h.Age = age(now, minted)
			}
		}
		i.Holders = []store.Holder{h}
		return i, true
	}
	i.Holders = holders(flat, now)
	return i, true
}

// behind sums up what other processes that are alive at now said of those of
// whom the queue does not tell, in the words of enter.lua.
func (s *Store) behind(heartbeats []any, now int64) (n int) {
	for i := 0; i+1 < len(heartbeats); i += 2 {
		process, _ := heartbeats[i].(string)
		heartbeat, _ := heartbeats[i+1].(string)
		how := strings.IndexAny(heartbeat, "vup")
		if process == s.process || how < 0 {
			continue
		}
		till, ok := integer(heartbeat[:how])
		if count, err := strconv.Atoi(heartbeat[how+1:]); ok && err == nil && till > now {
			n += count
		}
	}
	return n
}

// holders reads the holders of a lock that several may hold, those whose lease
// began first in front.
func holders(flat []any, now int64) []store.Holder {
	ends, fences := make(map[string]int64), make(map[string]int64)
	for i := 0; i+1 < len(flat); i += 2 {
		token, _ := flat[i].(string)
		text, _ := flat[i+1].(string)
		score, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		if own, ok := strings.CutPrefix(token, "="); ok {
			fences[own] = int64(-score)
		} else if end := int64(score); end > now {
			ends[token] = end
		}
	}
	var all []store.Holder
	for token, end := range ends {
		instance, note := said(token)
		all = append(all, store.Holder{
			Instance: instance, Note: note, Age: age(now, fences[token]),
			Left: time.Duration(end-now) * time.Microsecond,
		})
	}
	slices.SortFunc(all, func(a, b store.Holder) int { return int(b.Age - a.Age) })
	return all
}

// least is the smallest n of the pairs n and end that bind now.
func least(limits []string, now int64) (n int) {
	for i := 0; i+1 < len(limits); i += 2 {
		limit, err1 := strconv.Atoi(limits[i])
		till, err2 := strconv.ParseInt(limits[i+1], 10, 64)
		if err1 == nil && err2 == nil && till > now && (n == 0 || limit < n) {
			n = limit
		}
	}
	return max(n, 1)
}

// age is how long ago a grant with that fence was made: a fence is the
// server's time, or a little more after its clock was set back.
func age(now, fence int64) time.Duration {
	if fence <= 0 || fence > now {
		return 0
	}
	return time.Duration(now-fence) * time.Microsecond
}
