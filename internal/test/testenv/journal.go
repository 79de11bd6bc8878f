package testenv

import (
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/lockmw/kit/lockmw"
)

// A Journal has what a Locker logs, as text. A Locker writes in the background: wait for a line.
type Journal struct {
	mu   sync.Mutex
	text strings.Builder
}

// Option has a Locker log here.
func (j *Journal) Option() lockmw.Option {
	return lockmw.WithLogger(slog.New(slog.NewTextHandler(j, nil)))
}

// Write takes a line. It is for the logger.
func (j *Journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

// Lines returns the lines that have all parts in them.
func (j *Journal) Lines(parts ...string) (lines []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Count is how many lines have all parts.
func (j *Journal) Count(parts ...string) int { return len(j.Lines(parts...)) }

// Text returns all that was logged.
func (j *Journal) Text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// Logged has a new Locker take the place of r.Locks, with a log of its own: most lines are logged once a second at most, for each
// Name and code.
func (r *Env) Logged(opts ...lockmw.Option) *Journal {
	r.Helper()
	log := new(Journal)
	r.Locks = r.NewLocker(append(opts, log.Option())...)
	return log
}
