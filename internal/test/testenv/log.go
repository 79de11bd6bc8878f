package testenv

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockmw/kit/lockmw"
)

// A Log is what a Locker logs of refusals.
type Log struct {
	mu    sync.Mutex
	lines []string
}

// Option has a Locker log here.
func (l *Log) Option() lockmw.Option { return lockmw.WithLogger(slog.New(l)) }

// Lines returns a line for each refusal: its level, its reason and its error. A
// Locker writes in the background; all lines are there once it is closed.
func (l *Log) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Want fails the test unless one refusal without a key was logged, of a lock of that
// name, with that code and error; or none, if the code is empty. Refusals that are no
// mistakes of the program may be logged again a second later.
func (l *Log) Want(tb testing.TB, name, code, says string) {
	tb.Helper()
	got, want := l.Lines(), []string(nil)
	switch code {
	case "":
	case lockmw.CodeMisuse:
		want = []string{fmt.Sprintf("ERROR %s lockmw: acquire \"\" for %q: %s", code, name, says)}
	default:
		want = []string{fmt.Sprintf("WARN %s lockmw: acquire \"\" for %q: %s", code, name, says)}
		got = slices.Compact(got)
	}
	if !slices.Equal(got, want) {
		tb.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Handle notes a record.
func (l *Log) Handle(_ context.Context, record slog.Record) error {
	var reason, err string
	record.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "reason":
			reason = a.Value.String()
		case "error":
			err = fmt.Sprint(a.Value.Any())
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%v %s %s", record.Level, reason, err))
	return nil
}

// Enabled is true.
func (l *Log) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs returns l.
func (l *Log) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup returns l.
func (l *Log) WithGroup(string) slog.Handler { return l }
