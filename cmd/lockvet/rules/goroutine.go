package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Goroutine finds goroutines under a lock that go on without it.
var Goroutine = &analysis.Analyzer{
	Name: "lockgo",
	Doc: `find goroutines under a lock for which nobody waits

The lock is released when the function that runs under it returns. A goroutine that the function has started then goes on, beside the next holder. That
is the same with go, and with the Go of a WaitGroup or an errgroup without its Wait.

	err := locks.WithLock(ctx, key, policy, func(ctx context.Context) error {
		go export(ctx) // the lock is free before it is done
		return nil
	})

Wait for the goroutine, or hand the lock on to it with a ticket (Lease.Ticket). The rule leaves alone a function that waits behind the goroutine's start (Wait, a
receive, a select), and a goroutine that ends with its context. It looks for that end also in the functions of the package that the goroutine calls. A receive
from a timer is not taken for waiting, and neither is a select that only pauses until its timer or the context ends.`,
	URL: docs,
	Run: runGoroutine,
}

func runGoroutine(pass *analysis.Pass) (any, error) {
	c := goCheck{pass.TypesInfo, make(map[*types.Func]*ast.BlockStmt)}
	for _, f := range pass.Files {
		for _, d := range f.Decls {
			if decl, ok := d.(*ast.FuncDecl); ok && decl.Body != nil {
				if fn, ok := pass.TypesInfo.Defs[decl.Name].(*types.Func); ok {
					c.bodies[fn] = decl.Body
				}
			}
		}
	}
	files(pass, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			body := underLock(pass.TypesInfo, call)
			if body == nil {
				return true
			}
			if started := c.started(body.Body); started != nil && !c.awaits(body.Body, started) {
				pass.Reportf(started.Pos(), "the goroutine goes on when the lock is released: wait for it before the function returns")
			}
			return true
		})
	})
	return nil, nil
}

// A goCheck looks at one package.
type goCheck struct {
	info   *types.Info
	bodies map[*types.Func]*ast.BlockStmt // of its functions
}

// started returns the first goroutine that a function starts itself, and that does not end with its context.
func (c goCheck) started(body *ast.BlockStmt) (found ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		starts := false
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.GoStmt:
			starts = true
		case *ast.CallExpr:
			starts = c.isGo(n)
		}
		if starts && found == nil && !c.endsWithContext(n, make(map[*types.Func]bool)) {
			found = n
		}
		return found == nil && !starts
	})
	return found
}

// isGo reports whether a call starts a goroutine of a group for which Wait waits: that of package sync, an errgroup, or the like.
func (c goCheck) isGo(call *ast.CallExpr) bool {
	fn := callee(c.info, call)
	if fn == nil || fn.Name() != "Go" && fn.Name() != "TryGo" || fn.Signature().Recv() == nil {
		return false
	}
	wait, _, _ := types.LookupFieldOrMethod(fn.Signature().Recv().Type(), true, fn.Pkg(), "Wait")
	_, ok := wait.(*types.Func)
	return ok
}

// endsWithContext reports whether a goroutine looks for the end of a context, itself or in one of the package's functions that it names.
func (c goCheck) endsWithContext(started ast.Node, asked map[*types.Func]bool) (found bool) {
	ast.Inspect(started, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW && isDone(c.info, n.X)
		case *ast.ForStmt: // for ctx.Err() == nil
			found = found || n.Cond != nil && c.asksForEnd(n.Cond)
		case *ast.Ident:
			fn, ok := c.info.Uses[n].(*types.Func)
			if !ok || asked[fn.Origin()] || c.bodies[fn.Origin()] == nil {
				return true
			}
			asked[fn.Origin()] = true
			found = found || c.endsWithContext(c.bodies[fn.Origin()], asked)
		}
		return !found
	})
	return found
}

// asksForEnd reports whether a condition has ctx.Err().
func (c goCheck) asksForEnd(cond ast.Expr) (found bool) {
	ast.Inspect(cond, func(n ast.Node) bool {
		if method, ok := n.(*ast.SelectorExpr); ok && method.Sel.Name == "Err" {
			found = found || isContext(c.info.TypeOf(method.X))
		}
		return !found
	})
	return found
}

// awaits reports whether a function waits for anything that may be the end of a goroutine that it has started, or hands the lock on to it.
func (c goCheck) awaits(body *ast.BlockStmt, started ast.Node) (found bool) {
	ast.PreorderStack(body, nil, func(n ast.Node, stack []ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt: // waits for itself, but for what it is given
			found = found || slices.ContainsFunc(n.Call.Args, c.isTicket)
			return false
		case *ast.FuncLit:
			return !found && c.runs(n, body, stack)
		case *ast.CallExpr:
			fn := callee(c.info, n)
			found = found || fn != nil && fn.Name() == "Wait" || c.isTicket(n)
		case *ast.SelectStmt:
			found = found || isBehind(n, started, stack) && c.waits(n, stack)
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW && isBehind(n, started, stack) && !isChoice(stack) && !c.isTimer(n.X)
		case *ast.RangeStmt:
			_, isChan := c.info.TypeOf(n.X).Underlying().(*types.Chan)
			found = found || isChan && isBehind(n, started, stack) && !c.isTimer(n.X)
		}
		return !found
	})
	return found
}

func (c goCheck) isTicket(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && isOf(callee(c.info, call), "lockmw", "Ticket")
}

// isBehind reports whether a node may be run when a goroutine is started already: it stands behind the start, in a loop, or in a function.
func isBehind(n, started ast.Node, stack []ast.Node) bool {
	return n.Pos() > started.Pos() || inLoop(stack) || slices.ContainsFunc(stack, func(n ast.Node) bool {
		_, isFunction := n.(*ast.FuncLit)
		return isFunction
	})
}

func inLoop(stack []ast.Node) bool {
	return slices.ContainsFunc(stack, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		}
		return false
	})
}

// isChoice reports whether what stands in these nodes is that for which a case of a select waits.
func isChoice(stack []ast.Node) bool {
	if len(stack) < 2 {
		return false
	}
	clause, ok := stack[len(stack)-2].(*ast.CommClause)
	return ok && clause.Comm == stack[len(stack)-1]
}

// waits reports whether a select may wait for the end of a goroutine. One that is a pause, until a timer or the context ends, does not; in a loop, it is
// what the function does until its context ends.
func (c goCheck) waits(choice *ast.SelectStmt, stack []ast.Node) bool {
	ends, others := false, false
	for _, clause := range choice.Body.List {
		from := received(clause.(*ast.CommClause).Comm)
		switch {
		case from == nil || c.isTimer(from): // also a send, and default
			others = true
		case isDone(c.info, from):
			ends = true
		default:
			return true
		}
	}
	return !others || ends && inLoop(stack)
}

// received returns the channel from which a case of a select receives; nil: it does not.
func received(comm ast.Stmt) ast.Expr {
	var e ast.Expr
	switch comm := comm.(type) {
	case *ast.ExprStmt:
		e = comm.X
	case *ast.AssignStmt:
		e = comm.Rhs[0]
	}
	if receive, ok := ast.Unparen(e).(*ast.UnaryExpr); ok && receive.Op == token.ARROW {
		return receive.X
	}
	return nil
}

// isTimer reports whether a channel is that of a timer.
func (c goCheck) isTimer(channel ast.Expr) bool {
	t, ok := c.info.TypeOf(channel).Underlying().(*types.Chan)
	return ok && isNamed(t.Elem(), "time", "Time")
}

// runs reports whether a function may run a function within it before it returns.
func (c goCheck) runs(lit *ast.FuncLit, body *ast.BlockStmt, stack []ast.Node) bool {
	switch parent := stack[len(stack)-1].(type) {
	case *ast.CallExpr: // of it, or of one that is given it
		fn := callee(c.info, parent)
		return !c.isGo(parent) && (fn == nil || fn.Name() != "AfterFunc")
	case *ast.AssignStmt, *ast.ValueSpec:
		to, values := assigned(parent)
		i := slices.Index(values, ast.Expr(lit))
		if i < 0 || len(to) != len(values) {
			return true
		}
		v := variable(c.info, to[i])
		return v != nil && c.names(body, v)
	}
	return false
}

// names reports whether a function names a variable, and not only to start a goroutine.
func (c goCheck) names(body *ast.BlockStmt, v *types.Var) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			return false
		case *ast.CallExpr:
			if c.isGo(n) {
				return false
			}
		case *ast.Ident:
			found = found || c.info.Uses[n] == v
		}
		return !found
	})
	return found
}
