package lockmw

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockmw/kit/internal/report"
)

// logRefusal logs a refusal, unless one like it was logged a moment ago. Contention
// and a shut-down are what happens to every program, and are told as information.
func (l *Locker) logRefusal(ctx context.Context, refusal *AcquireError) {
	if l.log.Handler() == slog.DiscardHandler {
		return
	}
	told, _ := RefusalOf(refusal)
	kind := report.Kind{Name: refusal.Name, Reason: told.Code}
	if told.Code == CodeMisuse && !errors.Is(refusal, ErrInvalidPolicy) && !errors.Is(refusal, ErrReentrant) && !errors.Is(refusal, ErrNotAcquired) {
		kind.Mistake = refusal.Err.Error()
	}
	quiet, ok := l.refusals.Admits(kind, time.Now())
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
