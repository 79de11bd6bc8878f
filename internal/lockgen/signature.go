package lockgen

import (
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkSignature complains of a method that cannot run under a lock.
func (b *builder) checkSignature(t *target, s *scope) {
	pos := t.name.Pos()
	for _, tuple := range []*types.Tuple{s.sig.Params(), s.sig.Results()} {
		for v := range tuple.Variables() {
			if broken(v.Type()) {
				b.complainf(pos, "the signature of %s is not known: %s", s.name, b.firstError(v.Pos()))
				return
			}
		}
	}
	if contextOf(s.sig) < 0 {
		b.complainf(pos, "%s has no context.Context: the work could not be told that its lock is lost; make it the first parameter", s.name)
	}
	results := s.sig.Results()
	if results.Len() == 0 || !isError(results.At(results.Len()-1).Type()) {
		b.complainf(pos, "%s has no error as its last result: a call that gets no lock could not say so", s.name)
	}
	for v := range results.Variables() {
		if reason := outlives(v.Type(), b.types); reason != "" {
			b.complainf(pos, "a result of %s outlives the lock: %s", s.name, reason)
		}
	}
}

// contextOf returns which parameter is the context, or -1.
func contextOf(sig *types.Signature) int {
	for i := range sig.Params().Len() {
		if isContext(sig.Params().At(i).Type()) {
			return i
		}
	}
	return -1
}

// firstError is what the type checker says about the line of a position, or at all.
func (b *builder) firstError(pos token.Pos) string {
	at := b.fset.Position(pos)
	for _, e := range b.wrong {
		if p := b.fset.Position(e.Pos); p.Filename == at.Filename && p.Line == at.Line {
			return e.Msg
		}
	}
	if len(b.wrong) > 0 {
		return b.wrong[0].Msg
	}
	return "go vet says why"
}

// checkPolicy complains of an option policy= that names no lockmw.Policy.
func (b *builder) checkPolicy(o *option) {
	if o == nil {
		return
	}
	var names []string
	for _, name := range b.types.Scope().Names() {
		if v, ok := b.types.Scope().Lookup(name).(*types.Var); ok && isNamed(v.Type(), lockmwPath, "Policy") {
			names = append(names, name)
		}
	}
	found := b.types.Scope().Lookup(o.value)
	v, isVar := found.(*types.Var)
	switch {
	case isVar && isNamed(v.Type(), lockmwPath, "Policy"):
	case found == nil && len(names) > 0:
		b.complainf(o.valuePos, "the package has no variable %q; %s", o.value, oneOf(o.value, names))
	case found == nil:
		b.complainf(o.valuePos, "the package has no variable %q; declare one of the type lockmw.Policy", o.value)
	case isVar && broken(v.Type()):
		b.complainf(o.valuePos, "the type of %s is not known: %s", o.value, b.firstError(v.Pos()))
	default:
		b.complainf(o.valuePos, "%s is no variable of the type lockmw.Policy", o.value)
	}
}

// names complains of generated names that something else has.
func (b *builder) names() {
	taken := make(map[string]string)
	for _, d := range b.made {
		names := []string{d.function()}
		if d.named != nil {
			names = append(names, d.typeName())
		}
		for _, name := range names {
			if obj := b.types.Scope().Lookup(name); obj != nil {
				at := b.fset.Position(obj.Pos())
				b.complainf(d.obj.Pos(), "the decorator of %s is to be called %s, and that name is taken (line %d of %s)", d.name(), name, at.Line, b.relative(at.Filename))
			} else if other := taken[name]; other != "" {
				b.complainf(d.obj.Pos(), "the decorators of %s and of %s are both to be called %s; rename one", other, d.name(), name)
			}
			taken[name] = d.name()
		}
		words := []string{"error", "nil", "panic"}
		if d.hasLists() {
			words = append(words, "len", "int")
		}
		for _, word := range words {
			if obj := b.types.Scope().Lookup(word); obj != nil {
				b.complainf(obj.Pos(), "the package declares %q, which generated code takes for Go's own; call it something else", word)
			}
			for p := range d.typeParams().TypeParams() {
				if p.Obj().Name() == word {
					b.complainf(p.Obj().Pos(), "%s has a type parameter %q, which generated code takes for Go's own; call it something else", d.name(), word)
				}
			}
		}
	}
}

// hasLists reports whether a key of the decorator is one for each element of a list.
func (d *decorator) hasLists() bool {
	return slices.ContainsFunc(d.methods, func(m *method) bool {
		return m.lock != nil && slices.ContainsFunc(m.lock.values, func(v *resolved) bool { return v.each })
	})
}

// foreign complains of a method that an interface or type embeds from another package,
// where it has a directive: here it would be without its lock, and nobody would notice.
// The Error of Go's own interface has no package.
func (b *builder) foreign(d *decorator, f *types.Func) {
	if f.Pkg() == nil || f.Pkg() == b.types {
		return
	}
	from := b.all[f.Pkg().Path()]
	if from == nil {
		return
	}
	at := b.fset.Position(f.Pos())
	path := filepath.Join(from.Dir, filepath.Base(at.Filename)) // with -trimpath, the position has no folder
	text, err := os.ReadFile(path)                              //nolint:gosec // the source of what is embedded
	if err != nil || !strings.Contains(string(text), tool+":"+verb) {
		return
	}
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return
	}
	other := &pack{fset: fset, files: []*file{{path: path, syntax: syntax}}}
	for _, t := range other.find().targets {
		if t.name.Name != f.Name() || fset.Position(t.name.Pos()).Line != at.Line {
			continue
		}
		var owner string
		if t.of != nil {
			owner = t.of.Name.Name
		} else {
			owner = receiverName(t.decl.Recv.List[0].Type)
		}
		b.complainf(d.obj.Pos(), "%s embeds %s.%s, whose method %s has a lock that only %s.%s takes; write the method out here, with a directive of its own",
			d.name(), f.Pkg().Name(), owner, f.Name(), f.Pkg().Name(), prefixed("Lock", owner))
	}
}
