package report

import (
	"os"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/golden"
)

// What docs/speed.md tells stands between these two lines of it.
const (
	opening = "<!-- bench: the part \"In short\" of bench/results/RESULTS.md; `go test ./report -update` in bench/ copies it -->\n\n"
	closing = "<!-- bench: end -->\n"
)

func TestTheDocumentTellsTheResults(t *testing.T) {
	const path = "../../docs/speed.md"
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, rest, ok := strings.Cut(read("../results/RESULTS.md"), shortTitle)
	want, _, ends := strings.Cut(rest, "## ")
	before, rest, begins := strings.Cut(read(path), opening)
	_, after, closes := strings.Cut(rest, closing)
	if !ok || !ends || !begins || !closes {
		t.Fatal("the results or docs/speed.md have no such part")
	}
	golden.Check(t, path, before+opening+want+closing+after)
}
