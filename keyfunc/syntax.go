package keyfunc

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SyntaxError says what is wrong with a template, and where.
type SyntaxError struct {
	Template string // the whole template
	Column   int    // where, in runes, counted from 1
	Reason   string // what is wrong and, where it helps, what would be right
}

// Error returns the column and the reason, and below them the template with a
// mark under that column.
func (e *SyntaxError) Error() string {
	// One character for each rune, so that the mark stands in its place.
	shown := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, e.Template)
	return fmt.Sprintf("keyfunc: template, column %d: %s\n\t%s\n\t%s^",
		e.Column, e.Reason, shown, strings.Repeat(" ", max(e.Column-1, 0)))
}

// oneOf ends a reason: with the known name that the wrong one resembles, or
// with all of them.
func oneOf(wrong string, known []string) string {
	for _, name := range known {
		// Two slips in five letters are a slip, two in three another word.
		if strings.EqualFold(wrong, name) || 2*distance(wrong, name) < len(wrong) {
			return fmt.Sprintf("did you mean %q?", name)
		}
	}
	return knownAre + strings.Join(known, ", ")
}

const knownAre = "known are "

// distance returns how many bytes must be inserted, removed or replaced to
// turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // from a[:i] to each b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
