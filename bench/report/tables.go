package report

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lockmw/kit/bench/scenario"
)

// scenarios writes one table for each scenario that is no point of a curve, and
// whose turns were taken.
func (r Report) scenarios(b *bytes.Buffer) {
	last := ""
	for _, row := range r.Rows {
		if row.Scenario.Curve != "" || row.Scenario.Spec.Replay > 0 || row.Figures.Rounds == 0 {
			continue
		}
		if row.Scenario.Name != last {
			if last != "" {
				b.WriteString("\n")
			}
			last = row.Scenario.Name
			fmt.Fprintf(b, "### %s\n\n", last)
			over := row.Scenario.Name == scenario.HandOver
			b.WriteString("| | turns/s | spread | p50 wait | p99 wait | max wait | most / fewest | commands | calls | bytes | allocations | client CPU | Redis CPU | connections |" + only(over, " hand-over |"))
			b.WriteString("\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|" + only(over, "---|") + "\n")
		}
		line(b, row)
	}
	if last != "" {
		b.WriteString("\n")
	}
}

func only(when bool, s string) string {
	if when {
		return s
	}
	return ""
}

func line(b *bytes.Buffer, row scenario.Row) {
	f := row.Figures
	fmt.Fprintf(b, "| %s | %s | %s–%s | %s | %s | %s | %.0f / %.0f | %.2f | %.2f | %.0f | %.0f | %s | %s | %.0f |",
		row.Library, number(f.PerSecond.Median), number(f.PerSecond.Least), number(f.PerSecond.Most),
		duration(f.P50), duration(f.P99), duration(f.Max), f.Most, f.Fewest,
		f.Commands, f.Calls, f.Bytes, f.Allocs, duration(f.ClientCPU), duration(f.RedisCPU), f.Connections)
	if row.Scenario.Name == scenario.HandOver {
		fmt.Fprintf(b, " %.2f |", f.HandOver)
	}
	b.WriteString("\n")
}

// number writes a whole number with commas.
func number(v float64) string {
	s := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// duration writes three digits: 12.3 µs, 4.56 ms.
func duration(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if d >= unit.size {
			v := float64(d) / float64(unit.size)
			return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Log10(v))), 64) + " " + unit.name
		}
	}
	return strconv.Itoa(int(d)) + " ns"
}
