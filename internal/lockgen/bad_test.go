package lockgen_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/lockgen"
)

// Each package in this folder is wrong, and says where and how: a comment
//
//	// want COLUMN: message
//
// is about the line it stands in, or, alone in its line, about the next line with
// something else.
const bad = "./testdata/bad/..."

func TestMistakesAreReportedWhereTheyAre(t *testing.T) {
	before := filesBelow(t, "testdata/bad")
	done, err := lockgen.Generate(t.Context(), lockgen.Request{Patterns: []string{bad}, Flags: lockgen.BuildFlags()})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range done.Problems {
		got = append(got, p.String())
	}
	want := wanted(t, "testdata/bad")
	for _, p := range got {
		if !slices.Contains(want, p) {
			t.Errorf("not wanted: %s", p)
		}
	}
	for _, p := range want {
		if !slices.Contains(got, p) {
			t.Errorf("missing: %s", p)
		}
	}
	if len(want) < 100 {
		t.Errorf("only %d mistakes", len(want))
	}
	if after := filesBelow(t, "testdata/bad"); len(done.Changed) > 0 || !slices.Equal(before, after) {
		t.Errorf("written were %q; files are %q, were %q", done.Changed, after, before)
	}
}

var wantComment = regexp.MustCompile(`// want (\d+): (.*)$`)

// wanted returns the problems that the files below a folder say they have.
func wanted(t *testing.T, dir string) (all []string) {
	t.Helper()
	for _, path := range filesBelow(t, dir) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var above []string
		for i, line := range strings.Split(string(text), "\n") {
			found := wantComment.FindStringSubmatchIndex(line)
			if found != nil {
				above = append(above, line[found[2]:])
				line = line[:found[0]]
			}
			if rest := strings.TrimSpace(line); rest == "" || rest == "//" {
				continue
			}
			for _, w := range above {
				column, message, _ := strings.Cut(w, ": ")
				all = append(all, fmt.Sprintf("%s:%d:%s: %s", path, i+1, column, message))
			}
			above = nil
		}
	}
	return all
}

func filesBelow(t *testing.T, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}
