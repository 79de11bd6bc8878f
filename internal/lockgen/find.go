package lockgen

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// A target is what a directive stands above.
type target struct {
	*directive

	file *file
	name *ast.Ident    // of the method or function
	decl *ast.FuncDecl // nil for the method of an interface
	of   *ast.TypeSpec // the interface; nil elsewhere
}

// A finder collects the directives of a package.
type finder struct {
	pack    *pack
	targets []*target
	issues  []issue
	// otherBuilds are the directives that this build leaves out, and that were not
	// generated in another one either.
	otherBuilds []issue
	used        map[*ast.Comment]bool
}

// find returns what the directives of a package stand above. It complains of those that
// lock nothing.
func (p *pack) find() *finder {
	f := &finder{pack: p, used: make(map[*ast.Comment]bool)}
	for _, file := range p.files {
		for _, decl := range file.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				f.above(d.Doc, &target{file: file, name: d.Name, decl: d})
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					f.inType(file, spec)
				}
			}
		}
		f.unplaced(file, func(c *ast.Comment) string { return f.placed(file, c) })
	}
	for _, file := range p.outside {
		f.outside(file)
	}
	return f
}

// inType looks above the methods of an interface.
func (f *finder) inType(file *file, spec ast.Spec) {
	t, ok := spec.(*ast.TypeSpec)
	if !ok {
		return
	}
	i, ok := ast.Unparen(t.Type).(*ast.InterfaceType)
	if !ok {
		return
	}
	for _, field := range i.Methods.List {
		if len(field.Names) == 1 {
			f.above(field.Doc, &target{file: file, name: field.Names[0], of: t})
		}
	}
}

// above reads the directive in a comment above t.
func (f *finder) above(doc *ast.CommentGroup, t *target) {
	if doc == nil {
		return
	}
	for _, c := range doc.List {
		f.used[c] = true
		d, wrong := readDirective(c)
		switch {
		case wrong != nil:
			f.issues = append(f.issues, *wrong)
		case d != nil && t.directive != nil:
			f.issues = append(f.issues, issue{d.pos, "a second directive for " + t.name.Name + ": several keys stand in one, and are taken together"})
		case d != nil:
			t.directive = d
		}
	}
	if t.directive != nil {
		f.targets = append(f.targets, t)
	}
}

// unplaced complains of the directives of a file that stand above nothing that can be
// locked.
func (f *finder) unplaced(file *file, reason func(c *ast.Comment) string) {
	for _, group := range file.syntax.Comments {
		for _, c := range group.List {
			if !f.used[c] && isDirective(c) {
				f.issues = append(f.issues, issue{c.Slash, "this directive locks nothing: " + reason(c)})
			}
		}
	}
}

// isDirective reports whether a comment is a directive of this tool. Elsewhere than
// above a function, what only looks like one is prose.
func isDirective(c *ast.Comment) bool {
	d, ok := ast.ParseDirective(c.Slash, c.Text)
	return ok && d.Tool == tool
}

// placed says why a directive locks nothing where it stands.
func (f *finder) placed(file *file, c *ast.Comment) string {
	for _, decl := range file.syntax.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil && d.Body.Pos() < c.Pos() && c.Pos() < d.Body.End() {
			return "it stands inside of " + d.Name.Name + "; " + whereItGoes
		}
		d, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		line := func(p token.Pos) int { return f.pack.fset.Position(p).Line }
		for _, spec := range d.Specs {
			t, ok := spec.(*ast.TypeSpec)
			switch {
			case !ok:
			case d.Doc != nil && d.Doc.Pos() <= c.Pos() && c.Pos() < d.Doc.End(), t.Doc != nil && t.Doc.Pos() <= c.Pos() && c.Pos() < t.Doc.End():
				return "it stands above the type " + t.Name.Name + "; " + whereItGoes
			case t.Pos() < c.Pos() && line(c.Pos()) <= line(t.End()):
				return "it stands inside of " + t.Name.Name + ", and not above a method of its own; " + whereItGoes
			}
		}
	}
	return whereItGoes
}

// outside complains of directives in files that are no part of the program, or not in
// this build. The latter are left to lockgen in their own build, which can only be seen
// by what it has written.
func (f *finder) outside(of *file) {
	if !of.ignored {
		f.unplaced(of, func(*ast.Comment) string { return "it is in a test, which is no part of the program" })
		return
	}
	if slices.ContainsFunc(f.pack.written, func(w *file) bool { return w.path == writtenPath(of.path) }) {
		return
	}
	reason := "this build leaves the file out"
	if of.build != "" {
		reason += " (" + of.build + ")"
	}
	before := len(f.issues)
	f.unplaced(of, func(*ast.Comment) string {
		return reason + "; run lockgen in a build that has it, with GOOS=… or GOFLAGS=-tags=…"
	})
	f.otherBuilds = append(f.otherBuilds, f.issues[before:]...)
	f.issues = f.issues[:before]
}

// writtenPath is where the code goes that is generated of a file: orders.go has
// orders_lockgen.go beside it. What a name says about the build stays at the end:
// orders_linux.go has orders_lockgen_linux.go.
func writtenPath(source string) string {
	platform := strings.Join(append([]string{""}, platformOf(source)...), "_") // _linux
	return strings.TrimSuffix(source, platform+".go") + "_lockgen" + platform + ".go"
}

// platformOf returns the words at the end of a file's name that say for which operating
// system and architecture it is.
func platformOf(path string) []string {
	words := strings.Split(strings.TrimSuffix(filepath.Base(path), ".go"), "_")
	end := len(words)
	for end > 1 && end > len(words)-2 && isPlatform(words[end-1]) {
		end--
	}
	return words[end:]
}

// isPlatform reports whether a word at the end of a file's name says for which operating
// system or architecture it is, as go/build reads it.
func isPlatform(word string) bool {
	return strings.Contains(platforms, " "+word+" ")
}

const platforms = " aix android darwin dragonfly freebsd hurd illumos ios js linux nacl netbsd openbsd plan9 solaris wasip1 windows zos" +
	" 386 amd64 amd64p32 arm armbe arm64 arm64be loong64 mips mipsle mips64 mips64le mips64p32 mips64p32le ppc ppc64 ppc64le riscv riscv64 s390 s390x sparc sparc64 wasm "
