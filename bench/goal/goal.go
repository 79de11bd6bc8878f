// Package goal compares what was measured with what was promised.
package goal

import (
	"fmt"
	"math"
	"strings"
)

// A Verdict says whether a goal is met.
type Verdict string

// The verdicts.
const (
	Met         Verdict = "yes"
	Missed      Verdict = "no"
	NotMeasured Verdict = "not measured"
)

// A Goal is what was promised, and what was seen.
type Goal struct {
	Text     string
	Measured string
	Met      Verdict
}

// A part is one of the figures that a goal is judged by.
type part struct {
	label  string
	value  float64 // NaN: not measured
	format string  // of the value
	note   string
}

// as returns p with a label.
func (p part) as(label string) part {
	p.label = label
	return p
}

// judge returns the goal that all parts are at least (or at most) limit.
func judge(text string, atLeast bool, limit float64, parts []part) Goal {
	g := Goal{Text: text, Met: Met}
	said := make([]string, 0, len(parts))
	for _, p := range parts {
		if math.IsNaN(p.value) {
			said = append(said, p.label+"–")
			if g.Met == Met {
				g.Met = NotMeasured
			}
			continue
		}
		said = append(said, p.label+fmt.Sprintf(p.format, p.value)+p.note)
		if atLeast && p.value < limit || !atLeast && p.value > limit {
			g.Met = Missed
		}
	}
	if len(parts) == 0 {
		g.Met = NotMeasured
	}
	g.Measured = strings.Join(said, "; ")
	return g
}

func atLeast(limit float64, text string, parts ...part) Goal { return judge(text, true, limit, parts) }
func atMost(limit float64, text string, parts ...part) Goal  { return judge(text, false, limit, parts) }
