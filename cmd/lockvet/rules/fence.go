package rules

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// Fence finds guards that guard nothing.
var Fence = &analysis.Analyzer{
	Name: "lockfence",
	Doc: `find calls of fence.Guard outside a transaction

The check and the work have to be in one transaction. A *sql.DB runs each statement by itself, so the check would be over before the work begins. Guard refuses
it when the program runs, as it refuses everything that has no method Commit: a *sql.Conn, a *sqlx.DB, a type of yours that has a *sql.DB within.

	tx, err := db.BeginTx(ctx, nil)
	…
	err = fence.Postgres.Guard(ctx, tx, lease)

The rule says nothing of an interface: what it will have inside is not known before the program runs.`,
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
			if tx := pass.TypesInfo.TypeOf(call.Args[1]); !mayCommit(tx) {
				pass.Reportf(call.Args[1].Pos(), "a %s is no transaction: pass the one in which the work is done, such as a *sql.Tx",
					types.TypeString(tx, (*types.Package).Name))
			}
			return true
		})
	})
	return nil, nil
}

// mayCommit reports whether something of a type may be a transaction for package fence: it has a method Commit, or its type is not known yet.
func mayCommit(t types.Type) bool {
	if _, isNil := t.(*types.Basic); isNil || t == nil || types.IsInterface(t) {
		return true
	}
	return types.NewMethodSet(t).Lookup(nil, "Commit") != nil
}
