package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Ctx finds work under a lock that has another context than that of the lock.
var Ctx = &analysis.Analyzer{
	Name: "lockctx",
	Doc: `find work under a lock that is not told when the lock is lost

The context that WithLock passes to its function, and that Acquire returns, ends when the lock is lost. Work that
has the context from outside the lock, the request's, or context.Background goes on then, beside the next holder.

	err := locks.WithLock(ctx, key, policy, func(lockCtx context.Context) error {
		return repo.Save(ctx, order) // should be lockCtx
	})

What has to be finished anyway gets context.WithoutCancel(lockCtx). Deferred calls, releases and logs are left alone.`,
	URL: docs,
	Run: runCtx,
}

const docs = "https://pkg.go.dev/github.com/lockmw/kit/cmd/lockvet"

func runCtx(pass *analysis.Pass) (any, error) {
	files(pass, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if body := underLock(pass.TypesInfo, n); body != nil {
					checkFunc(pass, body)
				}
			case *ast.BlockStmt:
				checkAcquired(pass, n.List)
			case *ast.CaseClause:
				checkAcquired(pass, n.Body)
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

// checkFunc looks at a function that runs under a lock.
func checkFunc(pass *analysis.Pass, body *ast.FuncLit) {
	calls(pass.TypesInfo, body.Body, func(call *ast.CallExpr, arg ast.Expr) {
		if from := outside(pass.TypesInfo, arg, body.Pos(), body.End()); from != "" {
			pass.Reportf(arg.Pos(), "%s does not end when the lock is lost: use the context of the function that runs under the lock", from)
		}
	})
}

// checkAcquired looks at what stands behind an Acquire in its block.
func checkAcquired(pass *analysis.Pass, block []ast.Stmt) {
	for i, stmt := range block {
		assign, ok := stmt.(*ast.AssignStmt)
		if !ok || len(assign.Rhs) != 1 || len(assign.Lhs) != 3 {
			continue
		}
		call, ok := ast.Unparen(assign.Rhs[0]).(*ast.CallExpr)
		if !ok || !isOf(callee(pass.TypesInfo, call), "lockmw", "Acquire", "AcquireAll", "Resume") || len(call.Args) == 0 {
			continue
		}
		outer, own := variable(pass.TypesInfo, call.Args[0]), variable(pass.TypesInfo, assign.Lhs[0])
		lease := variable(pass.TypesInfo, assign.Lhs[1])
		if outer == nil || outer == own || lease == nil {
			continue
		}
		name := "the context that " + callee(pass.TypesInfo, call).Name() + " returns"
		if own != nil && own.Name() != "_" {
			name = own.Name()
		}
		for _, later := range block[i+1:] {
			if releases(pass.TypesInfo, later, lease) || assigns(pass.TypesInfo, later, outer) || returns(pass.TypesInfo, later, lease) {
				break
			}
			calls(pass.TypesInfo, later, func(_ *ast.CallExpr, arg ast.Expr) {
				if variable(pass.TypesInfo, arg) == outer {
					pass.Reportf(arg.Pos(), "%s does not end when the lock is lost: use %s", outer.Name(), name)
				}
			})
		}
	}
}

// calls tells of the calls within a node that are given a context, but for those of which it does not matter: that are made when the function is left, in
// another goroutine, or for the log.
func calls(info *types.Info, within ast.Node, do func(call *ast.CallExpr, arg ast.Expr)) {
	ast.Inspect(within, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.GoStmt:
			return false
		case *ast.CallExpr:
			if len(n.Args) > 0 && isContext(info.TypeOf(n.Args[0])) && !mayOutlive(info, n) {
				do(n, n.Args[0])
			}
		}
		return true
	})
}

// mayOutlive reports whether a call is one that should be made also when the lock is lost.
func mayOutlive(info *types.Info, call *ast.CallExpr) bool {
	fn := callee(info, call)
	if fn == nil {
		return false
	}
	switch fn.Name() {
	case "Release", "Close", "Shutdown", "Rollback", "Unlock", "UnlockContext", "Discard", "WithoutCancel", "AfterFunc", "Cause", "Err", "Value":
		return true
	}
	if strings.HasSuffix(fn.Name(), "FromContext") {
		return true
	}
	if fn.Pkg() != nil {
		switch path := fn.Pkg().Path(); {
		case path == "log/slog", path == "runtime/pprof", path == "runtime/trace", strings.HasPrefix(path, "go.opentelemetry.io/"),
			strings.HasPrefix(path, "go.uber.org/zap"), strings.HasPrefix(path, "github.com/sirupsen/logrus"), strings.HasPrefix(path, "github.com/rs/zerolog"):
			return true
		}
	}
	return false
}

// outside says what a context is that was not made between two positions: the lock's is not among these.
func outside(info *types.Info, e ast.Expr, from, to token.Pos) string {
	if v := variable(info, e); v != nil {
		if v.Pos() < from || v.Pos() >= to {
			return v.Name()
		}
		return ""
	}
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return ""
	}
	fn := callee(info, call)
	switch {
	case fn == nil || fn.Pkg() == nil:
		return ""
	case fn.Pkg().Path() == "context" && (fn.Name() == "Background" || fn.Name() == "TODO"):
		return "context." + fn.Name() + "()"
	}
	method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok || fn.Name() != "Context" {
		return ""
	}
	if v := variable(info, method.X); v != nil && isNamed(v.Type(), "net/http", "Request") && (v.Pos() < from || v.Pos() >= to) {
		return v.Name() + ".Context()"
	}
	return ""
}

// releases reports whether a statement gives a lease back before the next one is reached.
func releases(info *types.Info, stmt ast.Stmt, lease *types.Var) (found bool) {
	ast.Inspect(stmt, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.FuncLit:
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

// assigns reports whether a statement gives a variable another value.
func assigns(info *types.Info, stmt ast.Node, v *types.Var) (found bool) {
	ast.Inspect(stmt, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok {
			for _, lhs := range a.Lhs {
				found = found || variable(info, lhs) == v
			}
		}
		return !found
	})
	return found
}
