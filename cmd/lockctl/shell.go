package main

import (
	"strings"
	"unicode"
)

// plain reports whether a key is nothing but itself wherever it stands in a command line of
// any shell: letters, digits and a few signs, with a letter or a digit in front, so that it
// is no option, no home and no job either. Clients of a service may choose its keys.
func plain(key string) bool {
	for i, r := range key {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && (i == 0 || !strings.ContainsRune(":_-./@%+,", r)) {
			return false
		}
	}
	return key != ""
}

// apart writes what would end a text in single quotes, or be an escape there for fish, behind
// a backslash between two such texts. bash, zsh, fish and sh read that alike.
var apart = strings.NewReplacer(`'`, `'\''`, `\`, `'\\'`)

// quoted is a key as people see it, and may paste it behind a command: in single quotes,
// unless it is plain. What printable replaces is lost: no shell finds such a key by it.
func quoted(key string) string {
	if plain(key) {
		return key
	}
	return "'" + apart.Replace(printable(key)) + "'"
}
