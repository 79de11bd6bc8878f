package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Ctx finds work under a lock that has another context than that of the lock.
var Ctx = &analysis.Analyzer{
	Name: "lockctx",
	Doc: `find work under a lock that is not told when the lock is lost

The context that WithLock passes to its function ends when the lock is lost. So does the context that Acquire returns.
Work with a context from outside the lock, such as that of the request, goes on then, beside the next holder. So does
work with context.Background.

	err := locks.WithLock(ctx, key, policy, func(lockCtx context.Context) error {
		return repo.Save(ctx, order) // should be lockCtx
	})

Work that has to be finished anyway gets context.WithoutCancel(lockCtx). The rule leaves alone deferred calls, releases,
logs, and calls that only read a value of the context.`,
	URL: docs,
	Run: runCtx,
}

func runCtx(pass *analysis.Pass) (any, error) {
	files(pass, func(f *ast.File) {
		c := ctxCheck{pass: pass, told: make(map[token.Pos]bool)}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if body := underLock(pass.TypesInfo, n); body != nil {
					c.function(body)
				}
			case *ast.BlockStmt:
				c.block(n.List)
			case *ast.CaseClause:
				c.block(n.Body)
			case *ast.CommClause:
				c.block(n.Body)
			case *ast.IfStmt:
				if lock, ok := c.acquires(n.Init); ok {
					c.branches(n, lock, true)
				}
			}
			return true
		})
	})
	return nil, nil
}

// underLock returns the function that a call runs under a lock; nil: it is none, or one that is declared elsewhere.
func underLock(info *types.Info, call *ast.CallExpr) *ast.FuncLit {
	fn := callee(info, call)
	runs := isOf(fn, "lockmw", "WithLock", "WithLocks", "Wrap", "Once", "Do", "Run") || isOf(fn, "funclock", "Run")
	if !runs || len(call.Args) == 0 {
		return nil
	}
	body, _ := ast.Unparen(call.Args[len(call.Args)-1]).(*ast.FuncLit)
	return body
}

// A ctxCheck looks at one file.
type ctxCheck struct {
	pass *analysis.Pass
	told map[token.Pos]bool
}

func (c ctxCheck) report(at ast.Expr, from, instead string) {
	if !c.told[at.Pos()] {
		c.told[at.Pos()] = true
		c.pass.Reportf(at.Pos(), "%s does not end when the lock is lost: use %s", from, instead)
	}
}

// function looks at a function that runs under a lock.
func (c ctxCheck) function(body *ast.FuncLit) {
	info := c.pass.TypesInfo
	ended := endOfLeading(info, body.Body)
	calls(info, body.Body, func(arg ast.Expr) {
		root, from := contextOf(info, arg)
		inside := root != nil && body.Pos() <= root.Pos() && root.Pos() < body.End()
		if from == "" || inside || ended.IsValid() && arg.Pos() > ended {
			return
		}
		c.report(arg, from, "the context of the function that runs under the lock")
	})
}

// An acquired is a lock that a statement takes with Acquire, AcquireAll or Resume.
type acquired struct {
	taken

	outer   *types.Var // of which the context was made; nil: not of a variable
	instead string     // what is to be used under the lock
}

// acquires returns the lock that a statement takes. ok is false if it takes none, or gives its context the name of the outer one.
func (c ctxCheck) acquires(stmt ast.Stmt) (lock acquired, ok bool) {
	info := c.pass.TypesInfo
	assign, ok := stmt.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 || len(assign.Lhs) != 3 {
		return lock, false
	}
	call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
	if !ok || !isOf(callee(info, call), "lockmw", "Acquire", "AcquireAll", "Resume") || len(call.Args) == 0 {
		return lock, false
	}
	own := variable(info, assign.Lhs[0])
	lock.taken = taken{stmt: assign, call: call, lock: variable(info, assign.Lhs[1]), err: variable(info, assign.Lhs[2])}
	lock.outer, _ = contextOf(info, call.Args[0])
	lock.instead = "the context that " + callee(info, call).Name() + " returns"
	if own != nil && own.Name() != "_" {
		lock.instead = own.Name()
	}
	return lock, lock.lock != nil && (lock.outer == nil || lock.outer != own)
}

// block looks at what stands behind an Acquire in a block.
func (c ctxCheck) block(stmts []ast.Stmt) {
	for i, stmt := range stmts {
		if lock, ok := c.acquires(stmt); ok {
			c.behind(stmts[i+1:], lock, true)
		}
	}
}

// behind looks at statements that are run while a lock is held. fresh: the lock's error is still in its variable.
func (c ctxCheck) behind(stmts []ast.Stmt, lock acquired, fresh bool) {
	info := c.pass.TypesInfo
	for _, stmt := range stmts {
		if lock.err != nil && fresh && asksFor(info, stmt, lock.err) { // whether there is a lock
			if assigns(info, stmt, lock.lock) {
				return
			}
			if n, ok := stmt.(*ast.IfStmt); ok {
				c.branches(n, lock, fresh)
			}
			continue
		}
		if releases(info, stmt, lock.lock) || returns(info, stmt, lock.lock) {
			return
		}
		calls(info, stmt, func(arg ast.Expr) {
			root, from := contextOf(info, arg)
			before := root == nil || root.Pos() < lock.stmt.Pos()
			if from != "" && before && (root == lock.outer || root == nil || isRequest(root.Type())) {
				c.report(arg, from, lock.instead)
			}
		})
		if lock.outer != nil && assigns(info, stmt, lock.outer) {
			return
		}
		fresh = fresh && (lock.err == nil || !assigns(info, stmt, lock.err))
	}
}

// branches looks at those branches of an if in which the lock is held.
func (c ctxCheck) branches(n *ast.IfStmt, lock acquired, fresh bool) {
	without := way{}
	if lock.err != nil {
		without = wayWithout(c.pass.TypesInfo, n.Cond, lock.taken, fresh)
	}
	if !without.none.onTrue {
		c.behind(n.Body.List, lock, fresh)
	}
	if without.none.onFalse {
		return
	}
	switch other := n.Else.(type) {
	case *ast.BlockStmt:
		c.behind(other.List, lock, fresh)
	case *ast.IfStmt:
		c.branches(other, lock, fresh)
	}
}

// asksFor reports whether a statement goes by an error.
func asksFor(info *types.Info, stmt ast.Stmt, err *types.Var) bool {
	of := func(v *types.Var) bool { return v == err }
	switch s := stmt.(type) {
	case *ast.IfStmt:
		return mentions(info, s.Cond, of)
	case *ast.SwitchStmt:
		if s.Tag != nil && mentions(info, s.Tag, of) {
			return true
		}
		for _, clause := range s.Body.List {
			for _, e := range clause.(*ast.CaseClause).List {
				if mentions(info, e, of) {
					return true
				}
			}
		}
	case *ast.TypeSwitchStmt:
		return mentions(info, s.Assign, of)
	}
	return false
}

// calls tells of the contexts that calls within a node are given, but for those of which it does not matter: that are made when the function is
// left, in another goroutine, or later, for the log, or to read a value.
func calls(info *types.Info, within ast.Node, do func(arg ast.Expr)) {
	ast.Inspect(within, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.GoStmt, *ast.FuncLit:
			return false
		case *ast.CallExpr:
			fn := callee(info, n)
			if takesContext(info, n) && !mayOutlive(fn) && !readsAValue(info, n) {
				do(n.Args[0])
			}
			if called, ok := ast.Unparen(n.Fun).(*ast.FuncLit); ok { // func() { … }()
				calls(info, called.Body, do)
			}
			if fn != nil && fn.Name() == "Go" { // of an errgroup, or a WaitGroup: somebody waits for it
				for _, arg := range n.Args {
					if f, ok := ast.Unparen(arg).(*ast.FuncLit); ok {
						calls(info, f.Body, do)
					}
				}
			}
		}
		return true
	})
}

// takesContext reports whether the first argument of a call is a context: also one that is more, such as Gin's.
func takesContext(info *types.Info, call *ast.CallExpr) bool {
	sig, ok := info.TypeOf(call.Fun).(*types.Signature)
	return ok && len(call.Args) > 0 && sig.Params().Len() > 0 && isContext(sig.Params().At(0).Type())
}

// logs are the names that methods of loggers have.
var logs = regexp.MustCompile(`^(Debug|Info|Notice|Warn|Warning|Error|Fatal|Panic|Trace|Print|Log|LogAttrs)(f|w|ln)?(Context|Ctx)?$`)

// mayOutlive reports whether a function is one that should be called also when the lock is lost, or that does no work.
func mayOutlive(fn *types.Func) bool {
	if fn == nil {
		return false
	}
	pkg := ""
	if fn.Pkg() != nil {
		pkg = fn.Pkg().Path()
	}
	isLock := strings.HasPrefix(pkg, kit) || isLibrary(pkg)
	switch name := fn.Name(); {
	case isLock && (name == "Release" || name == "Unlock" || name == "UnlockContext" || name == "Discard" || name == "FromContext" || name == "NotAnAnswer" || name == "MarkUncertain"):
		return true
	case name == "Close", name == "Shutdown", name == "Rollback":
		return true
	case pkg == "context":
		return name == "WithoutCancel" || name == "AfterFunc" || name == "Cause"
	}
	return logs.MatchString(fn.Name())
}

// readsAValue reports whether what is called has a context alone, and returns what is neither an error nor a context: it reads what is in there.
func readsAValue(info *types.Info, call *ast.CallExpr) bool {
	sig, ok := info.TypeOf(call.Fun).(*types.Signature)
	if !ok || sig.Params().Len() != 1 || sig.Results().Len() == 0 {
		return false
	}
	for result := range sig.Results().Variables() {
		if isContext(result.Type()) || types.Identical(result.Type(), types.Universe.Lookup("error").Type()) {
			return false
		}
	}
	return true
}

// contextOf says what a context is, and returns the variable that it is, or that it is asked of: ctx, r.Context(), c.Request.Context(). The text is
// empty for one that is made in another way.
func contextOf(info *types.Info, e ast.Expr) (root *types.Var, text string) {
	if v := variable(info, e); v != nil {
		return v, v.Name()
	}
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return nil, ""
	}
	fn := callee(info, call)
	if fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "context" && (fn.Name() == "Background" || fn.Name() == "TODO") {
		return nil, "context." + fn.Name() + "()"
	}
	if method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok && method.Sel.Name == "Context" && len(call.Args) == 0 {
		if root := rootOf(info, method.X); root != nil && isRequest(root.Type()) {
			return root, types.ExprString(e)
		}
	}
	return nil, ""
}

// rootOf returns the variable at the beginning of c.Request, c.Request() and the like; nil: it is none.
func rootOf(info *types.Info, e ast.Expr) *types.Var {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return variable(info, e)
	case *ast.SelectorExpr:
		return rootOf(info, e.X)
	case *ast.CallExpr:
		return rootOf(info, e.Fun)
	}
	return nil
}

// isRequest reports whether a type is what a handler is given, whose Context was there before the lock.
func isRequest(t types.Type) bool {
	return isNamed(t, "net/http", "Request") || isNamed(t, ginPath, "Context") ||
		isNamed(t, "github.com/labstack/echo/v4", "Context") || isNamed(t, "github.com/labstack/echo/v5", "Context")
}

// endOfLeading returns where a function has waited for the end of its own context: what follows has to have another one.
func endOfLeading(info *types.Info, body *ast.BlockStmt) (at token.Pos) {
	for _, stmt := range body.List {
		e, ok := stmt.(*ast.ExprStmt)
		if !ok {
			continue
		}
		if receive, ok := e.X.(*ast.UnaryExpr); ok && receive.Op == token.ARROW && isDone(info, receive.X) {
			return e.End()
		}
	}
	return token.NoPos
}

// isDone reports whether an expression is ctx.Done().
func isDone(info *types.Info, e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	fn := callee(info, call)
	return fn != nil && fn.Name() == "Done"
}

// releases reports whether a statement itself, and not a branch of it, gives a lease back.
func releases(info *types.Info, stmt ast.Stmt, lease *types.Var) (found bool) {
	ast.Inspect(stmt, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.FuncLit, *ast.BlockStmt:
			return false
		case *ast.CallExpr:
			if method, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok && method.Sel.Name == "Release" && variable(info, method.X) == lease {
				found = true
			}
		}
		return !found
	})
	return found
}

// returns reports whether a statement passes a lease on to the caller: what is done under the lock is done there.
func returns(info *types.Info, stmt ast.Stmt, lease *types.Var) bool {
	_, ok := stmt.(*ast.ReturnStmt)
	return ok && mentions(info, stmt, func(v *types.Var) bool { return v == lease })
}
