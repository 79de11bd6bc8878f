package settings

import (
	"fmt"
	"slices"
)

// mostTold is how many names of policies, or patterns, one text for operators has.
const mostTold = 20

// First returns the first of many names or patterns, as operators are told them, and behind them that there are more, and how many. With more
// there are some besides that are not among all.
func First(all []string, more bool) []string {
	first := slices.Clone(all[:min(len(all), mostTold)])
	switch n := len(all) - len(first); {
	case more:
		first = append(first, "… and more")
	case n > 0:
		first = append(first, fmt.Sprintf("… and %d more", n))
	}
	return first
}
