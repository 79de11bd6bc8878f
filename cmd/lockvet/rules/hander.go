package rules

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/cfg"
)

// A hander is a function of which is asked whether it hands a lock over.
type hander struct {
	pass    *analysis.Pass
	body    *ast.BlockStmt
	graph   *cfg.CFG
	results *types.Tuple
	returns []*ast.ReturnStmt
	locks   []taken                 // that it takes
	wrapped map[*types.Var]handed   // variables that have a lock within
	wraps   map[ast.Node]*types.Var // the statements that put it there
}

// handed is a lock, by itself or within something, that may be handed over.
type handed struct {
	handover

	lock *types.Var // nil: it comes from a call right in the return
	in   *types.Var // what has it within; nil: nothing that has a name
}

// handsOver returns how a function hands a lock over. All its returns must have the lock in one place, or nothing. On one way at least it must
// reach such a return with a lock that it has given to nobody else.
func handsOver(pass *analysis.Pass, fn *types.Func, decl *ast.FuncDecl, graph *cfg.CFG) (h handover, ok bool) {
	f := hander{pass: pass, body: decl.Body, graph: graph, results: fn.Signature().Results(), wrapped: make(map[*types.Var]handed), wraps: make(map[ast.Node]*types.Var)}
	statements(f.body, func(stmt ast.Node) {
		if ret, ok := stmt.(*ast.ReturnStmt); ok {
			f.returns = append(f.returns, ret)
		} else if t, ok := takes(pass, stmt); ok && f.has(t.lock) && isOwn(pass.TypesInfo, f.body, t) {
			f.locks = append(f.locks, t)
		}
	})
	statements(f.body, f.wrap)
	for i := range f.results.Len() {
		if h, ok := f.hands(i); ok {
			return h, true
		}
	}
	return h, false
}

// has reports whether a variable is one of the function: declared in it, or one of its results.
func (f *hander) has(v *types.Var) bool {
	if v == nil {
		return false
	}
	for result := range f.results.Variables() {
		if result == v {
			return true
		}
	}
	return f.body.Pos() <= v.Pos() && v.Pos() < f.body.End()
}

// wrap notes a statement that puts a lock into a variable: within a struct, or as a function that releases it.
func (f *hander) wrap(stmt ast.Node) {
	info := f.pass.TypesInfo
	assign, ok := stmt.(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return
	}
	v := variable(info, assign.Lhs[0])
	if field, ok := ast.Unparen(assign.Lhs[0]).(*ast.SelectorExpr); ok { // wrapper.lock = lock
		v = variable(info, field.X)
		if !f.has(v) || !isWritten(info, f.body, v) {
			return
		}
		for _, t := range f.locks {
			if variable(info, assign.Rhs[0]) == t.lock {
				h := handed{t.handover, t.lock, v}
				h.Back, h.Inside = "."+field.Sel.Name+t.Back, true
				f.wrapped[v], f.wraps[stmt] = h, v
			}
		}
		return
	}
	if h, ok := f.within(assign.Rhs[0]); ok && f.has(v) {
		h.in = v
		f.wrapped[v], f.wraps[stmt] = h, v
	}
}

// isWritten reports whether all that a function gives to a variable are structs that it writes out.
func isWritten(info *types.Info, body *ast.BlockStmt, v *types.Var) bool {
	written, other := false, false
	definitions(info, body, func(defined *types.Var, value ast.Expr) {
		if defined != v {
			return
		}
		if u, ok := ast.Unparen(value).(*ast.UnaryExpr); ok && u.Op == token.AND {
			value = u.X
		}
		_, ok := ast.Unparen(value).(*ast.CompositeLit)
		written, other = written || ok, other || !ok
	})
	return written && !other
}

// within returns the lock that an expression has within.
func (f *hander) within(e ast.Expr) (h handed, ok bool) {
	info := f.pass.TypesInfo
	e = ast.Unparen(e)
	if call, isCall := e.(*ast.CallExpr); isCall {
		var c carrier
		if fn := callee(info, call); fn != nil && f.pass.ImportObjectFact(fn, &c) && c.Param < len(call.Args) {
			if h, ok = f.named(call.Args[c.Param]); ok {
				h.Back, h.Inside = "", true // its type says it
			}
		}
		return h, ok
	}
	if h, ok = f.releaser(e); ok {
		return h, true
	}
	elements(e, func(of *ast.CompositeLit, key, value ast.Expr) {
		inner, found := f.named(value)
		if !found {
			inner, found = f.releaser(value)
		}
		if _, isStruct := info.TypeOf(of).Underlying().(*types.Struct); !found || !isStruct {
			return
		}
		h, ok = inner, true
		h.Inside = true
		if field, isName := key.(*ast.Ident); isName && of == plain(e) {
			h.Back = "." + field.Name + inner.Back
		} else {
			h.Back = ""
		}
	})
	return h, ok
}

// plain returns the struct that an expression writes out.
func plain(e ast.Expr) ast.Expr {
	if u, ok := e.(*ast.UnaryExpr); ok && u.Op == token.AND {
		return ast.Unparen(u.X)
	}
	return e
}

// named returns the lock of the function that an expression is.
func (f *hander) named(e ast.Expr) (h handed, ok bool) {
	if v := variable(f.pass.TypesInfo, e); v != nil {
		for _, t := range f.locks {
			if t.lock == v {
				return handed{handover: t.handover, lock: v}, true
			}
		}
	}
	return h, false
}

// releaser returns the lock that a function releases which stands in an expression: func() { lock.Release(ctx) }, or lock.Unlock.
func (f *hander) releaser(e ast.Expr) (h handed, ok bool) {
	is := func(n ast.Node) bool {
		method, isSelector := n.(*ast.SelectorExpr)
		if !isSelector {
			return false
		}
		lock, found := f.named(method.X)
		if found && slices.Contains(releasing, method.Sel.Name) {
			h, ok = lock, true
		}
		return found
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.SelectorExpr:
		is(e)
	case *ast.FuncLit:
		ast.Inspect(e.Body, func(n ast.Node) bool { return n != nil && !is(n) })
	}
	h.Back, h.Inside = "()", true
	return h, ok
}

// hands returns how a function hands a lock over as one of its results.
func (f *hander) hands(i int) (h handover, ok bool) {
	var handing []handed
	var with, without []*ast.ReturnStmt
	for _, ret := range f.returns {
		lock, found, known := f.result(ret, i)
		switch {
		case !known:
			return h, false
		case found:
			handing, with = append(handing, lock), append(with, ret)
		default:
			without = append(without, ret)
		}
	}
	if len(handing) == 0 || !f.isFree(handing, with) {
		return h, false
	}
	h = handing[0].handover
	for _, other := range handing {
		if other.Inside != h.Inside || other.Lease != h.Lease {
			return h, false
		}
		h.Maybe = h.Maybe || other.Maybe
	}
	h.Lock, h.Says = i, f.says(i, with, without)
	h.Maybe = h.Maybe || h.Says >= 0 && !isBool(f.results.At(h.Says).Type()) && slices.ContainsFunc(without, func(ret *ast.ReturnStmt) bool {
		return len(ret.Results) != f.results.Len() || f.pass.TypesInfo.Types[ret.Results[h.Says]].IsNil()
	})
	if h.Says < 0 && len(without) > 0 && !isNilable(f.results.At(i).Type()) {
		return h, false
	}
	return backOf(h, f.results.At(i).Type())
}

// result returns what a return has as one of its results. found: a lock; known: that, or nothing.
func (f *hander) result(ret *ast.ReturnStmt, i int) (lock handed, found, known bool) {
	info := f.pass.TypesInfo
	var v *types.Var
	switch {
	case len(ret.Results) == 0:
		v = f.results.At(i)
	case len(ret.Results) != f.results.Len(), f.results.Len() == 1 && isCall(ret.Results[0]):
		return f.called(ret.Results[0], i)
	default:
		e := ret.Results[i]
		if info.Types[e].IsNil() || isEmpty(e) {
			return lock, false, true
		}
		if v = variable(info, e); v == nil {
			lock, found = f.within(e)
			return lock, found, found
		}
	}
	if lock, found = f.wrapped[v]; found {
		return lock, true, f.isOnlyReturned(v)
	}
	for _, t := range f.locks {
		if t.lock == v {
			return handed{handover: t.handover, lock: v}, true, true
		}
	}
	found = f.locksHere(ret, v)
	return handed{handover: handover{Back: ".Unlock"}}, found, found
}

func isCall(e ast.Expr) bool {
	_, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok
}

// isEmpty reports whether an expression is a struct without a value: Lock{}.
func isEmpty(e ast.Expr) bool {
	lit, ok := ast.Unparen(e).(*ast.CompositeLit)
	return ok && len(lit.Elts) == 0
}

// called is result of a return whose results are those of a call.
func (f *hander) called(e ast.Expr, i int) (lock handed, found, known bool) {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return lock, false, false
	}
	h, ok := hands(f.pass, callee(f.pass.TypesInfo, call))
	if ok && h.Lock == i {
		return handed{handover: h}, true, true
	}
	if f.results.Len() == 1 {
		lock, found = f.within(e)
	}
	return lock, found, found
}

// locksHere reports whether a return has a mutex that the function has made, and the call that locks it: return mutex, mutex.Lock().
func (f *hander) locksHere(ret *ast.ReturnStmt, v *types.Var) bool {
	info := f.pass.TypesInfo
	for _, e := range ret.Results {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		if !ok || !locksMutex(callee(info, call)) {
			continue
		}
		method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if ok && f.has(v) && variable(info, method.X) == v {
			return isOwn(info, f.body, taken{handover: handover{Back: ".Unlock"}, stmt: ret, call: call, lock: v})
		}
	}
	return false
}

// isOnlyReturned reports whether a function does nothing but return a variable that has a lock within, and set its fields.
func (f *hander) isOnlyReturned(v *types.Var) bool {
	info, only := f.pass.TypesInfo, true
	var stack []ast.Node
	ast.Inspect(f.body, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		if id, ok := n.(*ast.Ident); ok && info.Uses[id] == v {
			only = only && isSetOrReturned(stack)
		}
		return true
	})
	return only
}

// isSetOrReturned reports whether the last of these nodes, of which each stands in the one before, is returned, or a field of it is set.
func isSetOrReturned(stack []ast.Node) bool {
	n := len(stack)
	if _, ok := stack[n-2].(*ast.ReturnStmt); ok {
		return true
	}
	field, ok := stack[n-2].(*ast.SelectorExpr)
	if !ok {
		return false
	}
	assign, ok := stack[n-3].(*ast.AssignStmt)
	return ok && slices.Contains(assign.Lhs, ast.Expr(field))
}

// isFree reports whether one of the locks reaches one of the returns, and is given to nobody else on any way.
func (f *hander) isFree(handing []handed, with []*ast.ReturnStmt) bool {
	hands := make(map[ast.Node]bool)
	for _, ret := range with {
		hands[ret] = true
	}
	return slices.ContainsFunc(handing, func(h handed) bool {
		wraps := make(map[ast.Node]bool)
		for stmt, v := range f.wraps {
			wraps[stmt] = v == h.in
		}
		return h.lock == nil || slices.ContainsFunc(f.locks, func(t taken) bool {
			w := walk{info: f.pass.TypesInfo, taken: t, hands: hands, wraps: wraps}
			return t.lock == h.lock && !f.isKept(w) && w.through(f.body, f.graph) != nil
		})
	})
}

// isKept reports whether a lock is given to somebody besides the caller.
func (f *hander) isKept(w walk) bool {
	for _, b := range f.graph.Blocks {
		for _, n := range b.Nodes {
			if !w.hands[n] && !w.wraps[n] && givesAway(w.info, n, w.taken) && !assigns(w.info, n, w.lock) && !isRelease(w.info, n, w.lock) {
				return true
			}
		}
	}
	return false
}

// isRelease reports whether a node does nothing with a lock but release it, at once.
func isRelease(info *types.Info, n ast.Node, lock *types.Var) bool {
	only := true
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.GoStmt, *ast.FuncLit:
			only = false
		case *ast.CallExpr:
			if method, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok && variable(info, method.X) == lock && slices.Contains(releasing, method.Sel.Name) {
				return false
			}
		case *ast.Ident:
			only = only && info.Uses[n] != lock
		}
		return only
	})
	return only
}

// says returns which result says whether the lock was taken: the error, or a bool that is true where there is a lock and false where there is none.
func (f *hander) says(lock int, with, without []*ast.ReturnStmt) int {
	last := f.results.Len() - 1
	if last != lock && isError(f.results.At(last).Type()) {
		return last
	}
	for i := range f.results.Len() {
		if isBool(f.results.At(i).Type()) && f.isConstant(with, i, true) && f.isConstant(without, i, false) {
			return i
		}
	}
	return -1
}

// isConstant reports whether returns have a constant as one of their results, or the result of a call that says the same.
func (f *hander) isConstant(returns []*ast.ReturnStmt, i int, value bool) bool {
	return !slices.ContainsFunc(returns, func(ret *ast.ReturnStmt) bool {
		if len(ret.Results) == f.results.Len() {
			c := f.pass.TypesInfo.Types[ret.Results[i]].Value
			return c == nil || c.Kind() != constant.Bool || constant.BoolVal(c) != value
		}
		if len(ret.Results) != 1 {
			return true
		}
		call, ok := ast.Unparen(ret.Results[0]).(*ast.CallExpr)
		if !ok {
			return true
		}
		h, ok := hands(f.pass, callee(f.pass.TypesInfo, call))
		return !ok || h.Says != i
	})
}

func isNilable(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Interface, *types.Pointer, *types.Signature:
		return true
	}
	return false
}

// backOf completes how a lock is given back that a caller has as such a type; ok is false if that is not seen.
func backOf(h handover, t types.Type) (handover, bool) {
	if h.Back == "()" {
		_, ok := t.Underlying().(*types.Signature)
		return h, ok
	}
	of := t
	if !types.IsInterface(t) {
		if _, isPointer := t.Underlying().(*types.Pointer); !isPointer {
			of = types.NewPointer(t)
		}
	}
	methods := types.NewMethodSet(of)
	for _, start := range []string{"release", "unlock", "free", "close"} {
		for method := range methods.Methods() {
			name := method.Obj().Name()
			if strings.HasPrefix(strings.ToLower(name), start) && (h.Inside || slices.Contains(releasing, name)) {
				h.Back = "." + name
				return h, true
			}
		}
	}
	return h, h.Inside && h.Back != "" && !types.IsInterface(t)
}
