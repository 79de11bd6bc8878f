package lockgen

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Check returns what is wrong with the packages: the mistakes that Generate would
// report, code that Generate would write otherwise or remove, and, with unwired, the
// decorators that nobody calls and the unexported methods that nothing but their own type
// calls: such locks are never taken. decorators is how many there are to be. The error is of the go command, or of the file system.
//
// Who calls a decorator is looked for in the packages that the run names, without tests.
// An exported decorator of a package that others can import is not reported where no
// program (package main) is among them: its users are elsewhere.
func Check(ctx context.Context, request Request, unwired bool) (problems []Problem, decorators int, err error) {
	r, err := request.generate(ctx)
	if err != nil || len(r.problems) > 0 {
		return r.problems, 0, err
	}
	for _, owned := range r.decorators {
		decorators += len(owned)
	}
	r.problems = r.notes // of the mistakes there are none
	for _, path := range r.stale {
		r.problems = append(r.problems, r.problem(path, "stale: the directives, or what they name, have changed; run lockgen"))
	}
	for _, path := range r.leftOverFiles {
		r.problems = append(r.problems, r.problem(path, "left over: no directive asks for this file any more; run lockgen"))
	}
	if unwired {
		r.findUnwired()
	}
	return r.problems, decorators, nil
}

// compare finds out which files are stale, and which are left over.
func (r *result) compare() error {
	for path, code := range r.code {
		old, err := os.ReadFile(path) //nolint:gosec // beside the source
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !isWritten(old):
			r.problems = append(r.problems, r.problem(path, "lockgen would write this file, and somebody else has written it; rename it"))
			continue
		}
		if !bytes.Equal(bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n")), code) { // Git may have changed the ends of lines
			r.stale = append(r.stale, path)
		}
	}
	for _, p := range r.packs {
		for _, w := range p.written {
			if r.code[w.path] == nil && !p.inOtherBuild(w) {
				r.leftOverFiles = append(r.leftOverFiles, w.path)
			}
		}
	}
	slices.Sort(r.stale)
	slices.Sort(r.leftOverFiles)
	return nil
}

// inOtherBuild reports whether the source of a generated file is left out of this build,
// so that lockgen cannot tell in this build what belongs there.
func (p *pack) inOtherBuild(w *file) bool {
	if !w.ignored {
		return false
	}
	return slices.ContainsFunc(p.outside, func(f *file) bool { return f.ignored && writtenPath(f.path) == w.path })
}

// findUnwired adds a problem for each lock that is never taken, because nobody calls its
// decorator, or its method on what that returns.
func (r *result) findUnwired() {
	program := slices.ContainsFunc(r.packs, func(p *pack) bool { return p.Name == "main" })
	for _, p := range r.packs {
		for _, owned := range r.decorators {
			for _, d := range owned {
				if d.obj.Pkg() == p.types {
					r.problems = append(r.problems, r.problemsAt(p, r.unwired(p, d, program))...)
				}
			}
		}
	}
	slices.SortFunc(r.problems, func(a, b Problem) int { return strings.Compare(a.String(), b.String()) })
}

// unwired are the locks of a decorator that are never taken. program says whether there
// is one among the packages.
func (r *result) unwired(p *pack, d *decorator, program bool) (issues []issue) {
	elsewhere := !program && importable(p) && ast.IsExported(d.function())
	if !elsewhere && !r.called(p, d.function()) {
		return []issue{{d.obj.Pos(), "unwired: nothing but tests calls " + d.function() + ", so the locks of " + d.name() + " are never taken"}}
	}
	for _, m := range d.methods {
		own := d.named != nil && !d.isInterface() && len(m.via.fields) == 0
		if own && m.lock != nil && !ast.IsExported(m.name) && !p.callsFromOutside(d.name(), m.name) {
			issues = append(issues, issue{m.pos, "unwired: nothing but " + d.name() + " itself calls " + m.name + ", and that takes no lock; call it on what " + d.function() + " returns"})
		}
	}
	return issues
}

// callsFromOutside reports whether a package calls a method of a type on something else
// than the receiver of a method of that type.
func (p *pack) callsFromOutside(typeName, method string) (found bool) {
	for _, f := range p.files {
		for _, decl := range f.syntax.Decls {
			receiver := ""
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil && receiverName(fn.Recv.List[0].Type) == typeName && len(fn.Recv.List[0].Names) == 1 {
				receiver = fn.Recv.List[0].Names[0].Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == method {
					x, isName := sel.X.(*ast.Ident)
					found = found || !isName || x.Name != receiver
				}
				return !found
			})
		}
	}
	return found
}

// importable reports whether packages of other modules can import a package.
func importable(p *pack) bool {
	return p.Name != "main" && !slices.Contains(strings.Split(p.ImportPath, "/"), "internal")
}

// called reports whether a file of the program names a function of a package.
func (r *result) called(of *pack, function string) bool {
	for _, p := range r.packs {
		for _, f := range p.files {
			if p == of && namesHere(f.syntax, function) || p != of && namesImported(f.syntax, of, function) {
				return true
			}
		}
	}
	return false
}

// namesHere reports whether a file of the same package uses a name. A field, a method or
// a variable that is called the same is another thing.
func namesHere(f *ast.File, name string) (found bool) {
	others := make(map[ast.Node]bool)
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			found = found || n.Name == name && !others[n]
		case *ast.SelectorExpr:
			others[n.Sel] = true
		case *ast.KeyValueExpr:
			others[n.Key] = true // no function is the key of a map
		case *ast.FuncDecl:
			others[n.Name] = true
		case *ast.Field:
			for _, id := range n.Names {
				others[id] = true
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				others[id] = true
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				others[left] = n.Tok == token.DEFINE
			}
		}
		return !found
	})
	return found
}

// namesImported reports whether a file of another package uses a name.
func namesImported(f *ast.File, of *pack, name string) (found bool) {
	for _, spec := range f.Imports {
		importPath, err := strconv.Unquote(spec.Path.Value)
		if err != nil || importPath != of.ImportPath {
			continue
		}
		called := of.Name
		if spec.Name != nil {
			called = spec.Name.Name
		}
		if called == "." {
			return namesHere(f, name)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if ok && sel.Sel.Name == name {
				x, isName := sel.X.(*ast.Ident)
				found = found || isName && x.Name == called
			}
			return !found
		})
	}
	return found
}
