package redistest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// ACLRules returns the rules that a page gives a user of Redis, in its line "redis-cli ACL SETUSER user …", which may go on behind a backslash.
// They are as a shell takes them: without quotes '>password' is a file there, and what begins with '&' a command.
func ACLRules(tb testing.TB, page, user string) []string {
	tb.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		tb.Fatal(err)
	}
	_, line, found := strings.Cut(string(text), "    redis-cli ACL SETUSER "+user+" ")
	line, _, ended := strings.Cut(line, "\n\n")
	if !found || !ended {
		tb.Fatalf("%s has no line that begins with redis-cli ACL SETUSER %s, and an empty one behind it", page, user)
	}
	shell := exec.CommandContext(tb.Context(), "sh", "-c", "printf '%s\n' "+line)
	shell.Dir = tb.TempDir()
	words, err := shell.Output()
	if err != nil {
		tb.Fatalf("a shell, of the line of %s in %s: %v", user, page, err)
	}
	return strings.Fields(string(words))
}
