package lockmw

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// refusalEvery is how often refusals of one lock for one reason are logged: often
// enough to be noticed, and not so often that contention fills a disk.
const refusalEvery = time.Second

// mostRefusals bounds what is remembered of refusals. What is forgotten for another
// kind of refusal is logged again as if it were the first.
const mostRefusals = 1024

// mostLines is how many refusals are logged in a second, of all locks and reasons: a
// program that makes a name for each tenant, or a mistake's text for each request,
// would fill a disk with first ones.
const mostLines = 100

// A refusalLog decides which refusals are logged: of each lock, by its name, and for
// each reason the first, and later ones at most once a second. Of a mistake that
// Refuse was told of, which does not pass as long as the program runs, it is the first
// alone. Beyond mostLines in a second none is.
type refusalLog struct {
	mu     sync.Mutex
	last   map[refusalKind]refusalCount
	second time.Time // since when lines are counted
	lines  int       // logged since then
	over   int       // were not logged because of mostLines, since the last line
}

// A refusalKind is what refusals have in common of which one is logged.
type refusalKind struct {
	name, code string
	mistake    string // in words; empty for what passes
}

type refusalCount struct {
	logged time.Time // when one was logged last
	quiet  int       // how many were not, since then
}

// admits reports whether a refusal of that kind is to be logged now, and how many
// were not since the last one.
func (r *refusalLog) admits(kind refusalKind, at time.Time) (quiet int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, known := r.last[kind]
	if known && (kind.mistake != "" || at.Sub(c.logged) < refusalEvery) {
		c.quiet++
		r.last[kind] = c
		return 0, false
	}
	if at.Sub(r.second) >= time.Second {
		r.second, r.lines = at, 0
	}
	if r.lines == mostLines {
		r.over++
		return 0, false
	}
	quiet = c.quiet + r.over
	r.lines, r.over = r.lines+1, 0
	if r.last == nil {
		r.last = make(map[refusalKind]refusalCount)
	}
	for other := range r.last { // any
		if known || len(r.last) < mostRefusals {
			break
		}
		delete(r.last, other)
	}
	r.last[kind] = refusalCount{logged: at}
	return quiet, true
}

// logRefusal logs a refusal, unless one like it was logged a moment ago. Contention
// and a shut-down are what happens to every program, and are told as information.
func (l *Locker) logRefusal(ctx context.Context, refusal *AcquireError) {
	if l.log.Handler() == slog.DiscardHandler {
		return
	}
	told, _ := RefusalOf(refusal)
	kind := refusalKind{name: refusal.Name, code: told.Code}
	if told.Code == CodeMisuse && !errors.Is(refusal, ErrInvalidPolicy) && !errors.Is(refusal, ErrReentrant) && !errors.Is(refusal, ErrNotAcquired) {
		kind.mistake = refusal.Err.Error()
	}
	quiet, ok := l.refusals.admits(kind, time.Now())
	if !ok {
		return
	}
	level := slog.LevelWarn
	switch told.Code {
	case CodeBusy, CodeWaitTimeout, CodeClosed, "":
		level = slog.LevelInfo
	case CodeMisuse:
		level = slog.LevelError
	}
	reason := told.Code
	if reason == "" {
		reason = "the client has left"
	}
	attrs := []slog.Attr{
		slog.String("name", refusal.Name), slog.String("key", refusal.Key),
		slog.String("reason", reason), slog.Any("error", refusal),
	}
	if quiet > 0 {
		attrs = append(attrs, slog.Int("not_logged", quiet))
	}
	l.log.LogAttrs(ctx, level, "lockmw: lock was refused", attrs...)
}
