// Package report writes what was measured as a page of markdown, and the
// curves beside it. tables.go, curves.go and pipeline.go each write one part, short.go
// the few lines that docs/speed.md has too, and env.go what the figures depend on.
package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockmw/kit/bench/goal"
	"github.com/lockmw/kit/bench/scenario"
)

// A Report is one run.
type Report struct {
	Env     Env
	Command string // to repeat it
	Kind    string // what kind of run it was, in a sentence
	Rows    []scenario.Row
}

// Write writes RESULTS.md and the curves into folder, which it makes.
func (r Report) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, c := range charts(r.Rows) {
		if err := os.WriteFile(filepath.Join(folder, c.file), c.chart.SVG(), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, "RESULTS.md"), r.Markdown(), 0o644)
}

// Markdown returns the page.
func (r Report) Markdown() []byte {
	var b bytes.Buffer
	b.WriteString("# Results\n\nWritten by `make bench`; do not edit.\n\n")
	if r.Kind != "" {
		fmt.Fprintf(&b, "**%s**\n\n", r.Kind)
	}
	r.Env.write(&b)
	fmt.Fprintf(&b, "To repeat: `%s`\n\n", r.Command)
	b.WriteString(meaning)
	r.short(&b)
	r.goals(&b)
	b.WriteString("## Scenarios\n\n")
	r.scenarios(&b)
	r.pipeline(&b)
	r.curves(&b)
	r.errors(&b)
	return b.Bytes()
}

const meaning = `All libraries run in one go, in rounds that begin with another library each. Figures are medians of the rounds;
the spread is the lowest and the highest round. Each measurement has processes, connections and an empty Redis of its own.

- **raw** is SET NX PX and a compare-and-delete script, without any promises, over go-redis's pool: the fewest commands, and
  not the highest speed. It polls where others have the lock.
- **own keys, 24**: 24 goroutines, each with a key that nobody else asks for, again and again; **new keys**: with another one in each turn, as in a service. **one key, 16**: 16 goroutines that all want the
  same, and do nothing under the lock (empty) or keep it for a millisecond. **4 processes x 16**: in each of four processes 16.
  **a service**: four processes with eight requests at a time, each for one of 10,000 keys, drawn at random, and 5 ms of work.
- **turn**: a lock is taken and given back; through a middleware, a request. **wait**: from asking to having it, so without the release; through a middleware,
  the whole request. A wait that the end of the window cuts short counts as long as it had lasted.
- **most / fewest**: turns of one goroutine.
- **commands** are what the client sends, counted on its connections; **calls** are what scripts call inside Redis. **bytes**
  are what Redis has received and sent. **allocations** and **client CPU** are the whole process's, with the measurement itself;
  through a middleware, the HTTP or gRPC client's and the server's too. All are per turn. **Redis CPU** is that of the thread that
  carries out commands. **connections** are those of one process to Redis, the most at a time.
- **delay** is added by a proxy to each round trip, half of it in each direction. A **hand-over** is measured from the beginning
  of a release to the entry of one who waited for it, divided by the time of a PING over the same proxy. The proxy shares the two
  cores, so it takes turns of its own, also where it adds no delay: compare with the line "0 ms".
- **through Gin**: a middleware of this library, and one that is written by hand over another; four requests at a time. **bare ginlock** is
  Gin without a lock.
- **best rival**: the one of redislock, redsync and rueidislock with the most turns a second in that scenario; with new keys also redislock
  and redsync over go-redis's auto-pipelining client, which is experimental there. **full duplex** is that client where it sends
  commands while it still waits for the replies to earlier ones.

`

func (r Report) goals(b *bytes.Buffer) {
	b.WriteString("## Goals\n\n| Goal | Measured | Met |\n|---|---|---|\n")
	for _, g := range goal.All(r.Rows) {
		fmt.Fprintf(b, "| %s | %s | %s |\n", g.Text, g.Measured, g.Met)
	}
	b.WriteString("\n")
}

// errors tells what went wrong, which no figure shows.
func (r Report) errors(b *bytes.Buffer) {
	title := "## Errors\n\n"
	line := func(row scenario.Row, format string, args ...any) {
		fmt.Fprintf(b, "%s- %s, %s: %s\n", title, row.Scenario.Name, row.Library, fmt.Sprintf(format, args...))
		title = ""
	}
	for _, row := range r.Rows {
		if row.Err != "" {
			line(row, "%s", row.Err)
		}
		if f := row.Figures; f.Errors > 0 {
			line(row, "%d locks failed, the first: %s", f.Errors, f.Error)
		}
	}
}
