package lockgen

import (
	"fmt"
	"go/types"
	"strings"
)

// A conversion is how a Go value becomes a value of a key: the function of funclock that
// makes it, which is given what a pointer points to where deref says so.
type conversion struct {
	call  string
	deref bool
}

// conversionOf returns how a value of type t becomes a part of a key, or why it does
// not. what is the value in the words of the directive. Kinds come before methods, as in
// keyfunc.Value.
func conversionOf(t types.Type, what string, from *types.Package) (conversion, string) {
	if call := basicCall(t); call != "" {
		return conversion{call: call}, ""
	}
	name := shortType(t, from)
	elem, pointer := t, false
	if p, ok := t.Underlying().(*types.Pointer); ok {
		elem, pointer = p.Elem(), true
	}
	if param, ok := types.Unalias(elem).(*types.TypeParam); ok {
		return conversionOfParam(param, what, pointer)
	}
	switch {
	case isNamed(elem, "time", "Time"), hasTextOfTime(t):
		return conversion{}, fmt.Sprintf("%s is a time.Time, which has many texts for one instant; write a function of the package that says which part counts, as in {day(%s)}", what, what)
	case isBytes(t):
		return conversion{call: "Of"}, ""
	}
	switch u := elem.Underlying().(type) {
	case *types.Interface:
		return conversion{}, fmt.Sprintf("%s is an interface (%s), which may hold values that have no text; write a function of the package that makes one", what, name)
	case *types.Struct:
		if hasText(t, "MarshalText") {
			return conversion{call: "Of"}, ""
		}
		return conversion{}, structReason(elem, u, what, name, from)
	case *types.Basic:
		if call := basicCall(elem); call != "" {
			return conversion{call: call, deref: pointer}, ""
		}
		if u.Info()&(types.IsFloat|types.IsComplex) != 0 {
			return conversion{}, fmt.Sprintf("%s is a %s: 0.1+0.2 and 0.3 would be two locks; take an integer or a text", what, name)
		}
	}
	switch u := elem.Underlying().(type) {
	case *types.Slice, *types.Array:
		if hasText(t, "MarshalText") || hasText(t, "String") {
			return conversion{call: "Of"}, ""
		}
		return conversion{}, fmt.Sprintf("%s is a list (%s); write {%s...} for a key of each element", what, name, what)
	case *types.Pointer:
		return conversion{}, fmt.Sprintf("%s is a pointer to a pointer (%s)", what, name)
	case *types.Map, *types.Chan, *types.Signature:
		return conversion{}, fmt.Sprintf("%s is a %s, which has no text", what, name)
	default:
		return conversion{}, fmt.Sprintf("%s has the type %s (%v), which has no text", what, name, u)
	}
}

// shortType writes a type as people do: with the names of packages, not their paths.
func shortType(t types.Type, from *types.Package) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == from {
			return ""
		}
		return p.Name()
	})
}

// basicCall returns the function for a type whose kind is a string, an integer or a
// bool, and nothing for others.
func basicCall(t types.Type) string {
	b, ok := t.Underlying().(*types.Basic)
	if !ok {
		return ""
	}
	switch info := b.Info(); {
	case info&types.IsString != 0:
		return "String"
	case info&types.IsUnsigned != 0:
		return "Uint"
	case info&types.IsInteger != 0:
		return "Int"
	case info&types.IsBoolean != 0:
		return "Bool"
	}
	return ""
}

// conversionOfParam returns the function for a type parameter: that of all types in its
// constraint, or one that looks at run time where they differ.
func conversionOfParam(p *types.TypeParam, what string, deref bool) (conversion, string) {
	refused := fmt.Sprintf("%s has the type parameter %s, which may be a type without a text; constrain it to some that have one, as in ~string | ~int64", what, p.Obj().Name())
	terms := termsOf(p.Constraint(), nil)
	if len(terms) == 0 {
		return conversion{}, refused
	}
	found := ""
	for _, t := range terms {
		switch call := basicCall(t); {
		case call == "":
			return conversion{}, refused
		case found == "":
			found = call
		case found != call:
			found = "Of"
		}
	}
	return conversion{call: found, deref: deref}, ""
}

// termsOf returns the types that a constraint is made of; none where it allows any.
func termsOf(t types.Type, seen []types.Type) []types.Type {
	i, ok := t.Underlying().(*types.Interface)
	if !ok {
		return append(seen, t)
	}
	for e := range i.EmbeddedTypes() {
		if u, ok := types.Unalias(e).(*types.Union); ok {
			for term := range u.Terms() {
				seen = termsOf(term.Type(), seen)
			}
			continue
		}
		seen = termsOf(e, seen)
	}
	return seen
}

// structReason refuses a struct, and says what of it can be a key.
func structReason(t types.Type, s *types.Struct, what, name string, from *types.Package) string {
	var fields []string
	for f := range s.Fields() {
		if f.Exported() || f.Pkg() == from {
			fields = append(fields, f.Name())
		}
	}
	reason := fmt.Sprintf("%s is a struct (%s)", what, name)
	switch {
	case hasText(t, "ProtoReflect"), hasText(types.NewPointer(t), "ProtoReflect"):
		return reason + ", whose text protobuf does not keep the same; take a field of it, as in {" + what + ".GetId()}"
	case hasText(t, "String"), hasText(types.NewPointer(t), "String"):
		return fmt.Sprintf("%s; if its String tells any two values apart, write {%s.String()}", reason, what)
	case len(fields) == 0:
		return reason + "; write a function of the package that makes a text of it"
	}
	return fmt.Sprintf("%s; take a field of it: %s", reason, quoteList(fields))
}

// hasText reports whether a type has a method of that name, and, where that is the one of
// fmt.Stringer or encoding.TextMarshaler, with that interface's signature.
func hasText(t types.Type, method string) bool {
	sig := methodOf(t, method)
	if sig == nil {
		return false
	}
	var want []types.Type
	switch method {
	case "String":
		want = []types.Type{types.Typ[types.String]}
	case "MarshalText":
		want = []types.Type{types.NewSlice(types.Typ[types.Uint8]), types.Universe.Lookup("error").Type()}
	default:
		return true
	}
	if sig.Params().Len() > 0 || sig.Results().Len() != len(want) {
		return false
	}
	for i, t := range want {
		if !types.Identical(sig.Results().At(i).Type(), t) {
			return false
		}
	}
	return true
}

// hasTextOfTime reports whether a type embeds a time.Time, and so has its MarshalText.
func hasTextOfTime(t types.Type) bool {
	sig := methodOf(t, "MarshalText")
	return sig != nil && isNamed(sig.Recv().Type(), "time", "Time")
}

// methodOf returns the signature of a type's exported method, or nil.
func methodOf(t types.Type, name string) *types.Signature {
	obj, _, _ := types.LookupFieldOrMethod(t, false, nil, name)
	if f, ok := obj.(*types.Func); ok {
		return f.Signature()
	}
	return nil
}

func hasBool(results *types.Tuple) bool {
	for v := range results.Variables() {
		if b, ok := v.Type().Underlying().(*types.Basic); ok && b.Kind() == types.Bool {
			return true
		}
	}
	return false
}

func isNamed(t types.Type, pkg, name string) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == pkg
}

func isBytes(t types.Type) bool {
	s, ok := t.Underlying().(*types.Slice)
	if !ok || hasText(t, "MarshalText") || hasText(t, "String") {
		return false
	}
	b, ok := s.Elem().Underlying().(*types.Basic)
	return ok && b.Kind() == types.Byte
}

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

// broken reports whether a type could not be found out.
func broken(t types.Type) bool {
	return strings.Contains(types.TypeString(t, nil), "invalid type")
}

// outlives returns why a result is still in use when the lock is given back, or nothing.
func outlives(t types.Type, from *types.Package) string {
	name := shortType(t, from)
	elem := t
	if p, ok := t.Underlying().(*types.Pointer); ok {
		elem = p.Elem()
	}
	switch {
	case isNamed(elem, "net/http", "Response"):
		return name + " has a body, which is read after the lock is given back; read it in the method"
	case isNamed(t, "iter", "Seq"), isNamed(t, "iter", "Seq2"):
		return name + " is an iterator, which runs after the lock is given back; return a slice"
	case isNamed(elem, "database/sql", "Row"):
		return name + " is read after the lock is given back; scan it in the method"
	}
	switch t.Underlying().(type) {
	case *types.Chan:
		return name + " is a channel, which is read after the lock is given back; return what comes out of it"
	case *types.Signature:
		return name + " is a function, which runs after the lock is given back; call it in the method"
	}
	if _, isParam := types.Unalias(t).(*types.TypeParam); isParam {
		return ""
	}
	if next := methodOf(t, "Next"); next != nil && next.Params().Len() == 0 && hasBool(next.Results()) {
		return name + " is read row by row after the lock is given back; read it in the method"
	}
	if end := methodOf(t, "Close"); end != nil && end.Params().Len() == 0 && (end.Results().Len() == 0 || isError(end.Results().At(0).Type())) {
		return name + " is in use until it is closed, after the lock is given back; use it in the method"
	}
	if isNamed(t, "io", "Reader") {
		return name + " is read after the lock is given back; read it in the method"
	}
	return ""
}
