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
//   - directive.go and options.go read a directive; template.go and path.go its keys;
//     similar.go finds the name that was meant by a wrong one
//   - decorate.go makes decorators of what directives stand above; signature.go says what
//     cannot run under a lock, nameable.go what no decorator can have; lock.go finds out what a
//     directive means
//   - resolve.go and kinds.go find out what a key's paths mean, and whether their values
//     can be a key
//   - emit.go, emitkey.go and names.go write the code
//   - check.go compares it with what is there, and looks for who calls it
//   - buildflags.go has tests look at the build that they are of
//
// The mistakes of all packages are reported together. Where a package has some in its
// syntax, it is not looked at any further. While any package of a run has a mistake,
// nothing is written, and stale code is not reported.
//
// A mistake in a text, such as a key, is a slip: so many bytes from the start of the
// text. In a file it is an issue, which has a token.Pos, and what is reported is a
// Problem, which has the file, line and column.
//
// What is said about the value of an option is the complaint of lockmw.Policy.Validate,
// and what is said about a filter is that of keyfunc.Parse.
package lockgen

import (
	"cmp"
	"context"
	"errors"
	"go/token"
	"maps"
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

// A Request says which packages are generated, and how they are built.
type Request struct {
	Dir      string   // the working folder; empty is that of the process
	Patterns []string // of packages, as the go command takes them; none is the folder
	Flags    []string // of the build, such as -race
}

// A result is what is generated for packages, and what is there.
type result struct {
	request       Request
	packs         []*pack
	code          map[string][]byte       // by path
	decorators    map[string][]*decorator // by the path of their code
	stale         []string                // paths whose code is not what is there
	leftOverFiles []string                // files that lockgen wrote and does not write any more
	problems      []Problem
	notes         []Problem // directives that this build leaves out
}

// An Outcome is what Generate has done.
type Outcome struct {
	Changed  []string  // files that were written or removed
	Problems []Problem // with any, nothing was changed
	Notes    []Problem // directives in files that this build leaves out
}

// Generate writes the decorators of the packages, and removes files that it wrote
// before and that no directive asks for any more. With problems nothing is changed. The
// error is of the go command, or of the file system.
func Generate(ctx context.Context, request Request) (done Outcome, err error) {
	r, err := request.generate(ctx)
	done.Problems, done.Notes = r.problems, r.notes
	if err != nil || len(r.problems) > 0 {
		return done, err
	}
	for _, path := range r.stale {
		if err := replace(path, r.code[path]); err != nil {
			return done, err
		}
		done.Changed = append(done.Changed, r.relative(path))
	}
	for _, path := range r.leftOverFiles {
		if err := os.Remove(path); err != nil {
			return done, err
		}
		done.Changed = append(done.Changed, r.relative(path))
	}
	return done, nil
}

// replace writes a file at once: nobody reads half of it, also where lockgen is
// interrupted or runs twice.
func replace(path string, code []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".lockgen-*") // which is no Go file
	if err != nil {
		return err
	}
	_, err = f.Write(code)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// generate makes the code of the packages, and compares it with what is there.
func (request Request) generate(ctx context.Context) (*result, error) {
	if len(request.Patterns) == 0 {
		request.Patterns = []string{"."}
	}
	dir, err := filepath.Abs(request.Dir)
	if err != nil {
		return &result{}, err
	}
	request.Dir = dir
	r := &result{request: request, code: make(map[string][]byte), decorators: make(map[string][]*decorator)}
	l, packs, err := load(ctx, request.Dir, request.Flags, request.Patterns)
	if err != nil {
		return r, err
	}
	r.packs = packs
	for _, p := range packs {
		if err := r.addPackage(l, p); err != nil {
			return r, err
		}
	}
	return r, r.compare()
}

// addPackage makes the code of one package.
func (r *result) addPackage(l *loader, p *pack) error {
	found := p.find()
	r.notes = append(r.notes, r.problemsAt(p, found.otherBuilds)...)
	if len(found.targets) == 0 && len(found.issues) == 0 {
		return nil // its mistakes are not lockgen's affair
	}
	for _, problem := range p.syntaxProblems {
		problem.Position.Filename = r.relative(problem.Position.Filename)
		r.problems = append(r.problems, problem)
	}
	if len(p.syntaxProblems) > 0 {
		return nil
	}
	l.check(p)
	decorators, issues := p.build(found.targets, r.relative)
	issues = append(issues, found.issues...)
	if len(issues) > 0 {
		r.problems = append(r.problems, r.problemsAt(p, issues)...)
		return nil
	}
	byPath := make(map[string][]*decorator)
	for _, d := range decorators {
		path := writtenPath(d.file.path)
		byPath[path] = append(byPath[path], d)
	}
	for path, owned := range byPath {
		code, err := emit(p.types, owned[0].file, owned)
		if err != nil {
			return err
		}
		r.code[path] = code
	}
	maps.Copy(r.decorators, byPath)
	return nil
}

// problemsAt are issues of a package, in the order of its files.
func (r *result) problemsAt(p *pack, issues []issue) (problems []Problem) {
	slices.SortFunc(issues, func(a, b issue) int { return cmp.Or(cmp.Compare(a.pos, b.pos), cmp.Compare(a.reason, b.reason)) })
	for _, i := range slices.Compact(issues) {
		at := p.fset.Position(i.pos)
		at.Filename, at.Offset = r.relative(at.Filename), 0
		problems = append(problems, Problem{at, i.reason})
	}
	return problems
}

// relative writes a path as seen from the working folder.
func (r *result) relative(path string) string {
	if rel, err := filepath.Rel(r.request.Dir, path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}

// problem is one at the beginning of a file.
func (r *result) problem(path, text string) Problem {
	return Problem{token.Position{Filename: r.relative(path), Line: 1, Column: 1}, text}
}
