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

A lease that is not released is renewed for as long as its process lives, and everybody else waits.

	ctx, lease, err := locks.Acquire(ctx, key, policy)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)

The rule knows the locks of redislock (Obtain) and redsync (Lock, LockContext, TryLock) as well.`,
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

	says map[*types.Var]bool // what is known from err, such as ok in: _, ok := errors.AsType[*T](err)
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
			case t.lock == nil || t.lock.Pos() < body.Pos() || t.lock.Pos() >= body.End(): // others may release it
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
	case isNamedFunc(fn, "github.com/bsm/redislock", "Obtain") && len(assign.Lhs) == 2:
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

func isNamedFunc(fn *types.Func, pkg string, names ...string) bool {
	if fn == nil || fn.Pkg() == nil || fn.Pkg().Path() != pkg {
		return false
	}
	for _, name := range names {
		if fn.Name() == name {
			return true
		}
	}
	return false
}

func isRedsync(fn *types.Func) bool {
	return isNamedFunc(fn, "github.com/go-redsync/redsync/v4", "Lock", "LockContext", "TryLock", "TryLockContext")
}

func releaseOf(info *types.Info, call *ast.CallExpr) string {
	if isRedsync(callee(info, call)) {
		return "Unlock"
	}
	return "Release"
}

// A step is a block of a function, and whether the error of the lock is still in its variable.
type step struct {
	block *cfg.Block
	fresh bool
}

// unreleased returns where a function is left with its lock; nil: nowhere.
func unreleased(info *types.Info, graph *cfg.CFG, t taken) ast.Node {
	t.says = madeOf(info, graph, t)
	seen := make(map[step]bool)
	var search func(s step, nodes []ast.Node) ast.Node
	search = func(s step, nodes []ast.Node) ast.Node {
		for _, n := range nodes {
			if givesAway(info, n, t) {
				return nil
			}
			if n != t.stmt && t.err != nil && assigns(info, n, t.err) {
				s.fresh = false
			}
		}
		if exit := s.block.Return(); exit != nil {
			return exit
		}
		without := -1 // the way on which the lock was not taken
		if s.fresh && len(s.block.Succs) == 2 && len(s.block.Nodes) > 0 {
			without = wayWithout(info, s.block.Nodes[len(s.block.Nodes)-1], t)
		}
		for i, next := range s.block.Succs {
			if to := (step{next, s.fresh}); i != without && !seen[to] {
				seen[to] = true
				if way := search(to, next.Nodes); way != nil {
					return way
				}
			}
		}
		return nil
	}
	for _, b := range graph.Blocks {
		for i, n := range b.Nodes {
			if n == t.stmt {
				return search(step{b, t.err != nil}, b.Nodes[i+1:])
			}
		}
	}
	return nil
}

// madeOf returns what a function makes of the error of a lock.
func madeOf(info *types.Info, graph *cfg.CFG, t taken) map[*types.Var]bool {
	found := make(map[*types.Var]bool)
	for _, b := range graph.Blocks {
		for _, n := range b.Nodes {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || n == t.stmt || !mentions(info, assign.Rhs[0], func(v *types.Var) bool { return v == t.err }) {
				continue
			}
			for _, lhs := range assign.Lhs {
				if v := variable(info, lhs); v != nil && v != t.err {
					found[v] = true
				}
			}
		}
	}
	return found
}

func mentions(info *types.Info, within ast.Node, one func(v *types.Var) bool) (found bool) {
	ast.Inspect(within, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			v, isVar := info.Uses[id].(*types.Var)
			found = found || isVar && one(v)
		}
		return !found
	})
	return found
}

// wayWithout returns which way a condition leads where the lock was not taken: 0 where it holds, 1 otherwise, -1 if it does not say. What looks at the
// error in another way than the usual ones is taken to find one.
func wayWithout(info *types.Info, n ast.Node, t taken) int {
	cond, ok := n.(ast.Expr)
	if !ok {
		return -1
	}
	switch e := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			if way := wayWithout(info, e.X, t); way >= 0 {
				return 1 - way
			}
		}
	case *ast.BinaryExpr:
		x, y := e.X, e.Y
		if info.Types[x].IsNil() {
			x, y = y, x
		}
		if e.Op == token.EQL && info.Types[y].IsNil() && variable(info, x) == t.err {
			return 1
		}
	}
	if mentions(info, cond, func(v *types.Var) bool { return v == t.err || t.says[v] }) {
		return 0
	}
	return -1
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
		return isOf(callee(info, parent), "fence", "Guard")
	}
	return false
}
