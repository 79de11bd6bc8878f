package lockgen

import (
	"fmt"
	"go/types"
	"maps"
	pathpkg "path"
	"slices"
	"strconv"
	"strings"
)

const (
	module       = "github.com/lockmw/kit/"
	lockmwPath   = module + "lockmw"
	funclockPath = module + "funclock"
)

// imports are those of a generated file. What a package is called there is no name that
// the package or a type parameter has: such a name would hide it.
type imports struct {
	self  *types.Package
	taken map[string]bool
	names map[string]string // by import path
}

func newImports(self *types.Package, decorators []*decorator) *imports {
	i := &imports{self: self, taken: make(map[string]bool), names: make(map[string]string)}
	for _, name := range self.Scope().Names() {
		i.taken[name] = true
	}
	for _, name := range types.Universe.Names() {
		i.taken[name] = true
	}
	for _, d := range decorators {
		for p := range d.typeParams().TypeParams() {
			i.taken[p.Obj().Name()] = true
		}
	}
	return i
}

// name returns what the package at an import path is called in the file.
func (i *imports) name(importPath string) string {
	return i.called(importPath, pathpkg.Base(importPath))
}

func (i *imports) called(importPath, name string) string {
	if known := i.names[importPath]; known != "" {
		return known
	}
	free := name
	for n := 2; i.taken[free]; n++ {
		free = fmt.Sprintf("%s%d", name, n)
	}
	i.taken[free] = true
	i.names[importPath] = free
	return free
}

// typeName writes a type, and imports what it needs.
func (i *imports) typeName(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == i.self {
			return ""
		}
		return i.called(p.Path(), p.Name())
	})
}

// lines are the import declaration: the standard library first.
func (i *imports) lines() string {
	var groups [2][]string
	for _, importPath := range slices.Sorted(maps.Keys(i.names)) {
		name := i.names[importPath]
		line := strconv.Quote(importPath)
		if name != pathpkg.Base(importPath) {
			line = name + " " + line
		}
		first, _, _ := strings.Cut(importPath, "/")
		g := boolInt(strings.Contains(first, "."))
		groups[g] = append(groups[g], line)
	}
	var blocks []string
	for _, lines := range groups {
		if len(lines) > 0 {
			blocks = append(blocks, "\t"+strings.Join(lines, "\n\t"))
		}
	}
	return "import (\n" + strings.Join(blocks, "\n\n") + "\n)\n"
}

// locals are the names of one generated function: those of the parameters, and those
// that the generated code adds, of which none hides another that it needs.
type locals struct {
	taken map[string]bool
}

// newLocals begins with what the code of a function names from outside of it.
func newLocals(i *imports, outer ...string) *locals {
	l := &locals{taken: map[string]bool{"error": true, "nil": true, "panic": true, "_": true, "": true, "len": true, "int": true, "string": true}}
	for _, name := range i.names {
		l.taken[name] = true
	}
	for _, name := range outer {
		l.taken[name] = true
	}
	return l
}

// keep takes a name as it is written if nothing else has it, and otherwise one like it.
func (l *locals) keep(name, fallback string) string {
	if name == "" || name == "_" {
		name = fallback
	}
	free := name
	for n := 2; l.taken[free]; n++ {
		free = fmt.Sprintf("%s%d", name, n)
	}
	l.taken[free] = true
	return free
}

// typeParams returns the type parameters of what is decorated; none for most.
func (d *decorator) typeParams() *types.TypeParamList {
	if d.named != nil {
		return d.named.Origin().TypeParams()
	}
	return d.methods[0].sig.TypeParams()
}

// paramsDecl writes type parameters as a declaration has them: [K ~string, V any]. It ends
// with a comma, without which [P *int] would be an array's length.
func (i *imports) paramsDecl(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var all []string
	for p := range list.TypeParams() {
		all = append(all, p.Obj().Name()+" "+i.typeName(p.Constraint()))
	}
	return "[" + strings.Join(all, ", ") + ",]"
}

// paramsUse writes them as arguments: [K, V].
func paramsUse(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	return "[" + strings.Join(namesOf(list), ", ") + "]"
}

func namesOf(list *types.TypeParamList) (names []string) {
	for p := range list.TypeParams() {
		names = append(names, p.Obj().Name())
	}
	return names
}

// checkNames complains of generated names that something else has.
func (b *builder) checkNames() {
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
