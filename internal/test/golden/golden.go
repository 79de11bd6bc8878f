// Package golden compares, in tests, what a test has made with a file of the repository.
// Where the two differ on purpose, `go test PACKAGE -update` writes the file anew, and the
// change is seen in review. It knows nothing of Redis or locks, so that every test may
// import it.
package golden

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files anew")

// Check fails the test unless got is what the file has. With -update it writes the file.
// The message begins with the first line that differs.
func Check(tb testing.TB, file, got string) {
	tb.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if got != string(want) {
		tb.Errorf("not what %s has (-update writes it anew):\n%s", file, difference(string(want), got))
	}
}

// difference returns both texts from their first line that differs on.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for len(w) > 0 && len(g) > 0 && w[0] == g[0] {
		w, g = w[1:], g[1:]
	}
	return "got\n" + strings.Join(g, "\n") + "\nwant\n" + strings.Join(w, "\n")
}
