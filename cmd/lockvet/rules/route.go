package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// Route finds middlewares that stand where they lock nothing.
var Route = &analysis.Analyzer{
	Name: "lockroute",
	Doc: `find middlewares that stand where they lock nothing

Gin runs the handlers of a route in their order, so the lock must stand in front of the handler:

	r.POST("/orders/:id/pay", ginlock.Middleware(locks, key, policy), pay)

A lock behind the handler is taken when the work is done. In Gin and Echo, Use of a group is only for the routes that come after it:

	r.POST("/orders/:id/pay", pay) // has no lock
	r.Use(ginlock.Middleware(locks, key, policy))
	log.Fatal(r.Run())

The rule says nothing of a group that other code has as well and may add routes to: a parameter, or what is stored in a field, passed to another package,
or returned by an exported function as something other than an http.Handler.`,
	URL: docs,
	Run: runRoute,
}

// adds are the methods of Gin and Echo that add a route.
var adds = map[string]bool{
	"GET": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "OPTIONS": true, "HEAD": true, "CONNECT": true, "TRACE": true, "QUERY": true,
	"Any": true, "Handle": true, "Match": true, "Add": true, "AddRoute": true, "RouteNotFound": true,
	"Static": true, "StaticFS": true, "StaticFile": true, "StaticFileFS": true, "File": true, "FileFS": true,
}

func runRoute(pass *analysis.Pass) (any, error) {
	c := routeCheck{pass: pass, made: made(pass), groups: groupsOf(pass), told: make(map[token.Pos]bool)}
	files(pass, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				c.order(n)
			case *ast.FuncDecl:
				if n.Body != nil && c.groups.isMain(n) {
					c.use(n.Body.List, c.groups.onlyInMain)
				}
			case *ast.BlockStmt:
				c.block(n.List)
			case *ast.CaseClause:
				c.block(n.Body)
			case *ast.CommClause:
				c.block(n.Body)
			}
			return true
		})
	})
	return nil, nil
}

// A routeCheck looks at one package.
type routeCheck struct {
	pass   *analysis.Pass
	made   map[*types.Var]ast.Expr // what variables are given; nil: several values
	groups *groups
	told   map[token.Pos]bool
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

// block looks at the groups that statements of one block declare. What a block does to a group from outside is not its last word.
func (c routeCheck) block(list []ast.Stmt) {
	if len(list) == 0 {
		return
	}
	begin, end := list[0].Pos(), list[len(list)-1].End()
	c.use(list, func(v *types.Var) bool { return begin <= v.Pos() && v.Pos() < end })
}

// use looks for a Use that comes behind all routes of its group, of those groups that belong to these statements.
func (c routeCheck) use(list []ast.Stmt, belongs func(v *types.Var) bool) {
	stmts := flat(list)
	for _, v := range c.groups.vars {
		if !belongs(v) {
			continue
		}
		for _, lock := range c.late(stmts, c.groups.sites[v]) {
			if !c.told[lock.Pos()] {
				c.told[lock.Pos()] = true
				c.pass.Reportf(lock.Pos(), "%s.Use is for the routes that come after it, and none does: those above have no lock", v.Name())
			}
		}
	}
}

// flat returns statements with those of blocks that only set them off: Gin's examples put the routes of a group into braces.
func flat(list []ast.Stmt) (found []ast.Stmt) {
	for _, stmt := range list {
		if block, ok := stmt.(*ast.BlockStmt); ok {
			found = append(found, flat(block.List)...)
		} else {
			found = append(found, stmt)
		}
	}
	return found
}

// late returns the locks of a group that no route follows, while some are above. The sites are all places that name the group.
func (c routeCheck) late(stmts []ast.Stmt, sites []site) (found []ast.Expr) {
	routes := false
	for _, s := range sites {
		i := slices.IndexFunc(stmts, func(stmt ast.Stmt) bool { return stmt.Pos() <= s.id.Pos() && s.id.Pos() < stmt.End() })
		if i < 0 {
			return nil
		}
		switch c.groups.uses(s, stmts[i]) {
		case harmless:
		case addsRoute:
			routes, found = true, nil
		case makesGroup:
			found = nil
		case usesLocks:
			for _, arg := range stmts[i].(*ast.ExprStmt).X.(*ast.CallExpr).Args {
				if routes && c.isLock(arg, "ginlock", "echolock", "echolock/v5") {
					found = append(found, arg)
				}
			}
		case isGiven:
			return nil
		}
	}
	return found
}
