package readme

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSnippetsCompileAsPrinted compares each recipe with its file. Here, no file is left out: of
// the recipes every file is printed, but for tests and what was generated.
func TestEveryRecipeIsPrinted(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, recipesDocument))
	if err != nil {
		t.Fatal(err)
	}
	printed := make(map[string]bool)
	for _, s := range fenced(recipesDocument, string(text)) {
		name, ok := recipeName(s)
		if !ok || printed[name] {
			t.Errorf("%s:%d: %q names no file, or one that is printed already", s.name, s.line, s.above)
		}
		printed[name] = true
	}
	wanted := recipeFiles(t, os.DirFS(filepath.Join(root, recipes)))
	if got := slices.Sorted(maps.Keys(printed)); !slices.Equal(got, wanted) {
		t.Errorf("%s prints\n%q, want\n%q", recipesDocument, got, wanted)
	}
}

// recipeFiles returns the files that are to be printed, sorted.
func recipeFiles(t *testing.T, dir fs.FS) []string {
	t.Helper()
	files, err := fs.Glob(dir, "*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	return slices.DeleteFunc(files, func(name string) bool {
		isTest := strings.HasSuffix(name, "_test.go") && name != "handlertest/shop_test.go" // this one is a recipe itself
		return isTest || strings.HasSuffix(name, ".pb.gw.go")
	})
}

func TestARecipeThatIsNotItsFileIsFound(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, recipes, "cron/main.go"))
	if err != nil {
		t.Fatal(err)
	}
	code := string(text)
	right := snippet{name: recipesDocument, line: 7, above: "**cron/main.go**", code: code}
	if err := isExample(right); err != nil {
		t.Error(err)
	}
	for _, tc := range []struct {
		name, above, code, want string
	}{
		{"another word", right.above, strings.Replace(code, "package main", "package cron", 1), `docs/recipes.md:9: "package cron" is not line 3`},
		{"a line more", right.above, code + "// more\n", "docs/recipes.md:"},
		{"a line less", right.above, strings.TrimSuffix(code, "}\n"), "docs/recipes.md:"},
		{"no name in front", "The code:", code, "names its file"},
		{"a file that is not there", "**cron/none.go**", code, "none.go"},
		{"a file elsewhere", "**../nethttp/main.go**", code, "names its file"},
	} {
		err := isExample(snippet{name: recipesDocument, line: 7, above: tc.above, code: tc.code})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: err = %v, want %q", tc.name, err, tc.want)
		}
	}
}
