package scenario

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// A Row is what a scenario's rounds have shown for one library.
type Row struct {
	Scenario Scenario
	Library  string
	Figures  Figures
	Err      string // why there are no figures, or not of all rounds
}

// Rounds measures all scenarios whose name matches only, round after round:
// what happens on the machine meanwhile meets all alike. Each round begins
// with another library. Progress is told to say. Profiles go to the folder
// profiles, if there is one.
//
// A measurement that fails leaves its error in its row; only the end of ctx
// ends the rounds.
func (b *Bench) Rounds(ctx context.Context, list []Scenario, only *regexp.Regexp, profiles string, say func(string)) ([]Row, error) {
	var rows []Row
	var most int
	for _, c := range list {
		if !only.MatchString(c.Name) {
			continue
		}
		most = max(most, c.Rounds)
		for _, lib := range c.Libraries {
			rows = append(rows, Row{Scenario: c, Library: lib})
		}
	}
	seen := make([][]Seen, len(rows))
	for round := range most {
		for start := 0; start < len(rows); {
			n := len(rows[start].Scenario.Libraries)
			for i := range n {
				at := start + (i+round)%n
				row := &rows[at]
				if round >= row.Scenario.Rounds {
					continue
				}
				got, err := b.Measure(ctx, row.Scenario, row.Library, profileOf(profiles, row))
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				if err != nil {
					row.Err = err.Error()
					say(row.Err)
					continue
				}
				seen[at] = append(seen[at], got)
				say(fmt.Sprintf("%d/%d  %-38s %-14s ", round+1, most, row.Scenario.Name, row.Library) + got.String())
			}
			start += n
		}
	}
	for i := range rows {
		rows[i].Figures = FiguresOf(seen[i])
	}
	return rows, nil
}

// profileOf returns a file's name.
func profileOf(folder string, row *Row) string {
	if folder == "" {
		return ""
	}
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" ,:/", r) {
			return '-'
		}
		return r
	}, row.Scenario.Name+" "+row.Library)
	return filepath.Join(folder, name+".prof")
}
