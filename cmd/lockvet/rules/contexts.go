package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"
)

// Which context an expression is, which calls are given one, and where a variable is given another.

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

// changes are where variables are given another context for the first time. What they have then may well be the lock's.
type changes map[*types.Var]token.Pos

// before reports whether a variable was given another context in front of a place.
func (c changes) before(v *types.Var, at ast.Node) bool {
	changed, ok := c[v]
	return ok && changed <= at.Pos()
}

// changesOf returns the changes that statements make. What is deferred only puts the old context back.
func changesOf(info *types.Info, stmts []ast.Stmt) changes {
	found := make(changes)
	change := func(v *types.Var, stmt ast.Node) {
		if first, ok := found[v]; v != nil && (!ok || stmt.End() < first) {
			found[v] = stmt.End()
		}
	}
	for _, stmt := range stmts {
		ast.Inspect(stmt, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.DeferStmt:
				return false
			case *ast.AssignStmt:
				for _, lhs := range n.Lhs {
					change(contextOwner(info, lhs), n)
				}
			case *ast.CallExpr:
				if method, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok && method.Sel.Name == "SetRequest" { // of Echo
					change(rootOf(info, method.X), n)
				}
			}
			return true
		})
	}
	return found
}

// contextOwner returns the variable that has another context when something is assigned: r, *r, or c in c.Request; nil: none.
func contextOwner(info *types.Info, assigned ast.Expr) *types.Var {
	switch e := ast.Unparen(assigned).(type) {
	case *ast.StarExpr:
		return variable(info, e.X)
	case *ast.SelectorExpr:
		if e.Sel.Name == "Request" {
			return rootOf(info, e.X)
		}
		return nil
	default:
		return variable(info, e)
	}
}
