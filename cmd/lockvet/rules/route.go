package rules

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// Route finds middlewares that stand where they lock nothing.
var Route = &analysis.Analyzer{
	Name: "lockroute",
	Doc: `find middlewares that stand where they lock nothing

Gin runs the handlers of a route in their order, so the lock stands in front of the handler:

	r.POST("/orders/:id/pay", ginlock.Middleware(locks, key, policy), pay)

Behind it, it runs when the work is done. And Use of a group, in Gin and Echo, is for the routes that come after it.`,
	URL: docs,
	Run: runRoute,
}

// adds are the methods that add a route, by the packages of routers.
var adds = map[string]bool{
	"GET": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "OPTIONS": true, "HEAD": true, "CONNECT": true, "TRACE": true,
	"Any": true, "Handle": true, "Match": true, "Add": true,
}

func runRoute(pass *analysis.Pass) (any, error) {
	files(pass, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				checkOrder(pass, n)
			case *ast.BlockStmt:
				checkUse(pass, n.List)
			}
			return true
		})
	})
	return nil, nil
}

// router returns the package and the type of what a route is added to.
func router(fn *types.Func) (pkg, name string) {
	sig, ok := fn.Type().(*types.Signature)
	if !ok || sig.Recv() == nil {
		return "", ""
	}
	t := sig.Recv().Type()
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return "", ""
	}
	return named.Obj().Pkg().Path(), named.Obj().Name()
}

const ginPath = "github.com/gin-gonic/gin"

func checkOrder(pass *analysis.Pass, call *ast.CallExpr) {
	fn := callee(pass.TypesInfo, call)
	if fn == nil || !adds[fn.Name()] || len(call.Args) < 2 || call.Ellipsis.IsValid() {
		return
	}
	if pkg, _ := router(fn); pkg != ginPath {
		return
	}
	last := call.Args[len(call.Args)-1]
	if isMiddleware(pass.TypesInfo, last, "ginlock") {
		pass.Reportf(last.Pos(), "the lock stands behind the handler and is taken when the work is done: put it in front")
	}
}

// checkUse looks for a Use that comes behind routes of the same group.
func checkUse(pass *analysis.Pass, block []ast.Stmt) {
	routes := make(map[*types.Var]bool)
	for _, stmt := range block {
		e, ok := stmt.(*ast.ExprStmt)
		if !ok {
			continue
		}
		call, ok := e.X.(*ast.CallExpr)
		if !ok {
			continue
		}
		method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if !ok {
			continue
		}
		group, fn := variable(pass.TypesInfo, method.X), callee(pass.TypesInfo, call)
		if group == nil || fn == nil || !isGroup(group.Type()) {
			continue
		}
		if adds[fn.Name()] {
			routes[group] = true
		}
		if fn.Name() != "Use" || !routes[group] {
			continue
		}
		for _, arg := range call.Args {
			if isMiddleware(pass.TypesInfo, arg, "ginlock", "echolock", "echolock/v5") {
				pass.Reportf(arg.Pos(), "%s.Use is for the routes that come after it: those above have no lock", group.Name())
			}
		}
	}
}

// isGroup reports whether Use of a type is for later routes alone. Echo's own is for all.
func isGroup(t types.Type) bool {
	return isNamed(t, ginPath, "Engine") || isNamed(t, ginPath, "RouterGroup") ||
		isNamed(t, "github.com/labstack/echo/v4", "Group") || isNamed(t, "github.com/labstack/echo/v5", "Group")
}
