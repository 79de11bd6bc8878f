package lockgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	pathpkg "path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A listed package is what `go list` says of one.
type listed struct {
	ImportPath, Name, Dir, Export string

	GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string

	ImportMap map[string]string
	DepOnly   bool
	Error     *struct{ Err string }
}

// A loader reads packages: those that are asked for from their source, and what they
// import from what the compiler has made of it. Where it has made nothing, because a
// package does not compile while its own generated file is missing, the loader reads
// that one from its source, too.
type loader struct {
	fset   *token.FileSet
	all    map[string]*listed
	gc     types.Importer
	source map[string]*types.Package // read from source, by import path; nil while it is read
}

// A pack is a package that was asked for.
type pack struct {
	*listed

	fset           *token.FileSet
	all            map[string]*listed // and what it imports
	files          []*file            // without those that lockgen has written, and without tests
	outside        []*file            // tests, and files that this build leaves out; not type-checked
	written        []*file            // by lockgen
	types          *types.Package
	typeErrors     []types.Error // what the type checker has complained of
	syntaxProblems []Problem     // what is no Go
}

// A file is a source file of a package.
type file struct {
	path    string
	syntax  *ast.File
	build   string // a //go:build line for the builds that it is in; empty for all
	ignored bool   // this build leaves it out
}

// load reads the packages that match the patterns in a folder. flags are those of the
// build, such as -race: what was built with them is not built again without.
func load(ctx context.Context, dir string, flags, patterns []string) (*loader, []*pack, error) {
	l := &loader{fset: token.NewFileSet(), all: make(map[string]*listed), source: make(map[string]*types.Package)}
	args := slices.Concat([]string{"list", "-e", "-export", "-deps",
		"-json=ImportPath,Name,Dir,Export,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,ImportMap,DepOnly,Error"}, flags, []string{"--"}, patterns)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr // with -e, what a compiler said of a package that does not compile
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var asked []*listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, nil, fmt.Errorf("go list: %w", err)
		}
		l.all[p.ImportPath] = p
		if !p.DepOnly {
			asked = append(asked, p)
		}
	}
	l.gc = importer.ForCompiler(l.fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(l.all[path].Export)
	})
	if len(asked) == 0 { // the go command says no more than a warning
		return nil, nil, fmt.Errorf("go list: no packages match %s", strings.Join(patterns, " "))
	}
	var packs []*pack
	for _, p := range asked {
		if p.ImportPath == "command-line-arguments" {
			return nil, nil, fmt.Errorf("%s: name the package, such as . or ./shop: a file alone lacks what the others declare", strings.Join(patterns, " "))
		}
		if p.Error != nil && len(p.GoFiles)+len(p.CgoFiles)+len(p.IgnoredGoFiles)+len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			hint := ""
			if len(patterns) == 1 && strings.Contains(p.Error.Err, "no Go files in") {
				hint = "; did you mean " + strings.TrimSuffix(patterns[0], "/") + "/...?"
			}
			return nil, nil, fmt.Errorf("go list: %s%s", p.Error.Err, hint)
		}
		packs = append(packs, l.parse(p))
	}
	return l, packs, nil
}

// parse reads the files of a package.
func (l *loader) parse(p *listed) *pack {
	read := &pack{listed: p, fset: l.fset, all: l.all}
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		read.add(name, false)
	}
	for _, name := range p.IgnoredGoFiles {
		if !strings.HasPrefix(name, "_") && !strings.HasPrefix(name, ".") {
			read.add(name, true)
		}
	}
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		read.add(name, false)
	}
	return read
}

func (p *pack) add(name string, ignored bool) {
	f := &file{path: filepath.Join(p.Dir, name), ignored: ignored}
	text, err := os.ReadFile(f.path)
	if isWritten(text) { // it will be written anew, whatever a merge has left there
		p.written = append(p.written, f)
		return
	}
	if err == nil {
		f.syntax, err = parser.ParseFile(p.fset, f.path, text, parser.ParseComments|parser.SkipObjectResolution)
	}
	if err != nil && !ignored {
		if list := (scanner.ErrorList{}); errors.As(err, &list) {
			for _, e := range list {
				p.syntaxProblems = append(p.syntaxProblems, Problem{Position: e.Pos, Text: e.Msg})
			}
		} else {
			p.syntaxProblems = append(p.syntaxProblems, Problem{Position: token.Position{Filename: f.path}, Text: err.Error()})
		}
	}
	if f.syntax == nil || f.syntax.Name == nil {
		return
	}
	f.build = buildLine(f.syntax)
	if ignored || strings.HasSuffix(name, "_test.go") {
		p.outside = append(p.outside, f)
	} else {
		p.files = append(p.files, f)
	}
}

// header is the first line of what lockgen writes.
const header = "// Code generated by lockgen; DO NOT EDIT."

// isWritten reports whether the header stands in a line of its own above the package
// clause.
func isWritten(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case string(line) == header:
			return true
		case bytes.HasPrefix(line, []byte("package ")):
			return false
		}
	}
	return false
}

// buildLine returns the line of a file that says in which builds it is. A file that
// imports C is in those with cgo only, without a line of its own.
func buildLine(f *ast.File) string {
	line := ""
	for _, group := range f.Comments {
		if group.Pos() > f.Package {
			break
		}
		for _, c := range group.List {
			if constraint.IsGoBuild(c.Text) {
				line = c.Text
			}
		}
	}
	if !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"C"` }) {
		return line
	}
	var cgo constraint.Expr = &constraint.TagExpr{Tag: "cgo"}
	if own, err := constraint.Parse(line); err == nil {
		cgo = &constraint.AndExpr{X: cgo, Y: own}
	}
	return "//go:build " + cgo.String()
}

// check type-checks a package as far as its declarations go. Function bodies do not
// matter, nor do mistakes elsewhere: names that are still to be generated are unknown.
func (l *loader) check(p *pack) {
	files := make([]*ast.File, len(p.files))
	for i, f := range p.files {
		files[i] = f.syntax
	}
	p.types = l.typesOf(p.listed, files, func(err error) {
		if e, ok := errors.AsType[types.Error](err); ok {
			p.typeErrors = append(p.typeErrors, e)
		}
	})
}

func (l *loader) typesOf(p *listed, files []*ast.File, complain func(error)) *types.Package {
	config := types.Config{
		Importer:         importerOf{l, p},
		FakeImportC:      true,
		IgnoreFuncBodies: true,
		Error:            complain,
	}
	checked, _ := config.Check(p.ImportPath, l.fset, files, nil) // its error is the first of those told
	return checked
}

// importedBy returns what a file of the package calls the packages that it imports.
func (p *pack) importedBy(f *file) (names []string) {
	for _, spec := range f.syntax.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		switch {
		case err != nil:
		case spec.Name != nil:
			names = append(names, spec.Name.Name)
		default:
			names = append(names, p.nameOf(importPath))
		}
	}
	return names
}

// nameOf returns the name of the package that an import path means in the package.
func (p *pack) nameOf(importPath string) string {
	found := importPath
	if mapped := p.ImportMap[importPath]; mapped != "" {
		found = mapped
	}
	if known := p.all[found]; known != nil && known.Name != "" {
		return known.Name
	}
	return pathpkg.Base(importPath)
}

// importerOf imports what a package imports.
type importerOf struct {
	*loader

	pkg *listed
}

// Import returns the package that an import path means in the package.
func (i importerOf) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if mapped := i.pkg.ImportMap[path]; mapped != "" {
		path = mapped
	}
	p := i.all[path]
	switch {
	case p == nil:
		return nil, fmt.Errorf("package %s is not known to go list", path)
	case p.Export != "":
		return i.gc.Import(path)
	}
	if known, begun := i.source[path]; begun {
		if known == nil {
			return nil, fmt.Errorf("package %s imports itself, perhaps by others", path)
		}
		return known, nil
	}
	var files []*ast.File
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
		f, _ := parser.ParseFile(i.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if f != nil {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		reason := "it has no Go files"
		if p.Error != nil {
			reason = p.Error.Err
		}
		return nil, fmt.Errorf("package %s: %s", path, reason)
	}
	i.source[path] = nil
	i.source[path] = i.typesOf(p, files, func(error) {})
	return i.source[path], nil
}
