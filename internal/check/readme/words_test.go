package readme

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// glossary explains the words that users meet. What only the code calls by a name stands in docs/architecture.md.
const glossary = "docs/words.md"

var (
	emphasised = regexp.MustCompile(`\*([a-z-]+)\*`)
	explained  = regexp.MustCompile(`(?m)^\| ([^|]+) \| .+ \|$`)
)

// A page that sends its readers to the glossary for a word names one that stands there.
func TestWordsThatPagesNameAreExplained(t *testing.T) {
	dir := os.DirFS(root)
	named := 0
	for _, page := range pages(t, dir) {
		found, unexplained := namedIn(t, dir, page)
		named += found
		if len(unexplained) > 0 {
			t.Errorf("%s sends its readers to %s for %q, which it does not explain", page, glossary, unexplained)
		}
	}
	if named < 10 {
		t.Errorf("pages name %d words of the glossary: is the pattern still theirs?", named)
	}
}

// A check that finds nothing would pass, too.
func TestAWordThatIsNotExplainedIsFound(t *testing.T) {
	dir := fstest.MapFS{
		glossary:    {Data: []byte("# Words\n\n| word | meaning |\n|---|---|\n| lost, loss | gone |\n| `lease` | a lock |\n")},
		"docs/a.md": {Data: []byte("One *other*. Words such as *lease*, *loss* and *fence* are explained in [words.md](words.md). A *third*.\n")},
	}
	found, unexplained := namedIn(t, dir, "docs/a.md")
	if want := []string{"fence"}; found != 3 || !slices.Equal(unexplained, want) {
		t.Errorf("%d words are named, of which %q are not explained, want 3 and %q", found, unexplained, want)
	}
}

// namedIn returns how many words a page names where it sends its readers to the glossary, and those that have no row there.
func namedIn(t *testing.T, dir fs.FS, page string) (named int, unexplained []string) {
	t.Helper()
	text, err := fs.ReadFile(dir, glossary)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, row := range explained.FindAllStringSubmatch(string(text), -1) {
		words = append(words, strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ")...)
	}
	for _, line := range prose(t, dir, page) {
		for sentence := range strings.SplitSeq(line, ". ") {
			if !strings.Contains(sentence, "words.md)") {
				continue
			}
			for _, word := range emphasised.FindAllStringSubmatch(sentence, -1) {
				named++
				if !slices.Contains(words, word[1]) {
					unexplained = append(unexplained, word[1])
				}
			}
		}
	}
	return named, unexplained
}
