package readme

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const architecture = root + "/docs/architecture.md"

// The document shows the picture that stands in the package comment: there it is read by those
// who change the code, here by those who want to know what there is.
func TestArchitectureShowsTheStatesOfAWaiter(t *testing.T) {
	comment := comments(t, "internal/waitqueue")["internal/waitqueue"]
	_, picture, _ := strings.Cut(comment, "A waiter is in one of seven states:\n\n")
	picture, _, ok := strings.Cut(picture, "\n\n")
	if !ok {
		t.Fatal("the comment of internal/waitqueue has no picture")
	}
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	if indented := "    " + strings.ReplaceAll(leftAligned(picture), "\n", "\n    "); !strings.Contains(string(text), indented) {
		t.Errorf("docs/architecture.md does not have the picture of internal/waitqueue, which is\n%s", indented)
	}
}

// A row of a table that names a method or function and its file.
var placed = regexp.MustCompile("(?m)^\\|(?: \\w+ \\|)? `([a-z]+)\\.(?:\\(\\*(\\w+)\\)\\.)?(\\w+)` \\| (\\S+\\.go) \\|")

// A file with its folder.
var pathed = regexp.MustCompile(`\b(?:[a-z0-9]+/)+\w+\.(?:go|lua)\b`)

func TestArchitectureNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	rows := placed.FindAllStringSubmatch(string(text), -1)
	if len(rows) == 0 {
		t.Fatal("docs/architecture.md names no function")
	}
	for _, row := range rows {
		if err := declares(filepath.Join(root, row[4]), row[1], row[2], row[3]); err != nil {
			t.Error(err)
		}
	}
	files := pathed.FindAllString(string(text), -1)
	if len(files) == 0 {
		t.Fatal("docs/architecture.md names no file")
	}
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Errorf("docs/architecture.md names a file that is not there: %v", err)
		}
	}
}

// Whoever looks for something finds each file of lockmw.
func TestEachFileOfTheEngineIsNamed(t *testing.T) {
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Where each thing is\n")
	section, _, _ = strings.Cut(section, "\nIn the other packages")
	files, err := filepath.Glob(root + "/lockmw/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("lockmw has the files %q, %v", files, err)
	}
	for _, path := range files {
		file := filepath.Base(path)
		if strings.HasSuffix(file, "_test.go") || file == "doc.go" {
			continue
		}
		if !regexp.MustCompile(`[ ,;|]` + regexp.QuoteMeta(file) + `\b`).MatchString(section) {
			t.Errorf("docs/architecture.md does not say what is in lockmw/%s", file)
		}
	}
	for _, file := range regexp.MustCompile(`\b[a-z]+\.go\b`).FindAllString(section, -1) {
		if !slices.Contains(files, filepath.Join(root, "lockmw", file)) {
			t.Errorf("docs/architecture.md names lockmw/%s, which is not there", file)
		}
	}
}

// A check that finds nothing would pass, too.
func TestWhatIsNotThereIsFound(t *testing.T) {
	file := filepath.Join(root, "lockmw/lease.go")
	if err := declares(file, "lockmw", "Lease", "Key"); err != nil {
		t.Error(err)
	}
	if err := declares(file, "lockmw", "", "FromContext"); err != nil {
		t.Error(err)
	}
	for _, other := range [][3]string{{"lockmw", "Lease", "None"}, {"lockmw", "Locker", "Key"}, {"lockmw", "", "Key"}, {"other", "Lease", "Key"}} {
		if err := declares(file, other[0], other[1], other[2]); err == nil {
			t.Errorf("%q is found", other)
		}
	}
}

// declares returns nil if the file is of the package and declares the function, or the method of
// a pointer to the type.
func declares(name, pkg, typ, function string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if file.Name.Name == pkg {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == function && receiver(f) == typ {
				return nil
			}
		}
	}
	return fmt.Errorf("%s does not declare %s of %q in package %s", name, function, typ, pkg)
}

// receiver returns the type of which f is a method, by a pointer; empty: of none.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	if star, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
		if name, ok := star.X.(*ast.Ident); ok {
			return name.Name
		}
	}
	return "?"
}

// A row of the table of words; what stands in brackets behind a word says how it is used.
var defined = regexp.MustCompile(`(?m)^\| ([^|(]+?)(?: \([^|]*\))? \| .+ \|$`)

func TestWordsAreSortedAndInUse(t *testing.T) {
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	words := definedIn(string(text))
	if n := len(words); n < 30 || n > 45 {
		t.Fatalf("docs/architecture.md defines %d words, want one for each idea, and 45 at most to learn: %q", n, words)
	}
	if !slices.IsSorted(words) {
		t.Errorf("the words of docs/architecture.md are not sorted: %q", words)
	}
	code := engine(t)
	for _, word := range words {
		if !uses(code, word) {
			t.Errorf("docs/architecture.md defines %q, which the code does not use", word)
		}
	}
}

// A check that finds nothing would pass, too.
func TestAWordThatNobodyUsesIsFound(t *testing.T) {
	words := definedIn("# Page\n\n## Words\n\n| word | meaning |\n|---|---|\n| Beta | b |\n| alpha (to) | a |\n\n## Other\n\n| gamma | c |\n")
	if want := []string{"beta", "alpha"}; !slices.Equal(words, want) {
		t.Errorf("defined are %q, want %q", words, want)
	}
	if code := engine(t); uses(code, "leas") || uses(code, "mint condition") || !uses(code, "hand-over") {
		t.Error("a part of a word is taken for a word, or one that is there is not found")
	}
}

// definedIn returns the words of the section of that name, in lower case.
func definedIn(text string) (words []string) {
	_, section, _ := strings.Cut(text, "\n## Words\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range defined.FindAllStringSubmatch(section, -1) {
		if word := strings.ToLower(row[1]); word != "word" && strings.Trim(word, "-") != "" {
			words = append(words, word)
		}
	}
	return words
}

// engine returns the code of lockmw and of what it is made of, in lower case.
func engine(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range []string{"lockmw", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(name string, d os.DirEntry, err error) error {
			if d != nil && d.IsDir() && (d.Name() == "check" || d.Name() == "test" || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			ext := filepath.Ext(name)
			if err != nil || ext != ".go" && ext != ".lua" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := os.ReadFile(name)
			all.WriteString(strings.ToLower(string(text)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// uses reports whether word, or word with an s, stands in code.
func uses(code, word string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `s?\b`).MatchString(code)
}
