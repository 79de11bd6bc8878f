package rules

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/cfg"
)

// Release finds locks that are not given back.
var Release = &analysis.Analyzer{
	Name: "lockrelease",
	Doc: `find locks that are not released on each way out of a function

A lease that is not released is renewed for as long as its process lives, and everybody else waits for it.

	ctx, lease, err := locks.Acquire(ctx, key, policy)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)

The rule also knows the locks of redislock (Obtain) and redsync (Lock, LockContext, TryLock, TryLockContext).`,
	URL:      docs,
	Requires: []*analysis.Analyzer{ctrlflow.Analyzer},
	Run:      runRelease,
}

// A taken is a lock that a function takes.
type taken struct {
	stmt ast.Node
	call *ast.CallExpr
	lock *types.Var // what has the method for the release
	err  *types.Var // not nil: the lock was not taken

	says map[*types.Var]bool // what is made of err, such as ok in: _, ok := errors.AsType[*T](err); true: it holds where the lock was not taken
}

func runRelease(pass *analysis.Pass) (any, error) {
	graphs := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	files(pass, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					checkReleases(pass, n.Body, graphs.FuncDecl(n))
				}
			case *ast.FuncLit:
				checkReleases(pass, n.Body, graphs.FuncLit(n))
			}
			return true
		})
	})
	return nil, nil
}

func checkReleases(pass *analysis.Pass, body *ast.BlockStmt, graph *cfg.CFG) {
	if graph == nil {
		return
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.AssignStmt:
			t, dropped := takes(pass.TypesInfo, n)
			switch {
			case dropped:
				pass.Reportf(n.Pos(), "the lease is dropped: nobody can release the lock, and it is renewed for as long as the process lives")
			case t.lock == nil || t.err == nil || t.lock.Pos() < body.Pos() || t.lock.Pos() >= body.End(): // others may release it
			case isKeptElsewhere(pass.TypesInfo, body, t) || switches(pass.TypesInfo, body, t.err):
			default:
				if way := unreleased(pass.TypesInfo, graph, t); way != nil {
					pass.Reportf(t.call.Pos(), "the lock is not released on each way out of the function: line %d is reached without %s.%s",
						pass.Fset.Position(way.Pos()).Line, t.lock.Name(), releaseOf(pass.TypesInfo, t.call))
				}
			}
		}
		return true
	})
}

// takes returns the lock that a statement takes. dropped: it has no name.
func takes(info *types.Info, assign *ast.AssignStmt) (t taken, dropped bool) {
	if len(assign.Rhs) != 1 {
		return t, false
	}
	call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
	if !ok {
		return t, false
	}
	fn := callee(info, call)
	t = taken{stmt: assign, call: call}
	var at int // of the lease among the results
	switch {
	case isOf(fn, "lockmw", "Acquire", "AcquireAll", "Resume") && len(assign.Lhs) == 3:
		at = 1
	case isFunc(fn, redislock, "Obtain") && len(assign.Lhs) == 2:
		at = 0
	case isRedsync(fn) && len(assign.Lhs) == 1:
		if method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
			t.lock = variable(info, method.X)
		}
		t.err = variable(info, assign.Lhs[0])
		return t, false
	default:
		return t, false
	}
	if id, ok := assign.Lhs[at].(*ast.Ident); ok && id.Name == "_" {
		return t, true
	}
	t.lock, t.err = variable(info, assign.Lhs[at]), variable(info, assign.Lhs[len(assign.Lhs)-1])
	return t, false
}

func isRedsync(fn *types.Func) bool {
	return isFunc(fn, redsync, "Lock", "LockContext", "TryLock", "TryLockContext")
}

func releaseOf(info *types.Info, call *ast.CallExpr) string {
	if isRedsync(callee(info, call)) {
		return "Unlock"
	}
	return "Release"
}

// isKeptElsewhere reports whether a lock was given to somebody in front of the place where it is taken: to a deferred function, or to a field.
func isKeptElsewhere(info *types.Info, body *ast.BlockStmt, t taken) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		stmt, ok := n.(ast.Stmt)
		if !ok || found {
			return !found
		}
		switch stmt.(type) {
		case *ast.BlockStmt, *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.CaseClause, *ast.CommClause, *ast.LabeledStmt:
			return true
		}
		if stmt != t.stmt && stmt.Pos() < t.stmt.Pos() {
			found = givesAway(info, stmt, t)
		}
		return false
	})
	return found
}

// switches reports whether a function goes by an error with a switch of which the graph does not tell what it compares.
func switches(info *types.Info, body *ast.BlockStmt, err *types.Var) (found bool) {
	of := func(v *types.Var) bool { return v == err }
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SwitchStmt:
			found = found || n.Tag != nil && mentions(info, n.Tag, of)
		case *ast.TypeSwitchStmt:
			found = found || mentions(info, n.Assign, of)
		}
		return !found
	})
	return found
}

// A step is a block of a function, and whether the error of the lock is still in its variable.
type step struct {
	block *cfg.Block
	fresh bool
}

// unreleased returns where a function is left with its lock; nil: nowhere, or the function goes by the lock's error in a way that is not known.
func unreleased(info *types.Info, graph *cfg.CFG, t taken) ast.Node {
	t.says = madeOf(info, graph, t)
	for _, b := range graph.Blocks {
		for i, n := range b.Nodes {
			if n == t.stmt {
				w := walk{info, t, make(map[step]bool)}
				return w.from(step{b, true}, b.Nodes[i+1:])
			}
		}
	}
	return nil
}

// A walk goes all ways that a function may take with its lock.
type walk struct {
	info *types.Info
	taken
	seen map[step]bool
}

// from returns where the function is left, from a step on, of whose block these nodes are ahead.
func (w walk) from(s step, nodes []ast.Node) ast.Node {
	for _, n := range nodes {
		if givesAway(w.info, n, w.taken) {
			return nil
		}
		if n != w.stmt && assigns(w.info, n, w.err) {
			s.fresh = false
		}
	}
	if exit := s.block.Return(); exit != nil {
		return exit
	}
	ends := way{}
	if len(s.block.Succs) == 2 && len(s.block.Nodes) > 0 {
		if cond, ok := s.block.Nodes[len(s.block.Nodes)-1].(ast.Expr); ok {
			ends = wayWithout(w.info, cond, w.taken, s.fresh)
		}
	}
	for i, next := range s.block.Succs {
		without := i == 0 && ends.onTrue || i == 1 && ends.onFalse
		to := step{next, s.fresh}
		if without || w.seen[to] {
			continue
		}
		w.seen[to] = true
		if exit := w.from(to, next.Nodes); exit != nil {
			return exit
		}
	}
	return nil
}

// madeOf returns what a function makes of the error of a lock, and whether that is true where the lock was not taken.
func madeOf(info *types.Info, graph *cfg.CFG, t taken) map[*types.Var]bool {
	found := make(map[*types.Var]bool)
	for _, b := range graph.Blocks {
		for _, n := range b.Nodes {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || n == t.stmt {
				continue
			}
			for _, from := range assign.Rhs {
				if !mentions(info, from, func(v *types.Var) bool { return v == t.err }) {
					continue
				}
				for _, lhs := range assign.Lhs {
					if v := variable(info, lhs); v != nil && v != t.err {
						found[v] = findsOne(info, from)
					}
				}
			}
		}
	}
	return found
}

// findsOne reports whether an expression is true where it finds an error: errors.Is(err, X), errors.As(err, &x), errors.AsType[X](err).
func findsOne(info *types.Info, e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && isFunc(callee(info, call), "errors", "Is", "As", "AsType")
}

// A way says on which ways behind a condition there is no lock, or none that anything is known of.
type way struct{ onTrue, onFalse bool }

// wayWithout returns it. fresh: the lock's error is still in its variable.
func wayWithout(info *types.Info, cond ast.Expr, t taken, fresh bool) way {
	switch e := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			w := wayWithout(info, e.X, t, fresh)
			return way{w.onFalse, w.onTrue}
		}
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			x, y := wayWithout(info, e.X, t, fresh), wayWithout(info, e.Y, t, fresh)
			if e.Op == token.LAND { // where it holds both do
				return way{x.onTrue || y.onTrue, x.onFalse && y.onFalse}
			}
			return way{x.onTrue && y.onTrue, x.onFalse || y.onFalse}
		}
		if w, known := comparison(info, e, t, fresh); known {
			return w
		}
	case *ast.Ident:
		if finds, ok := t.says[variable(info, e)]; ok && finds {
			return way{onTrue: true}
		}
	case *ast.CallExpr:
		if fresh && findsOne(info, e) && variable(info, e.Args[0]) == t.err {
			return way{onTrue: true}
		}
	}
	if fresh && mentions(info, cond, func(v *types.Var) bool { _, says := t.says[v]; return v == t.err || says }) {
		return way{true, true} // nobody knows
	}
	return way{}
}

// comparison is wayWithout of one with == or !=; known: it is of the lock or its error.
func comparison(info *types.Info, e *ast.BinaryExpr, t taken, fresh bool) (w way, known bool) {
	x, y := e.X, e.Y
	if info.Types[x].IsNil() {
		x, y = y, x
	}
	isErr, isLock := fresh && variable(info, x) == t.err, variable(info, x) == t.lock
	switch {
	case info.Types[y].IsNil() && e.Op == token.EQL && (isErr || isLock):
		return way{onTrue: isLock, onFalse: isErr}, true
	case info.Types[y].IsNil() && e.Op == token.NEQ && (isErr || isLock):
		return way{onTrue: isErr, onFalse: isLock}, true
	case isErr && e.Op == token.EQL: // err == redislock.ErrNotObtained
		return way{onTrue: true}, true
	}
	return way{}, false
}

// givesAway reports whether a node releases a lock, or hands it to somebody who may: it is returned, stored, passed on, or named in a function.
func givesAway(info *types.Info, n ast.Node, t taken) (found bool) {
	var stack []ast.Node
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		id, ok := n.(*ast.Ident)
		if !ok || info.Uses[id] != t.lock {
			return true
		}
		found = found || !isLook(info, stack)
		return true
	})
	return found
}

// isLook reports whether the last of these nodes, of which each stands in the one before, is a lock that is only looked at.
func isLook(info *types.Info, stack []ast.Node) bool {
	for _, n := range stack {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
	}
	if len(stack) < 2 {
		return false
	}
	switch parent := stack[len(stack)-2].(type) {
	case *ast.SelectorExpr:
		switch parent.Sel.Name {
		case "Release", "Unlock", "UnlockContext":
			return false
		}
		return true
	case *ast.BinaryExpr: // lease != nil
		return true
	case *ast.CallExpr:
		fn := callee(info, parent)
		return isOf(fn, "fence", "Guard") || fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "log/slog"
	}
	return false
}
