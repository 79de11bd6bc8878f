package readme

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// mostLines is how long the README may be. It is for the first day; all else has a page in docs.
const mostLines = 250

func TestTheReadmeIsForTheFirstDay(t *testing.T) {
	text, err := os.ReadFile(root + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines > mostLines {
		t.Errorf("README.md has %d lines, want %d at most: move what is not for the first day into docs", lines, mostLines)
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	dir := os.DirFS(root)
	for _, page := range pages(t, dir) {
		for _, l := range links(t, dir, page) {
			if err := l.check(dir); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestEveryPageIsReachedFromTheReadme(t *testing.T) {
	dir := os.DirFS(root)
	reached := reachable(t, dir, "README.md")
	for _, page := range pages(t, dir) {
		if !reached[page] {
			t.Errorf("no link leads from README.md to %s, nor from a page that one leads to", page)
		}
	}
}

// A check that finds nothing would pass, too.
func TestLinksThatLeadNowhereAreFound(t *testing.T) {
	dir := fstest.MapFS{}
	for name, text := range map[string]string{
		"README.md": "# A\n\n[page](docs/a.md) and `[code](docs/none.md)`\n\n    [code](docs/none.md)\n\n```go\n// [code](docs/none.md)\n```\n",
		"docs/a.md": "# Keys & \"values\"\n\n## At 3 a.m.\n\n## `FailOpen`\n\n## Twice\n\n## Twice\n\n[1](../README.md#a) [2](#at-3-am) [3](#failopen) [4](#twice-1) [5](a.md#keys--values) [6](https://example.com/none#x)\n",
		"docs/b.md": "# B\n\n![a picture](none.png)\n[a page](none.md) [a heading](a.md#none), [here](#none) [outside](../../a.md) [with a\nbreak](none2.md)\n",
	} {
		dir[name] = &fstest.MapFile{Data: []byte(text)}
	}
	var got []string
	for _, page := range []string{"README.md", "docs/a.md", "docs/b.md"} {
		for _, l := range links(t, dir, page) {
			if err := l.check(dir); err != nil {
				got = append(got, err.Error())
			}
		}
	}
	want := []string{
		"docs/b.md:3: there is no none.png",
		"docs/b.md:4: there is no none.md",
		"docs/b.md:4: a.md has no heading #none",
		"docs/b.md:4: docs/b.md has no heading #none",
		"docs/b.md:4: there is no ../../a.md",
		"docs/b.md:5: there is no none2.md",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got, want := slices.Sorted(maps.Keys(reachable(t, dir, "README.md"))), []string{"README.md", "docs/a.md"}; !slices.Equal(got, want) {
		t.Errorf("reached are %q, want %q", got, want)
	}
}

// pages returns the documents whose links are checked.
func pages(t *testing.T, dir fs.FS) []string {
	t.Helper()
	all := []string{"README.md", "CONTRIBUTING.md"}
	err := fs.WalkDir(dir, "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) == ".md" {
			all = append(all, name)
		}
		return err
	})
	if err != nil || len(all) < 3 {
		t.Fatalf("found are %q: %v", all, err)
	}
	return all
}

// A link is one within the repository, as a page has it.
type link struct {
	page     string
	line     int
	target   string // as it is written
	file     string // seen from the root
	fragment string
}

// A link is not taken for one in code, whether in a line or in a block.
var (
	inlineCode = regexp.MustCompile("`[^`\n]*`")
	linked     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
)

// links returns the links of a page that lead to files of the repository.
func links(t *testing.T, dir fs.FS, page string) (found []link) {
	t.Helper()
	for i, line := range prose(t, dir, page) {
		for _, m := range linked.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s:%d: %v", page, i+1, err)
				continue
			}
			if u.IsAbs() {
				continue
			}
			l := link{page: page, line: i + 1, target: u.Path, file: page, fragment: u.Fragment}
			if u.Path == "" {
				l.target = page
			} else {
				l.file = path.Join(path.Dir(page), u.Path)
			}
			found = append(found, l)
		}
	}
	return found
}

// check returns nil if the link leads to something that is there.
func (l link) check(dir fs.FS) error {
	if !fs.ValidPath(l.file) {
		return fmt.Errorf("%s:%d: there is no %s", l.page, l.line, l.target)
	}
	if _, err := fs.Stat(dir, l.file); err != nil {
		return fmt.Errorf("%s:%d: there is no %s", l.page, l.line, l.target)
	}
	if l.fragment == "" {
		return nil
	}
	text, err := fs.ReadFile(dir, l.file)
	if err != nil || !slices.Contains(anchors(string(text)), l.fragment) {
		return fmt.Errorf("%s:%d: %s has no heading #%s", l.page, l.line, l.target, l.fragment)
	}
	return nil
}

// reachable returns the files that links lead to from a page, also by way of others.
func reachable(t *testing.T, dir fs.FS, from string) map[string]bool {
	t.Helper()
	reached, next := map[string]bool{from: true}, []string{from}
	for len(next) > 0 {
		page := next[0]
		next = next[1:]
		for _, l := range links(t, dir, page) {
			if path.Ext(l.file) == ".md" && !reached[l.file] && l.check(dir) == nil {
				reached[l.file] = true
				next = append(next, l.file)
			}
		}
	}
	return reached
}

// prose returns the lines of a page; those of code blocks are empty.
func prose(t *testing.T, dir fs.FS, page string) []string {
	t.Helper()
	text, err := fs.ReadFile(dir, page)
	if err != nil {
		t.Fatal(err)
	}
	return withoutCode(string(text))
}

func withoutCode(text string) []string {
	lines := strings.Split(text, "\n")
	fence := false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "```"):
			fence, lines[i] = !fence, ""
		case fence, strings.HasPrefix(line, "    "):
			lines[i] = ""
		}
	}
	return lines
}

// anchors returns the names that GitHub gives to the headings of a page: lower case, without
// punctuation, a dash for each blank, and a number behind the second of the same name.
func anchors(text string) (all []string) {
	seen := make(map[string]int)
	for _, line := range withoutCode(text) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		name := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(title))
		if n := seen[name]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", name, n))
		} else {
			all = append(all, name)
		}
		seen[name]++
	}
	return all
}
