package report

import (
	"bytes"
	"fmt"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/scenario"
)

const pipelineMeaning = `What taking a free lock and giving it back costs Redis, and nothing else. Each library takes %s turns, one after
the other, on a key each, and every byte it sends is recorded. Those bytes are sent again and again through one connection,
as fast as Redis takes them, by a program that only compares the replies with the recorded ones. So Redis never waits, and its
time is what it does for the commands. **%s** is this library as it asks for a lock that it does not expect to be
free: by a script, without the four plain commands with which it takes one that is. **raw** is as above.

`

// pipeline writes what a free lock costs Redis.
func (r Report) pipeline(b *bytes.Buffer) {
	var rows []scenario.Row
	var redislock float64 // its time
	for _, row := range r.Rows {
		if row.Scenario.Spec.Replay > 0 && row.Figures.Rounds > 0 {
			rows = append(rows, row)
			if row.Library == library.Redislock {
				redislock = row.Figures.RedisTime.Median
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "### %s\n\n"+pipelineMeaning, rows[0].Scenario.Name, number(float64(rows[0].Scenario.Spec.Replay)), library.OursByScripts)
	b.WriteString("| | Redis's time, µs | spread | × redislock's | turns | commands | calls | bytes |\n|---|---|---|---|---|---|---|---|\n")
	for _, row := range rows {
		f, times := row.Figures, ""
		if redislock > 0 {
			times = fmt.Sprintf("%.2f", f.RedisTime.Median/redislock)
		}
		fmt.Fprintf(b, "| %s | %.2f | %.2f–%.2f | %s | %s | %.2f | %.2f | %.0f |\n", row.Library,
			f.RedisTime.Median, f.RedisTime.Least, f.RedisTime.Most, times,
			number(float64(f.Turns)), f.Commands, f.Calls, f.Bytes)
	}
	b.WriteString("\n")
}
