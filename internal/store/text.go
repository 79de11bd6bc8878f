package store

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of texts that people read and that other programs may have written, in bytes.
const (
	MostOfNote   = 128
	MostOfAuthor = 128
	MostOfReason = 256
)

// Beginning returns the beginning of text, which has most bytes at the most and ends with a whole character.
func Beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// IsPrintable reports whether text is UTF-8 of which all is printed.
func IsPrintable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Printable returns text with U+FFFD in the place of what is no text, and of what is not printed, such as what moves a
// terminal's cursor.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, text)
}
