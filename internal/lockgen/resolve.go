package lockgen

import (
	"fmt"
	"go/types"
	"slices"
)

// A resolved path is one whose every part is known to the type checker.
type resolved struct {
	text string // as the key names it
	// root is one of these: a parameter's index, the receiver, or a function.
	param int
	recv  bool
	fn    *types.Func
	fails bool        // fn returns an error, too
	args  []*resolved // of fn

	hops []resolvedHop
	each bool
	conv conversion // of the value, or of each element
	typ  types.Type // of the value; with each, of the whole list
}

// A resolvedHop is a field or a method, also one of those that embedding hides.
type resolvedHop struct {
	name  string
	call  bool
	fails bool // the method returns an error, too
	guard bool // what it is taken of may be nil
	// ofVariable says that it is a method of a pointer, and is called on what is none: Go
	// takes the address of a variable for that, and has none of a function's result.
	ofVariable bool
}

// A scope is what the names of a directive mean.
type scope struct {
	pkg  *types.Package
	name string // of the method or function
	sig  *types.Signature
	recv *types.Var // nil for an interface or function
	cgo  bool       // the package has files with C
	// packages are the names of those that the file of the directive imports.
	packages []string
}

// resolve finds out what a placeholder means. The slip is counted from the path's start.
func (s *scope) resolve(p *path) (*resolved, *slip) {
	r, err := s.walk(p)
	if err != nil {
		return nil, err
	}
	if broken(r.typ) {
		return nil, slipAt(p.at, "the type of %s is not known; %s", p.text(), s.unknown())
	}
	what, t := p.text(), r.typ
	if p.each {
		what = p.text()[:len(p.text())-len("...")]
		switch u := r.typ.Underlying().(type) {
		case *types.Slice:
			t = u.Elem()
		case *types.Array:
			t = u.Elem()
		default:
			return nil, slipAt(p.at, "%s is no list (%s): leave out '...'", what, s.typeName(r.typ))
		}
		what = "an element of " + what
	}
	var reason string
	if r.conv, reason = conversionOf(t, what, s.pkg); reason != "" {
		if isContext(t) {
			reason = "a context is no key; take what it carries by a function of the package, as in {tenant(" + p.text() + ")}"
		}
		if p.each && isStruct(t) {
			reason = fmt.Sprintf("%s is a %s; write a function of the package that returns a list of texts, as in {%s}", what, s.typeName(t), p.texts())
		}
		return nil, slipAt(p.at, "%s", reason)
	}
	return r, nil
}

// isPackage reports whether a name is that of an imported package, and of no parameter.
func (s *scope) isPackage(name string) bool {
	return slices.Contains(s.packages, name) && !slices.Contains(s.rootNames(), name)
}

// unknown says what to do about a type that could not be found out.
func (s *scope) unknown() string {
	if s.cgo {
		return "it may be one of C: write a function of the package that makes one of Go of it"
	}
	return "go vet says why"
}

// walk follows a path.
func (s *scope) walk(p *path) (*resolved, *slip) {
	r := &resolved{text: p.text(), param: -1, each: p.each}
	var err *slip
	if p.call {
		err = s.function(p, r)
	} else {
		err = s.variable(p, r)
	}
	for i := range p.hops {
		if err != nil {
			return nil, err
		}
		before := path{root: p.root, call: p.call, args: p.args, hops: p.hops[:i]}
		err = s.hop(&p.hops[i], r, &before)
	}
	return r, err
}

// variable finds the parameter, or receiver, that a path begins with.
func (s *scope) variable(p *path, r *resolved) *slip {
	for i := range s.sig.Params().Len() {
		if v := s.sig.Params().At(i); v.Name() == p.root {
			r.param, r.typ = i, v.Type()
			return nil
		}
	}
	if s.recv != nil && s.recv.Name() == p.root {
		r.recv, r.typ = true, s.recv.Type()
		return nil
	}
	for v := range s.sig.Results().Variables() {
		if v.Name() == p.root {
			return slipAt(p.at, "%s is a result of %s, which is not known before the call", p.root, s.name)
		}
	}
	switch p.root {
	case "param", "query", "header", "body", "form", "cookie", "value", "route":
		return slipAt(p.at, "{%s} is for requests; the key of a method names its parameters%s", p.text(), s.parameters())
	}
	switch s.pkg.Scope().Lookup(p.root).(type) {
	case *types.Func:
		return slipAt(p.at, "%s is a function: call it, as in {%s(%s)}", p.root, p.root, s.firstParam())
	case *types.Var, *types.Const:
		return slipAt(p.at, "%s is no parameter of %s, but of the package: a key is made of what a call has; write a function of the package that returns it", p.root, s.name)
	}
	return slipAt(p.at, "%s has no parameter %q%s", s.name, p.root, s.meant(p.root))
}

// parameters lists the names that a key can begin with.
func (s *scope) parameters() string {
	names := s.rootNames()
	if len(names) == 0 {
		if unnamed := s.unnamed(); unnamed != "" {
			return ": " + unnamed
		}
		return ", of which it has none"
	}
	return ": " + quoteList(names)
}

// meant says which name was meant, or all there are.
func (s *scope) meant(wrong string) string {
	if name := similar(wrong, s.rootNames()); name != "" {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	if unnamed := s.unnamed(); unnamed != "" {
		return ": " + unnamed
	}
	if len(s.rootNames()) == 0 {
		return "; it has none but the context"
	}
	return "; it has " + quoteList(s.rootNames())
}

// unnamed says what to do about parameters without a name, if there are some.
func (s *scope) unnamed() string {
	for v := range s.sig.Params().Variables() {
		if (v.Name() == "" || v.Name() == "_") && !isContext(v.Type()) {
			return fmt.Sprintf("its parameter of type %s has no name; give it one", s.typeName(v.Type()))
		}
	}
	return ""
}

// rootNames are the parameters without the context, and the receiver.
func (s *scope) rootNames() (names []string) {
	for v := range s.sig.Params().Variables() {
		if v.Name() != "" && v.Name() != "_" && !isContext(v.Type()) {
			names = append(names, v.Name())
		}
	}
	if s.recv != nil && s.recv.Name() != "" && s.recv.Name() != "_" {
		names = append(names, s.recv.Name())
	}
	return names
}

func (s *scope) firstParam() string {
	if n := s.sig.Params().Len(); n > 0 && s.sig.Params().At(0).Name() != "" {
		return s.sig.Params().At(0).Name()
	}
	return "…"
}

func (s *scope) typeName(t types.Type) string { return shortType(t, s.pkg) }

// function finds the function that a path calls, and checks its arguments.
func (s *scope) function(p *path, r *resolved) *slip {
	found := s.pkg.Scope().Lookup(p.root)
	fn, ok := found.(*types.Func)
	switch {
	case found == nil && types.Universe.Lookup(p.root) != nil:
		return slipAt(p.at, "%s is built into Go; only functions of the package are called in keys", p.root)
	case found == nil && slices.Contains(s.rootNames(), p.root):
		return slipAt(p.at, "%s is no function of the package; write one that takes %s and calls it", p.root, p.root)
	case found == nil:
		var names []string
		for _, name := range s.pkg.Scope().Names() {
			if _, is := s.pkg.Scope().Lookup(name).(*types.Func); is {
				names = append(names, name)
			}
		}
		if name := similar(p.root, names); name != "" {
			return slipAt(p.at, "the package has no function %q; did you mean %q?", p.root, name)
		}
		return slipAt(p.at, "the package has no function %q", p.root)
	case !ok:
		return slipAt(p.at, "%s is no function", p.root)
	}
	sig := fn.Signature()
	switch {
	case sig.TypeParams().Len() > 0:
		return slipAt(p.at, "%s is generic; write one that is not and calls it", p.root)
	case sig.Variadic():
		return slipAt(p.at, "%s takes a variable number of arguments; write one that does not and calls it", p.root)
	case sig.Params().Len() != len(p.args):
		return slipAt(p.at, "%s takes %s, not %d", p.root, counted(sig.Params().Len(), "argument"), len(p.args))
	}
	for i := range p.args {
		arg, err := s.walk(&p.args[i])
		if err != nil {
			return err
		}
		if want := sig.Params().At(i).Type(); !types.AssignableTo(arg.typ, want) {
			return slipAt(p.args[i].at, "%s takes a %s here, and %s is a %s", p.root, s.typeName(want), arg.text, s.typeName(arg.typ))
		}
		r.args = append(r.args, arg)
	}
	r.fn = fn
	var slip *slip
	r.typ, r.fails, slip = resultOf(sig, p.root, p.at)
	return slip
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// resultOf returns what a function in a key returns: T, or T and an error.
func resultOf(sig *types.Signature, name string, at int) (t types.Type, fails bool, err *slip) {
	results := sig.Results()
	switch {
	case results.Len() == 1 && !isError(results.At(0).Type()):
		return results.At(0).Type(), false, nil
	case results.Len() == 2 && isError(results.At(1).Type()):
		return results.At(0).Type(), true, nil
	}
	return nil, false, slipAt(at, "%s must return a value, or a value and an error", name)
}

// hop takes a field, or a method's result, of what r is so far, which is the path before
// it.
func (s *scope) hop(h *hop, r *resolved, before *path) *slip {
	if broken(r.typ) {
		return slipAt(h.at, "the type of what .%s is taken of is not known; %s", h.name, s.unknown())
	}
	obj, index, _ := types.LookupFieldOrMethod(r.typ, true, s.pkg, h.name)
	typeName := s.typeName(r.typ)
	switch found := obj.(type) {
	case *types.Var:
		if h.call {
			return slipAt(h.at, "%s is a field of %s: leave out the parentheses", h.name, typeName)
		}
		if err := s.embedded(h, r, index); err != nil {
			return err
		}
		r.hops = append(r.hops, resolvedHop{name: h.name, guard: isPointer(r.typ)})
		r.typ = found.Type()
	case *types.Func:
		sig := found.Signature()
		switch {
		case !h.call:
			return slipAt(h.at, "%s is a method of %s: write %s()", h.name, typeName, h.name)
		case sig.Params().Len() > 0:
			return slipAt(h.at, "%s.%s takes arguments; write a function of the package that calls it", typeName, h.name)
		}
		if err := s.embedded(h, r, index); err != nil {
			return err
		}
		if isNamed(sig.Recv().Type(), "time", "Time") && (h.name == "String" || h.name == "GoString") {
			return slipAt(h.at, "%s of a time.Time has many texts for one instant; write a function of the package that says which part counts, as in {day(%s)}", h.name, before.text())
		}
		t, fails, err := resultOf(sig, h.name, h.at)
		if err != nil {
			return err
		}
		_, isParam := types.Unalias(r.typ).(*types.TypeParam)
		guard := isPointer(r.typ) || types.IsInterface(r.typ) && !isParam
		ofVariable := isPointer(sig.Recv().Type()) && !isPointer(r.typ)
		r.hops = append(r.hops, resolvedHop{name: h.name, call: true, fails: fails, guard: guard, ofVariable: ofVariable})
		r.typ = t
	default:
		if isList(r.typ) {
			return slipAt(h.at, "%s is a list (%s); write a function of the package that returns a list of texts, as in {%s}", before.text(), typeName, before.texts())
		}
		return slipAt(h.at, "%s has no field or method %q%s", typeName, h.name, s.member(r.typ, h.name))
	}
	return nil
}

// embedded writes out the embedded fields on the way to h, each of which may be a nil
// pointer.
func (s *scope) embedded(h *hop, r *resolved, index []int) *slip {
	for _, i := range index[:len(index)-1] {
		t := r.typ
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		st, ok := t.Underlying().(*types.Struct)
		if !ok {
			return nil // an interface embeds nothing that may be nil
		}
		f := st.Field(i)
		if !f.Exported() && f.Pkg() != s.pkg {
			return slipAt(h.at, "%s comes from %s, which package %s keeps to itself; write a function of the package that returns it", h.name, f.Name(), f.Pkg().Name())
		}
		r.hops = append(r.hops, resolvedHop{name: f.Name(), guard: isPointer(r.typ)})
		r.typ = f.Type()
	}
	return nil
}

func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}

// isStruct reports whether a type is a struct, or a pointer to one.
func isStruct(t types.Type) bool {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	_, ok := t.Underlying().(*types.Struct)
	return ok
}

func isList(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Slice, *types.Array:
		return true
	}
	return false
}

// member says which field or method was meant, or which fields there are.
func (s *scope) member(t types.Type, wrong string) string {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	var fields, all []string
	if st, ok := t.Underlying().(*types.Struct); ok {
		for f := range st.Fields() {
			if f.Exported() || f.Pkg() == s.pkg {
				fields = append(fields, f.Name())
			}
		}
	}
	all = append(all, fields...)
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if m.Obj().Exported() || m.Obj().Pkg() == s.pkg {
			all = append(all, m.Obj().Name())
		}
	}
	if name := similar(wrong, all); name != "" {
		return fmt.Sprintf("; did you mean %q?", name)
	}
	if len(fields) > 0 {
		return "; it has " + quoteList(fields)
	}
	return ""
}
