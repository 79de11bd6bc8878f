// Package lockgen writes decorators that run methods and functions under locks. It is
// the program cmd/lockgen without its flags; locktest.Generated runs it in tests.
//
// A directive in the comment above a method says what is locked:
//
//	//lockmw:lock {order.ID|lower} prefix=order: wait=2s
//	Pay(ctx context.Context, order Order) (Receipt, error)
//
// From a package to its decorators it goes through these files:
//
//   - load.go reads packages: their source, and what the compiler knows of their imports
//   - find.go finds the directives, and those that lock nothing where they stand
//   - directive.go and options.go read a directive; template.go and path.go its keys
//   - decorate.go and signature.go make decorators of what directives stand above
//   - resolve.go and kinds.go find out what a key's paths mean, and whether their values
//     can be a key
//   - emit.go, emitkey.go and names.go write the code
//   - check.go compares it with what is there, and looks for who calls it
//
// All mistakes of a package are found at once, and nothing is written while there is
// one.
package lockgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Problem is a mistake in a program, and where it is.
type Problem struct {
	Position token.Position
	Text     string
}

// String returns the problem as compilers write theirs: file:line:column: text.
func (p Problem) String() string { return p.Position.String() + ": " + p.Text }

// A Run is what packages are generated, and how they are built.
type Run struct {
	Dir      string   // the working folder; empty is that of the process
	Patterns []string // of packages, as the go command takes them; none is the folder
	Flags    []string // of the build, such as -race
}

// A result is what is generated for packages, and what is there.
type result struct {
	run      Run
	packs    []*pack
	code     map[string][]byte // by path
	owners   map[string][]*decorator
	stale    []string // paths whose code is not what is there
	left     []string // files that lockgen wrote and does not write any more
	problems []Problem
}

// Generate writes the decorators of the packages, and removes files that it wrote
// before and that no directive asks for any more. It returns the files that it has
// changed. With problems nothing is changed. The error is of the go command, or of the
// file system.
func Generate(ctx context.Context, run Run) (changed []string, problems []Problem, err error) {
	r, err := run.generate(ctx)
	if err != nil || len(r.problems) > 0 {
		return nil, r.problems, err
	}
	for _, path := range r.stale {
		if err := os.WriteFile(path, r.code[path], 0o644); err != nil { //nolint:gosec // source code is for all to read
			return changed, nil, err
		}
		changed = append(changed, r.relative(path))
	}
	for _, path := range r.left {
		if err := os.Remove(path); err != nil {
			return changed, nil, err
		}
		changed = append(changed, r.relative(path))
	}
	return changed, nil, nil
}

// generate makes the code of the packages, and compares it with what is there.
func (run Run) generate(ctx context.Context) (*result, error) {
	if len(run.Patterns) == 0 {
		run.Patterns = []string{"."}
	}
	dir, err := filepath.Abs(run.Dir)
	if err != nil {
		return &result{}, err
	}
	run.Dir = dir
	r := &result{run: run, code: make(map[string][]byte), owners: make(map[string][]*decorator)}
	l, packs, err := load(ctx, run.Dir, run.Flags, run.Patterns)
	if err != nil {
		return r, err
	}
	r.packs = packs
	for _, p := range packs {
		if err := r.generate(l, p); err != nil {
			return r, err
		}
	}
	slices.SortFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Position.Filename, b.Position.Filename), cmp.Compare(a.Position.Line, b.Position.Line),
			cmp.Compare(a.Position.Column, b.Position.Column), cmp.Compare(a.Text, b.Text))
	})
	r.problems = slices.Compact(r.problems)
	return r, r.compare()
}

// generate makes the code of one package.
func (r *result) generate(l *loader, p *pack) error {
	targets, issues := p.find()
	if len(targets) == 0 && len(issues) == 0 {
		return nil // its mistakes are not lockgen's affair
	}
	for _, problem := range p.issues {
		problem.Position.Filename = r.relative(problem.Position.Filename)
		r.problems = append(r.problems, problem)
	}
	if len(p.issues) > 0 {
		return nil
	}
	l.check(p)
	decorators, more := p.build(targets, r.relative)
	issues = append(issues, more...)
	for _, i := range issues {
		at := p.fset.Position(i.pos)
		at.Filename = r.relative(at.Filename)
		at.Offset = 0
		r.problems = append(r.problems, Problem{at, i.reason})
	}
	if len(issues) > 0 {
		return nil
	}
	for _, d := range decorators {
		path := writtenPath(d.file.path)
		r.owners[path] = append(r.owners[path], d)
	}
	for path, owned := range r.owners {
		if r.code[path] != nil {
			continue
		}
		code, err := emit(p.types, owned[0].file, owned)
		if err != nil {
			return err
		}
		r.code[path] = code
	}
	return nil
}

// compare finds out which files are stale, and which are left over.
func (r *result) compare() error {
	for path, code := range r.code {
		old, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !strings.Contains(string(old), header):
			r.problems = append(r.problems, Problem{token.Position{Filename: r.relative(path)}, "lockgen would write this file, and somebody else has written it; rename it"})
			continue
		}
		if string(old) != string(code) {
			r.stale = append(r.stale, path)
		}
	}
	for _, p := range r.packs {
		for _, w := range p.written {
			if r.code[w.path] == nil && !p.inOtherBuild(w) {
				r.left = append(r.left, w.path)
			}
		}
	}
	slices.Sort(r.stale)
	slices.Sort(r.left)
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

// relative writes a path as seen from the working folder.
func (r *result) relative(path string) string {
	if rel, err := filepath.Rel(r.run.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}

// problem is one at the beginning of a file.
func (r *result) problem(path, format string, args ...any) Problem {
	return Problem{token.Position{Filename: r.relative(path), Line: 1}, fmt.Sprintf(format, args...)}
}
