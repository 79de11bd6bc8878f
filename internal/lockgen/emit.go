package lockgen

import (
	"bytes"
	"fmt"
	"go/format"
	"go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// An emitter writes the decorators of one source file.
type emitter struct {
	bytes.Buffer

	*imports
}

func (e *emitter) linef(format string, args ...any) { fmt.Fprintf(e, format+"\n", args...) }

// emit returns the code of the decorators of a file.
func emit(pkg *types.Package, source *file, decorators []*decorator) ([]byte, error) {
	i := newImports(pkg, decorators)
	var body *emitter
	// The first pass only fills i: what the parameters of the first method may be called
	// depends on the imports of the last one.
	for range 2 {
		body = &emitter{imports: i}
		for _, d := range decorators {
			body.decorator(d)
		}
	}
	out := &emitter{imports: i}
	out.linef("%s", header)
	out.linef("// The directives are in %s.", filepath.Base(source.path))
	out.linef("")
	if source.build != "" {
		out.linef("%s\n", source.build)
	}
	out.linef("package %s\n", pkg.Name())
	out.linef("%s", i.lines())
	out.Write(body.Bytes())
	code, err := format.Source(out.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: lockgen wrote code that is no Go, which is a mistake of lockgen: %w\n%s", source.path, err, out.Bytes())
	}
	return code, nil
}

// decorator writes all that is generated for one type or function.
func (e *emitter) decorator(d *decorator) {
	if d.named == nil {
		e.functionDecorator(d)
		return
	}
	fields := d.fields()
	e.constructor(d, fields)
	e.typeDecl(d, fields)
	for _, m := range d.methods {
		e.method(d, m, fields, paramsUse(d.typeParams()))
	}
}

// constructor writes the function that users call: LockOrders.
func (e *emitter) constructor(d *decorator, fields fieldNames) {
	args := paramsUse(d.typeParams())
	result := "*" + d.typeName() + args
	if d.isInterface() {
		result = d.decorated()
	}
	local := newLocals(e.imports, e.outside(d)...)
	next, locks, tune := local.keep("next", ""), local.keep("locks", ""), local.keep("tune", "")
	e.comment(d)
	e.linef("func %s%s(%s %s, %s *%s.Locker, %s ...%s.Tune) %s {", d.function(), e.paramsDecl(d.typeParams()),
		next, d.decorated(), locks, e.name(lockmwPath), tune, e.name(funclockPath), result)
	if d.checksNext() {
		e.linef("if %s == nil {\npanic(%q)\n}", next, d.function()+": the decorated "+d.name()+" is nil")
	}
	e.linef("return &%s%s{", d.typeName(), args)
	e.linef("%s: %s,", fields.next, next)
	for _, m := range d.methods {
		if m.lock != nil {
			e.linef("%s: %s,", fields.locks[m.name], e.spec(m.lock, locks, tune))
		}
	}
	e.linef("}\n}\n")
}

// typeDecl writes the type of what the constructor returns.
func (e *emitter) typeDecl(d *decorator, fields fieldNames) {
	params := e.paramsDecl(d.typeParams())
	if d.isInterface() {
		e.linef("// %s is what %s returns.", d.typeName(), d.function())
	} else {
		e.linef("// %s has the methods of %s, of which some run under a lock, see %s.", d.typeName(), d.name(), d.function())
	}
	e.linef("type %s%s struct {", d.typeName(), params)
	e.linef("%s %s", fields.next, d.decorated())
	for _, m := range d.methods {
		if m.lock != nil {
			e.linef("%s *%s.Lock", fields.locks[m.name], e.name(funclockPath))
		}
	}
	e.linef("}\n")
	if d.isInterface() && params == "" {
		e.linef("var _ %s = (*%s)(nil)\n", d.name(), d.typeName())
	}
}

// decorated writes the type that a decorator is made of, such as Orders or *Cache[K, V].
func (d *decorator) decorated() string {
	written := d.name() + paramsUse(d.typeParams())
	if d.pointer {
		return "*" + written
	}
	return written
}

// comment describes what is generated for users to call.
func (e *emitter) comment(d *decorator) {
	switch {
	case d.named == nil:
		e.linef("// %s returns %s under the lock of its directive.", d.function(), d.name())
	case d.isInterface():
		e.linef("// %s returns %s whose methods run under the locks of their directives, and call\n// next then. Those without a directive only call next.", d.function(), article(d.name()))
	default:
		e.linef("// %s returns next with its methods under the locks of their directives. Those\n// without a directive only call next.", d.function())
	}
	e.linef("//")
	for _, m := range d.methods {
		if m.lock != nil {
			e.linef("//   - %s: %s", m.lock.id, m.lock.text)
		}
	}
	e.linef("//")
	who := "locks is nil"
	if d.checksNext() {
		who = "next or locks is nil"
	}
	e.linef("// It panics if %s, or if a policy is invalid once tune has changed it.", who)
}

// checksNext reports whether the decorator refuses a nil: where its methods could not be
// called on one. A value of another type, such as a func, is what it is.
func (d *decorator) checksNext() bool { return d.pointer || d.isInterface() }

func article(name string) string {
	if strings.ContainsRune("AEIOUaeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// fieldNames are those of a generated type.
type fieldNames struct {
	next  string
	locks map[string]string // by method
}

// fields chooses names that no method of the type has.
func (d *decorator) fields() fieldNames {
	used := &locals{taken: map[string]bool{"_": true}}
	for _, m := range d.methods {
		used.taken[m.name] = true
	}
	f := fieldNames{next: used.keep("next", ""), locks: make(map[string]string)}
	for _, m := range d.methods {
		if m.lock != nil {
			f.locks[m.name] = used.keep(prefixed("lock", m.name), "")
		}
	}
	return f
}

// outside are the names that the code which makes a decorator may need from outside of
// it: types, the variable of policy= and type parameters.
func (e *emitter) outside(d *decorator) []string {
	return append(e.self.Scope().Names(), namesOf(d.typeParams())...)
}

// spec writes the call that makes a lock.
func (e *emitter) spec(l *lock, locks, tune string) string {
	fun, mw := e.name(funclockPath), e.name(lockmwPath)
	var b strings.Builder
	fmt.Fprintf(&b, "%s.New(%s, %s.Spec{\nName: %q,\nKeys: []string{%s},\n", fun, locks, fun, l.id, quoteAll(l.keys))
	if len(l.values) > 0 {
		var names []string
		for _, v := range l.values {
			names = append(names, v.text)
		}
		fmt.Fprintf(&b, "Values: []string{%s},\n", quoteAll(names))
	}
	var settings []string
	for _, s := range l.policy.settings {
		settings = append(settings, s.code(e.imports))
	}
	switch {
	case l.policy.base != nil && len(settings) == 0:
		fmt.Fprintf(&b, "Policy: %s,\n", l.policy.base.value)
	case l.policy.base != nil:
		fmt.Fprintf(&b, "Policy: func(p %s.Policy) %s.Policy {\n", mw, mw)
		for i, s := range l.policy.settings {
			fmt.Fprintf(&b, "p.%s = %s\n", s.field, settings[i])
		}
		fmt.Fprintf(&b, "return p\n}(%s),\n", l.policy.base.value)
	case len(settings) > 0:
		var fields []string
		for i, s := range l.policy.settings {
			fields = append(fields, s.field+": "+settings[i])
		}
		fmt.Fprintf(&b, "Policy: %s.Policy{%s},\n", mw, strings.Join(fields, ", "))
	}
	fmt.Fprintf(&b, "}, %s...)", tune)
	return b.String()
}

func quoteAll(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = strconv.Quote(s)
	}
	return strings.Join(quoted, ", ")
}

// functionDecorator writes the decorator of a function: a function of the same
// signature.
func (e *emitter) functionDecorator(d *decorator) {
	m := d.methods[0]
	outer := newLocals(e.imports, e.outside(d)...)
	locks, tune, lockName := outer.keep("locks", ""), outer.keep("tune", ""), outer.keep("lock", "")
	inner := newLocals(e.imports, slices.Concat(namesOf(d.typeParams()), m.lock.functions(), []string{d.name(), lockName})...)
	c := newCall(e, m, inner)
	e.comment(d)
	e.linef("func %s%s(%s *%s.Locker, %s ...%s.Tune) %s {", d.function(), e.paramsDecl(d.typeParams()),
		locks, e.name(lockmwPath), tune, e.name(funclockPath), "func"+c.signature(false))
	e.linef("%s := %s", lockName, e.spec(m.lock, locks, tune))
	e.linef("return func%s {", c.signature(true))
	e.locked(c, lockName, d.name()+paramsUse(d.typeParams()), "")
	e.linef("}\n}\n")
}

// method writes a method of a decorator.
func (e *emitter) method(d *decorator, m *method, fields fieldNames, args string) {
	outer := namesOf(d.typeParams())
	if m.lock != nil {
		outer = append(outer, m.lock.functions()...)
	}
	c := newCall(e, m, newLocals(e.imports, outer...))
	self := c.local.keep("d", "")
	next := self + "." + fields.next
	switch m.lock {
	case nil:
		e.linef("// %s calls the decorated %s.", m.name, d.name())
	default:
		e.linef("// %s runs under the lock %s.", m.name, m.lock.id)
	}
	e.linef("func (%s *%s%s) %s%s {", self, d.typeName(), args, m.name, c.signature(m.lock != nil))
	if m.lock == nil {
		call := fmt.Sprintf("%s.%s(%s)", next, m.name, c.arguments())
		if m.sig.Results().Len() > 0 {
			call = "return " + call
		}
		e.linef("%s\n}\n", call)
		return
	}
	e.locked(c, self+"."+fields.locks[m.name], next+"."+m.name, d.receiver(m, next))
	e.linef("}\n")
}

// receiver writes what a method's receiver is in the decorator.
func (d *decorator) receiver(m *method, next string) string {
	if m.lock.recv == nil {
		return ""
	}
	expr := strings.Join(append([]string{next}, m.via.fields...), ".")
	is, want := m.via.pointer, isPointer(m.lock.recv.Type())
	if len(m.via.fields) == 0 {
		is = d.pointer
	}
	switch {
	case is && !want:
		return "(*" + expr + ")"
	case want && !is:
		return "(&" + expr + ")"
	}
	return expr
}

// locked writes the body of a function that runs another one under a lock.
func (e *emitter) locked(c *call, lock, next, recv string) {
	values, before := c.values(recv)
	e.WriteString(before)
	key := fmt.Sprintf("%s.Key(%s)", lock, strings.Join(values, ", "))
	work := fmt.Sprintf("%s(%s)", next, c.arguments())
	context := fmt.Sprintf("%s %s.Context", c.params[c.context], e.name("context"))
	results := c.results
	if len(results) == 1 {
		e.linef("return %s.Run(%s, func(%s) error {\nreturn %s\n})", key, c.params[c.context], context, work)
		return
	}
	err := results[len(results)-1]
	e.linef("%s = %s.Run(%s, func(%s) (%s error) {", err, key, c.params[c.context], context, err)
	e.linef("%s = %s\nreturn %s\n})", strings.Join(results, ", "), work, err)
	e.linef("return %s", strings.Join(results, ", "))
}
