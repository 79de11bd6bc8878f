package report

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/bench/scenario"
)

// The few lines that docs/speed.md shows too.
const (
	shortTitle = "## In short\n\n"
	shortSays  = "Turns a second, and the wait that 1 % of the turns exceed:\n\n"
)

// shown are the scenarios of those lines, and what they are in words.
func shown() [][2]string {
	return [][2]string{
		{scenario.OwnKeys(1), "1 goroutine"},
		{scenario.OwnKeys(8), "8 goroutines, a key each"},
		{scenario.OwnKeys(64), "64 goroutines, a key each"},
		{scenario.OwnKeys(512), "512 goroutines, a key each"},
		{scenario.OneKey(16, 0), "16 goroutines, one key"},
		{scenario.OneKey(512, 0), "512 goroutines, one key"},
		{scenario.ManyProcesses, "4 processes × 16 goroutines, one key"},
		{scenario.Service, "4 processes × 8 goroutines, 10,000 keys, 5 ms inside"},
	}
}

func (r Report) short(b *bytes.Buffer) {
	libraries := append([]string{library.Ours}, library.Rivals()...)
	var lines bytes.Buffer
	for _, s := range shown() {
		cells, measured := make([]string, len(libraries)), false
		for _, row := range r.Rows {
			for i, name := range libraries {
				if row.Scenario.Name == s[0] && row.Library == name && row.Figures.Rounds > 0 {
					cells[i] = fmt.Sprintf("%s, %s", number(row.Figures.PerSecond.Median), duration(row.Figures.P99))
					measured = true
				}
			}
		}
		if measured {
			fmt.Fprintf(&lines, "| %s | %s |\n", s[1], strings.Join(cells, " | "))
		}
	}
	if lines.Len() == 0 {
		return
	}
	b.WriteString(shortTitle + shortSays)
	fmt.Fprintf(b, "| | %s |\n|---|%s\n", strings.Join(libraries, " | "), strings.Repeat("---|", len(libraries)))
	b.Write(lines.Bytes())
	b.WriteString("\n")
}
