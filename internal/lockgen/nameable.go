package lockgen

import (
	"fmt"
	"go/types"
	"strings"
)

// unnameable returns what of a type generated code of the package cannot write, and why,
// or nothing. Such types come with embedded methods of other packages.
func (b *builder) unnameable(t types.Type) string {
	switch t := t.(type) {
	case *types.Basic:
		return b.hidden(types.Universe.Lookup(t.Name()))
	case *types.Alias:
		return b.first(b.hidden(t.Obj()), b.unnameableIn(t.TypeArgs()))
	case *types.Named:
		return b.first(b.hidden(t.Obj()), b.unnameableIn(t.TypeArgs()))
	case interface{ Elem() types.Type }: // a pointer, slice, array or channel, or a map
		if m, ok := t.(*types.Map); ok {
			return b.first(b.unnameable(m.Key()), b.unnameable(m.Elem()))
		}
		return b.unnameable(t.Elem())
	case *types.Signature:
		return b.unnameableSignature(t)
	case *types.Struct:
		for f := range t.Fields() {
			if !f.Exported() && f.Pkg() != b.types {
				return fmt.Sprintf("the field %s, which package %s keeps to itself", f.Name(), f.Pkg().Name())
			}
			if reason := b.unnameable(f.Type()); reason != "" {
				return reason
			}
		}
	case *types.Interface:
		for f := range t.Methods() {
			if !f.Exported() && f.Pkg() != b.types {
				return fmt.Sprintf("the method %s, which package %s keeps to itself", f.Name(), f.Pkg().Name())
			}
			if reason := b.unnameable(f.Signature()); reason != "" {
				return reason
			}
		}
	}
	return ""
}

func (b *builder) unnameableSignature(sig *types.Signature) string {
	for _, tuple := range []*types.Tuple{sig.Params(), sig.Results()} {
		for v := range tuple.Variables() {
			if reason := b.unnameable(v.Type()); reason != "" {
				return reason
			}
		}
	}
	return ""
}

func (b *builder) unnameableIn(list *types.TypeList) string {
	for t := range list.Types() {
		if reason := b.unnameable(t); reason != "" {
			return reason
		}
	}
	return ""
}

func (*builder) first(reasons ...string) string {
	for _, reason := range reasons {
		if reason != "" {
			return reason
		}
	}
	return ""
}

// hidden returns the name of a type that the package cannot write, and why, or nothing.
// Types of the package can be written, and so can a type parameter and unsafe.Pointer.
func (b *builder) hidden(obj types.Object) string {
	switch {
	case obj == nil || obj.Pkg() == b.types:
		return ""
	case obj.Pkg() == nil && b.types.Scope().Lookup(obj.Name()) != nil:
		return fmt.Sprintf("Go's own %s, which is something else in this package", obj.Name())
	case obj.Pkg() == nil:
		return ""
	case !obj.Exported():
		return fmt.Sprintf("%s.%s, which package %s keeps to itself", obj.Pkg().Name(), obj.Name(), obj.Pkg().Name())
	case !canImport(b.ImportPath, obj.Pkg().Path()):
		return fmt.Sprintf("%s.%s of %s, which cannot be imported here", obj.Pkg().Name(), obj.Name(), obj.Pkg().Path())
	}
	return ""
}

// canImport reports whether Go allows a package to import another one: those below a
// folder "internal" are for the packages beside that folder.
func canImport(from, path string) bool {
	const internal = "/internal/"
	i := strings.LastIndex("/"+path+"/", internal) // in path, where what is before ends
	if strings.HasPrefix(path, "vendor/") || i == 0 {
		return false // of the standard library
	}
	return i < 0 || strings.HasPrefix(from+"/", path[:i-1]+"/")
}
