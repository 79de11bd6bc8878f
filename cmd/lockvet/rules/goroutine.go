package rules

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// Goroutine finds goroutines under a lock that go on without it.
var Goroutine = &analysis.Analyzer{
	Name: "lockgo",
	Doc: `find goroutines under a lock for which nobody waits

The lock is released when the function that runs under it returns. A goroutine that the function has started then goes on, beside the next holder.

	err := locks.WithLock(ctx, key, policy, func(ctx context.Context) error {
		go export(ctx) // the lock is free before it is done
		return nil
	})

Wait for the goroutine, or hand the lock on to it with a ticket (Lease.Ticket). The rule leaves alone a function that waits for anything (Wait, a receive, a
select), and a goroutine that ends with its context.`,
	URL: docs,
	Run: runGoroutine,
}

func runGoroutine(pass *analysis.Pass) (any, error) {
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
			if started := started(pass.TypesInfo, body.Body); started != nil && !awaits(pass.TypesInfo, body.Body) {
				pass.Reportf(started.Pos(), "the goroutine goes on when the lock is released: wait for it before the function returns")
			}
			return true
		})
	})
	return nil, nil
}

// started returns the first goroutine that a function starts itself.
func started(info *types.Info, body *ast.BlockStmt) (found *ast.GoStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.GoStmt:
			if found == nil && !endsWithContext(info, n) {
				found = n
			}
			return false
		}
		return true
	})
	return found
}

// awaits reports whether a function waits for anything.
func awaits(info *types.Info, body *ast.BlockStmt) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt: // but for what it is given
			for _, arg := range n.Call.Args {
				if call, ok := ast.Unparen(arg).(*ast.CallExpr); ok && isOf(callee(info, call), "lockmw", "Ticket") {
					found = true
				}
			}
			return false
		case *ast.SelectStmt:
			found = true
		case *ast.UnaryExpr:
			found = found || n.Op == token.ARROW
		case *ast.RangeStmt:
			_, isChan := info.TypeOf(n.X).Underlying().(*types.Chan)
			found = found || isChan
		case *ast.CallExpr:
			if fn := callee(info, n); fn != nil {
				found = found || fn.Name() == "Wait" || isOf(fn, "lockmw", "Ticket")
			}
		}
		return !found
	})
	return found
}

// endsWithContext reports whether a goroutine waits for the end of a context.
func endsWithContext(info *types.Info, started *ast.GoStmt) (found bool) {
	ast.Inspect(started, func(n ast.Node) bool {
		if receive, ok := n.(*ast.UnaryExpr); ok && receive.Op == token.ARROW {
			found = found || isDone(info, receive.X)
		}
		return !found
	})
	return found
}
