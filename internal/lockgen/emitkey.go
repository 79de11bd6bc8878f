package lockgen

import (
	"fmt"
	"strings"
)

// A call is the signature of a generated function, and the names in it.
type call struct {
	*imports

	method  *method
	local   *locals
	params  []string
	results []string // the last is the error
	context int      // which of params is the context; -1 where nothing is locked
}

func newCall(e *emitter, m *method, local *locals) *call {
	c := &call{imports: e.imports, method: m, local: local, context: contextOf(m.sig)}
	for i := range m.sig.Params().Len() {
		fallback := fmt.Sprintf("p%d", i)
		if i == c.context {
			fallback = "ctx"
		}
		c.params = append(c.params, local.keep(m.sig.Params().At(i).Name(), fallback))
	}
	if m.lock == nil {
		return c
	}
	for i := range m.sig.Results().Len() - 1 {
		c.results = append(c.results, local.keep(fmt.Sprintf("r%d", i), ""))
	}
	c.results = append(c.results, local.keep("err", ""))
	return c
}

// signature writes the parameters and results; several results with their names where
// the body sets them.
func (c *call) signature(named bool) string {
	sig := c.method.sig
	var params, results []string
	for i := range sig.Params().Len() {
		t := sig.Params().At(i).Type()
		text := c.typeName(t)
		if sig.Variadic() && i == sig.Params().Len()-1 {
			text = "..." + strings.TrimPrefix(text, "[]")
		}
		params = append(params, c.params[i]+" "+text)
	}
	for i := range sig.Results().Len() {
		text := c.typeName(sig.Results().At(i).Type())
		if named && sig.Results().Len() > 1 {
			text = c.results[i] + " " + text
		}
		results = append(results, text)
	}
	out := "(" + strings.Join(params, ", ") + ")"
	switch {
	case len(results) == 1:
		out += " " + results[0]
	case len(results) > 1:
		out += " (" + strings.Join(results, ", ") + ")"
	}
	return out
}

// arguments passes the parameters on.
func (c *call) arguments() string {
	args := strings.Join(c.params, ", ")
	if c.method.sig.Variadic() {
		args += "..."
	}
	return args
}

// functions are those of the package that a lock's keys call.
func (l *lock) functions() (names []string) {
	for _, v := range l.values {
		if v.fn != nil {
			names = append(names, v.fn.Name())
		}
	}
	return names
}

// values writes what the lock's keys are made of: expressions, and statements that go
// before them.
func (c *call) values(recv string) (exprs []string, before string) {
	var b strings.Builder
	for _, v := range c.method.lock.values {
		w := &valueWriter{call: c, recv: recv}
		exprs = append(exprs, w.value(v, &b))
	}
	return exprs, b.String()
}

// A valueWriter writes one value of a key. A nil on the way to it is a missing value, so
// everything that may be nil is asked before it is used, and what is called is called
// once.
type valueWriter struct {
	*call

	recv    string
	out     strings.Builder
	closing int
	guards  []string // of what is not nil so far, still to be written
	target  string   // the variable that gets the value; empty while none is needed
}

// value returns the expression of a value.
func (w *valueWriter) value(v *resolved, before *strings.Builder) string {
	fun := w.name(funclockPath)
	if simple := w.simple(v); simple != "" {
		return w.converted(v, simple)
	}
	w.target = w.local.keep("v", "")
	expr := w.path(v)
	if v.conv.deref && !v.each {
		expr = w.once(expr)
		w.guards = append(w.guards, expr+" != nil")
		expr = "*" + expr
	}
	w.open()
	fmt.Fprintf(&w.out, "%s = %s\n", w.target, w.converted(v, expr))
	fmt.Fprintf(before, "var %s %s.Value // %s\n", w.target, fun, v.text)
	before.WriteString(w.out.String() + strings.Repeat("}\n", w.closing))
	return w.target
}

// simple returns a path as an expression, if nothing on it can be nil or fail, and
// otherwise nothing.
func (w *valueWriter) simple(v *resolved) string {
	if v.conv.deref && !v.each || v.fails || v.each && (v.fn != nil || hasCall(v)) {
		return ""
	}
	var args []string
	for _, a := range v.args {
		arg := w.simple(a)
		if arg == "" {
			return ""
		}
		args = append(args, arg)
	}
	var hops strings.Builder
	called := v.fn != nil
	for _, h := range v.hops {
		if h.guard || h.fails || h.ofVariable && called {
			return ""
		}
		called = called || h.call
		hops.WriteString("." + h.name)
		if h.call {
			hops.WriteString("()")
		}
	}
	return w.root(v, args) + hops.String()
}

func hasCall(v *resolved) bool {
	for _, h := range v.hops {
		if h.call {
			return true
		}
	}
	return false
}

// root writes what a path begins with.
func (w *valueWriter) root(v *resolved, args []string) string {
	switch {
	case v.fn != nil:
		return fmt.Sprintf("%s(%s)", v.fn.Name(), strings.Join(args, ", "))
	case v.recv:
		return w.recv
	}
	return w.params[v.param]
}

// path writes what has to be asked before a value can be taken, and returns the
// expression that takes it.
func (w *valueWriter) path(v *resolved) string {
	var args []string
	for _, a := range v.args {
		args = append(args, w.path(a))
	}
	expr := w.root(v, args)
	if v.fn != nil {
		expr = w.assign(expr, v.fails)
	}
	for _, h := range v.hops {
		if h.guard {
			w.guards = append(w.guards, expr+" != nil")
		}
		expr += "." + h.name
		if h.call {
			expr = w.assign(expr+"()", h.fails)
		}
	}
	return expr
}

// once returns a variable for an expression, so that it is not evaluated twice.
func (w *valueWriter) once(expr string) string {
	if !strings.Contains(expr, "(") {
		return expr
	}
	return w.assign(expr, false)
}

// assign writes the result of a call into a variable, behind all guards so far.
func (w *valueWriter) assign(expr string, fails bool) string {
	t := w.local.keep("t", "")
	if !fails {
		w.open()
		fmt.Fprintf(&w.out, "%s := %s\n", t, expr)
		return t
	}
	err := w.local.keep("failed", "")
	w.open()
	fmt.Fprintf(&w.out, "%s, %s := %s\n", t, err, expr)
	fmt.Fprintf(&w.out, "%s = %s.Failed(%s)\n", w.target, w.name(funclockPath), err)
	w.guards = append(w.guards, err+" == nil")
	return t
}

// open opens a block in which the guards hold.
func (w *valueWriter) open() {
	switch {
	case len(w.guards) > 0:
		fmt.Fprintf(&w.out, "if %s {\n", strings.Join(w.guards, " && "))
	case w.closing > 0:
		return
	default:
		w.out.WriteString("{\n")
	}
	w.closing++
	w.guards = nil
}

// converted makes a value of an expression.
func (w *valueWriter) converted(v *resolved, expr string) string {
	fun := w.name(funclockPath)
	if !v.each {
		return fmt.Sprintf("%s.%s(%s)", fun, v.conv.call, expr)
	}
	i := w.local.keep("i", "")
	element := expr + "[" + i + "]"
	if !v.conv.deref {
		return fmt.Sprintf("%s.Each(len(%s), func(%s int) %s.Value { return %s.%s(%s) })", fun, expr, i, fun, fun, v.conv.call, element)
	}
	return fmt.Sprintf("%s.Each(len(%s), func(%s int) %s.Value {\nif %s == nil {\nreturn %s.Value{}\n}\nreturn %s.%s(*%s)\n})",
		fun, expr, i, fun, element, fun, fun, v.conv.call, element)
}
