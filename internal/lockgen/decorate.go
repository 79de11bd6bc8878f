package lockgen

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A decorator is what is generated for one interface, type or function.
type decorator struct {
	file    *file
	obj     types.Object // the type or function
	named   *types.Named // the type, with its own type parameters as arguments; nil for a function
	pointer bool         // it decorates a *T
	methods []*method    // of a function there is one
}

// A method of a decorator runs under a lock, or passes its call on.
type method struct {
	name string
	pos  token.Pos // of its declaration
	sig  *types.Signature
	via  via
	lock *lock // nil: it passes the call on
}

// A via is the embedded fields through which a type has a method; mostly there are none.
type via struct {
	fields  []string
	pointer bool // the last field is a pointer
}

func (d *decorator) name() string { return d.obj.Name() }

func (d *decorator) isInterface() bool { return d.named != nil && types.IsInterface(d.named) }

// function is the name of what is generated for users to call: LockOrders, or lockOrders
// of an orders.
func (d *decorator) function() string { return prefixed("Lock", d.name()) }

// typeName is the name of the generated type. A type's decorator is for users to name;
// that of an interface is hidden behind the interface.
func (d *decorator) typeName() string {
	if d.isInterface() {
		first, size := utf8.DecodeRuneInString(d.name())
		return "locking" + string(unicode.ToUpper(first)) + d.name()[size:]
	}
	return prefixed("Locked", d.name())
}

// prefixed puts a word before a name, which stays exported or not.
func prefixed(word, name string) string {
	first, size := utf8.DecodeRuneInString(name)
	if !ast.IsExported(name) {
		word = strings.ToLower(word)
	}
	return word + string(unicode.ToUpper(first)) + name[size:]
}

// A builder makes the decorators of a package.
type builder struct {
	*pack

	targets  map[token.Pos]*target // by where the method's name stands
	relative func(path string) string
	made     []*decorator
	issues   []issue
}

// build makes the decorators that the directives of a package ask for.
func (p *pack) build(targets []*target, relative func(string) string) ([]*decorator, []issue) {
	b := &builder{pack: p, targets: make(map[token.Pos]*target), relative: relative}
	for _, t := range targets {
		b.targets[t.name.Pos()] = t
	}
	seen := make(map[types.Object]bool)
	for _, t := range targets {
		obj, file, problem := b.owner(t)
		switch {
		case problem != "":
			b.complainf(t.pos, "%s", problem)
		case obj != nil && !seen[obj]:
			seen[obj] = true
			b.decorate(obj, file)
		}
	}
	b.checkNames()
	return b.made, b.issues
}

func (b *builder) complainf(pos token.Pos, format string, args ...any) {
	if found := (issue{pos, fmt.Sprintf(format, args...)}); !slices.Contains(b.issues, found) {
		b.issues = append(b.issues, found)
	}
}

// owner returns what is decorated because of a directive, and the file where that is
// declared.
func (b *builder) owner(t *target) (types.Object, *file, string) {
	scope := b.types.Scope()
	switch {
	case t.of != nil:
		if t.of.Assign.IsValid() {
			return nil, nil, fmt.Sprintf("%s is an alias; write type %s interface { … }", t.of.Name.Name, t.of.Name.Name)
		}
		return scope.Lookup(t.of.Name.Name), t.file, ""
	case t.name.Name == "_" || t.decl.Recv == nil && (t.name.Name == "init" || t.name.Name == "main" && b.types.Name() == "main"):
		return nil, nil, fmt.Sprintf("nobody but Go calls %s: lock a function that it calls", t.name.Name)
	case t.decl.Recv == nil:
		return scope.Lookup(t.name.Name), t.file, ""
	}
	name := receiverName(t.decl.Recv.List[0].Type)
	obj, ok := scope.Lookup(name).(*types.TypeName)
	if ok && obj.IsAlias() {
		return nil, nil, fmt.Sprintf("the receiver's type %s is an alias; write the type that it stands for", name)
	}
	if !ok {
		return nil, nil, fmt.Sprintf("the type %s of the receiver is not declared in this build of the package", name)
	}
	file := b.fileOf(obj.Pos())
	if file.build != t.file.build || !slices.Equal(platformOf(file.path), platformOf(t.file.path)) {
		return nil, nil, fmt.Sprintf("%s is in other builds than its type %s: a decorator could not be in both; move the method, or the type", t.name.Name, name)
	}
	return obj, file, ""
}

// receiverName returns the name of the type of a receiver such as *Repo[K, V].
func receiverName(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func (b *builder) fileOf(pos token.Pos) *file {
	for _, f := range b.files {
		if f.syntax.FileStart <= pos && pos < f.syntax.FileEnd {
			return f
		}
	}
	return b.files[0]
}

// decorate makes the decorator of a type or function.
func (b *builder) decorate(obj types.Object, file *file) {
	d := &decorator{file: file, obj: obj}
	switch o := obj.(type) {
	case *types.Func:
		d.methods = []*method{b.method(o, o.Signature(), via{})}
	case *types.TypeName:
		d.named, _ = withOwnParams(o.Type()).(*types.Named)
		if i, ok := d.named.Underlying().(*types.Interface); ok {
			b.interfaceMethods(d, i)
		} else {
			b.typeMethods(d)
		}
	}
	b.made = append(b.made, d)
}

// withOwnParams returns a generic type with its own type parameters as arguments.
func withOwnParams(t types.Type) types.Type {
	named, ok := t.(*types.Named)
	if !ok || named.TypeParams().Len() == 0 {
		return t
	}
	args := make([]types.Type, named.TypeParams().Len())
	for i := range args {
		args[i] = named.TypeParams().At(i)
	}
	inst, err := types.Instantiate(nil, named, args, false)
	if err != nil {
		return t
	}
	return inst
}

func (b *builder) interfaceMethods(d *decorator, i *types.Interface) {
	if !i.IsMethodSet() {
		b.complainf(d.obj.Pos(), "%s is a constraint and no interface of values: nothing can be decorated", d.name())
		return
	}
	for f := range i.Methods() {
		if !f.Exported() && f.Pkg() != b.types {
			b.complainf(d.obj.Pos(), "%s embeds the method %s, which package %s keeps to itself: no decorator can have it", d.name(), f.Name(), f.Pkg().Name())
			continue
		}
		if reason := b.unnameableSignature(f.Signature()); reason != "" {
			b.complainf(d.obj.Pos(), "%s embeds the method %s, whose signature has %s: no decorator can have it", d.name(), f.Name(), reason)
			continue
		}
		d.methods = append(d.methods, b.method(f, f.Signature(), via{}))
	}
	b.embedded(d, i, make(map[string]bool))
}

// embedded complains of embedded methods with a lock that the decorator does not take.
// written are the methods that an interface around i declares itself: those are what it
// wants, with a directive or without.
func (b *builder) embedded(d *decorator, i *types.Interface, written map[string]bool) {
	written = maps.Clone(written)
	for f := range i.ExplicitMethods() {
		written[f.Name()] = true
	}
	for t := range i.EmbeddedTypes() {
		inner, ok := t.Underlying().(*types.Interface)
		if !ok {
			continue
		}
		for f := range inner.ExplicitMethods() {
			if written[f.Name()] {
				continue
			}
			b.lostLocks(d, f)
			has := func(m *method) bool { return m.name == f.Name() && m.pos != f.Pos() }
			if b.targets[f.Pos()] != nil && slices.ContainsFunc(d.methods, has) {
				b.complainf(d.obj.Pos(), "%s embeds %s twice, and the lock of one of them is not taken; write the method out here, with a directive of its own",
					d.name(), f.Name())
			}
		}
		b.embedded(d, inner, written)
	}
}

func (b *builder) typeMethods(d *decorator) {
	set := types.NewMethodSet(d.named)
	pointers := types.NewMethodSet(types.NewPointer(d.named))
	if pointers.Len() > set.Len() {
		d.pointer = true
		set = pointers
	}
	for sel := range set.Methods() {
		f := sel.Obj().(*types.Func)
		// The selection's own type would have the decorated type as its receiver.
		m := b.method(f, f.Signature(), fieldsTo(d.named, sel.Index()))
		reason := b.unnameableSignature(m.sig)
		if m.lock == nil && (!f.Exported() || reason != "") {
			continue
		}
		if reason != "" {
			b.complainf(f.Pos(), "the signature of %s has %s: no decorator can have it", f.Name(), reason)
		}
		b.lostLocks(d, f)
		d.methods = append(d.methods, m)
	}
}

// fieldsTo returns the embedded fields on the way to a method.
func fieldsTo(t types.Type, index []int) (through via) {
	for _, i := range index[:len(index)-1] {
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		st, ok := t.Underlying().(*types.Struct)
		if !ok {
			break
		}
		t = st.Field(i).Type()
		through.fields = append(through.fields, st.Field(i).Name())
		through.pointer = isPointer(t)
	}
	return through
}

// method makes a method of a decorator. sig is its signature there, with the type
// arguments of embedded types filled in.
func (b *builder) method(f *types.Func, sig *types.Signature, through via) *method {
	m := &method{name: f.Name(), pos: f.Pos(), sig: sig, via: through}
	if t := b.targets[f.Pos()]; t != nil {
		m.lock = b.lock(t, f, sig)
		for _, v := range m.lock.values {
			v.receiverIsSafe(!through.pointer)
		}
	}
	return m
}

// lostLocks complains of a method that an interface or type embeds from another package,
// where it has a directive: here it would be without its lock, and nobody would notice.
// The Error of Go's own interface has no package.
func (b *builder) lostLocks(d *decorator, f *types.Func) {
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
