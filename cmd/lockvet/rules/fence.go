package rules

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

// Fence finds guards that guard nothing.
var Fence = &analysis.Analyzer{
	Name: "lockfence",
	Doc: `find calls of fence.Guard outside a transaction

The check and the work have to be in one transaction. A *sql.DB runs each statement by itself, so the check would be over before the work begins. Guard refuses
a *sql.DB, and a *sql.Conn, when the program runs.

	tx, err := db.BeginTx(ctx, nil)
	…
	err = fence.Postgres.Guard(ctx, tx, lease)`,
	URL: docs,
	Run: runFence,
}

func runFence(pass *analysis.Pass) (any, error) {
	files(pass, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isOf(callee(pass.TypesInfo, call), "fence", "Guard") || len(call.Args) < 2 {
				return true
			}
			for _, name := range []string{"DB", "Conn"} {
				if isNamed(pass.TypesInfo.TypeOf(call.Args[1]), "database/sql", name) {
					pass.Reportf(call.Args[1].Pos(), "a *sql.%s is no transaction: pass the *sql.Tx in which the work is done", name)
				}
			}
			return true
		})
	})
	return nil, nil
}
