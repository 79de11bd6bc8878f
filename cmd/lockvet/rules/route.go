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

Gin runs the handlers of a route in their order, so the lock must stand in front of the handler:

	r.POST("/orders/:id/pay", ginlock.Middleware(locks, key, policy), pay)

A lock behind the handler is taken when the work is done. In Gin and Echo, Use of a group is only for the routes that come after it.`,
	URL: docs,
	Run: runRoute,
}

// adds are the methods of Gin and Echo that add a route.
var adds = map[string]bool{
	"GET": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "OPTIONS": true, "HEAD": true, "CONNECT": true, "TRACE": true,
	"Any": true, "Handle": true, "Match": true, "Add": true,
}

func runRoute(pass *analysis.Pass) (any, error) {
	c := routeCheck{pass, made(pass)}
	files(pass, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				c.order(n)
			case *ast.BlockStmt:
				c.use(n.List)
			}
			return true
		})
	})
	return nil, nil
}

// A routeCheck looks at one package.
type routeCheck struct {
	pass *analysis.Pass
	made map[*types.Var]ast.Expr // what variables are given; nil: several values
}

// made returns what the variables of a package are given; nil for those that are given several values.
func made(pass *analysis.Pass) map[*types.Var]ast.Expr {
	found := make(map[*types.Var]ast.Expr)
	files(pass, func(f *ast.File) {
		definitions(pass.TypesInfo, f, func(v *types.Var, value ast.Expr) {
			if _, again := found[v]; again {
				value = nil
			}
			found[v] = value
		})
	})
	return found
}

// isLock reports whether an expression is a middleware that takes a lock, or a variable that has one.
func (c routeCheck) isLock(e ast.Expr, pkgs ...string) bool {
	if v := variable(c.pass.TypesInfo, e); v != nil && c.made[v] != nil {
		e = c.made[v]
	}
	return isMiddleware(c.pass.TypesInfo, e, pkgs...)
}

// order looks for a lock that stands behind the handler of its route.
func (c routeCheck) order(call *ast.CallExpr) {
	fn := callee(c.pass.TypesInfo, call)
	if !isFunc(fn, ginPath) || !adds[fn.Name()] || len(call.Args) < 2 || call.Ellipsis.IsValid() {
		return
	}
	last := call.Args[len(call.Args)-1]
	if c.isLock(last, "ginlock") {
		c.pass.Reportf(last.Pos(), "the lock stands behind the handler and is taken when the work is done: put it in front")
	}
}

// use looks for a Use that comes behind all routes of its group.
func (c routeCheck) use(block []ast.Stmt) {
	routes := make(map[*types.Var]bool)
	late := make(map[*types.Var][]ast.Expr) // locks that no route has followed
	for _, stmt := range block {
		group, fn, args := c.ofGroup(stmt)
		if group == nil { // it may add routes in a block, or in a function
			for other := range late {
				if mentions(c.pass.TypesInfo, stmt, func(v *types.Var) bool { return v == other }) {
					delete(late, other)
				}
			}
			continue
		}
		if adds[fn.Name()] {
			routes[group] = true
			delete(late, group)
		}
		if fn.Name() == "Use" && routes[group] {
			for _, arg := range args {
				if c.isLock(arg, "ginlock", "echolock", "echolock/v5") {
					late[group] = append(late[group], arg)
				}
			}
		}
	}
	for group, locks := range late {
		for _, lock := range locks {
			c.pass.Reportf(lock.Pos(), "%s.Use is for the routes that come after it, and none does: those above have no lock", group.Name())
		}
	}
}

// ofGroup returns the group of routes of which a statement calls a method; nil: it does not.
func (c routeCheck) ofGroup(stmt ast.Stmt) (group *types.Var, fn *types.Func, args []ast.Expr) {
	e, ok := stmt.(*ast.ExprStmt)
	if !ok {
		return nil, nil, nil
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return nil, nil, nil
	}
	method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return nil, nil, nil
	}
	group, fn = variable(c.pass.TypesInfo, method.X), callee(c.pass.TypesInfo, call)
	if group == nil || fn == nil || !isGroup(group.Type()) {
		return nil, nil, nil
	}
	return group, fn, call.Args
}

// isGroup reports whether Use of a type is for later routes alone. Echo's own is for all.
func isGroup(t types.Type) bool {
	return isNamed(t, ginPath, "Engine") || isNamed(t, ginPath, "RouterGroup") ||
		isNamed(t, "github.com/labstack/echo/v4", "Group") || isNamed(t, "github.com/labstack/echo/v5", "Group")
}
