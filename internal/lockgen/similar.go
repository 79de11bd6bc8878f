package lockgen

import (
	"fmt"
	"strings"
)

// oneOf ends a reason: with the known name that the wrong one resembles, or with all of
// them.
func oneOf(wrong string, known []string) string {
	if name := similar(wrong, known); name != "" {
		return fmt.Sprintf("did you mean %q?", name)
	}
	return "known are " + quoteList(known)
}

// similar returns the name that is meant by a wrong one, if it differs in nothing but
// case and punctuation, or in one letter that is wrong, missing, doubled or at its
// neighbour's place.
func similar(wrong string, known []string) string {
	for _, name := range known {
		if plainName(name) == plainName(wrong) {
			return name
		}
	}
	for _, name := range known {
		if oneSlip(plainName(wrong), plainName(name)) {
			return name
		}
	}
	return ""
}

// plainName is a name without case and punctuation.
func plainName(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
}

// oneSlip reports whether two names of two letters or more differ in one place.
func oneSlip(a, b string) bool {
	if min(len(a), len(b)) < 2 {
		return false
	}
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	swapped := len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
	return len(a) <= 1 && len(b) <= 1 || swapped
}
