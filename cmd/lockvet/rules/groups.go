package rules

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// A groupUse is what code does with a group of routes of Gin or Echo.
type groupUse int

const (
	harmless   groupUse = iota // it serves the routes, or reads or sets something
	addsRoute                  // a route, which has the locks so far
	makesGroup                 // a group within the group, which has the locks so far
	usesLocks                  // a Use that is a statement by itself
	isGiven                    // other code has the group as well, and may add routes
)

// groups are all places of a package that name a group of routes, or a function that returns one.
type groups struct {
	pass     *analysis.Pass
	vars     []*types.Var // that are groups
	sites    map[types.Object][]site
	declared map[types.Object]bool // functions whose body is in the package
	asked    map[types.Object]bool // of which it is being asked whether they only serve; they may name each other
}

// A site is one of these places.
type site struct {
	id    *ast.Ident
	stack []ast.Node // in which it stands, from the file on
}

// groupsOf looks at all files of a package, also at tests and generated ones, which may add routes as well.
func groupsOf(pass *analysis.Pass) *groups {
	g := &groups{pass: pass, sites: make(map[types.Object][]site), declared: make(map[types.Object]bool), asked: make(map[types.Object]bool)}
	for _, f := range pass.Files {
		ast.PreorderStack(f, nil, func(n ast.Node, stack []ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				g.declared[pass.TypesInfo.Defs[n.Name]] = n.Body != nil
			case *ast.Ident:
				if obj := pass.TypesInfo.Uses[n]; hasGroup(obj) {
					g.add(obj, site{n, slices.Clone(stack)})
				}
			}
			return true
		})
	}
	return g
}

func (g *groups) add(obj types.Object, s site) {
	if v, ok := obj.(*types.Var); ok && g.sites[obj] == nil {
		g.vars = append(g.vars, v)
	}
	g.sites[obj] = append(g.sites[obj], s)
}

// hasGroup reports whether something is a variable that is a group of routes, or a function that returns one.
func hasGroup(obj types.Object) bool {
	switch obj := obj.(type) {
	case *types.Var:
		return isGroup(obj.Type()) && !obj.IsField()
	case *types.Func:
		return slices.ContainsFunc(slices.Collect(obj.Signature().Results().Variables()), func(v *types.Var) bool { return isGroup(v.Type()) })
	}
	return false
}

// isGroup reports whether Use of a type is for later routes alone. Echo's own is for all.
func isGroup(t types.Type) bool {
	return isNamed(t, ginPath, "Engine") || isNamed(t, ginPath, "RouterGroup") ||
		isNamed(t, "github.com/labstack/echo/v4", "Group") || isNamed(t, "github.com/labstack/echo/v5", "Group")
}

func (g *groups) isMain(fn *ast.FuncDecl) bool {
	return g.pass.Pkg.Name() == "main" && fn.Name.Name == "main" && fn.Recv == nil
}

// onlyInMain reports whether a variable of the package is used by its function main alone.
func (g *groups) onlyInMain(v *types.Var) bool {
	return v.Parent() == g.pass.Pkg.Scope() && !slices.ContainsFunc(g.sites[v], func(s site) bool {
		return !slices.ContainsFunc(s.stack, func(n ast.Node) bool {
			fn, ok := n.(*ast.FuncDecl)
			return ok && g.isMain(fn)
		})
	})
}

// uses returns what a statement does with the group that a place within it names.
func (g *groups) uses(s site, stmt ast.Stmt) groupUse {
	inFunction := slices.ContainsFunc(s.stack, func(n ast.Node) bool {
		_, ok := n.(*ast.FuncLit)
		return ok && n.Pos() >= stmt.Pos()
	})
	switch use := g.use(s.id, s.stack); {
	case use == usesLocks && s.stack[len(s.stack)-3] != stmt: // in a branch, or in a function
		return harmless
	case inFunction && (use == addsRoute || use == makesGroup): // nobody knows when
		return isGiven
	default:
		return use
	}
}

// use returns what is done with a group that an expression is.
func (g *groups) use(e ast.Expr, stack []ast.Node) groupUse {
	if method, ok := stack[len(stack)-1].(*ast.SelectorExpr); ok && method.X == e {
		return g.selected(method, stack[:len(stack)-1])
	}
	t, to := g.target(e, stack)
	if isNamed(t, "net/http", "Handler") || to != nil && isGroup(t) && g.onlyServed(to) {
		return harmless
	}
	return isGiven
}

// selected is use of a group of which a method or a field is named.
func (g *groups) selected(method *ast.SelectorExpr, stack []ast.Node) groupUse {
	name, around := method.Sel.Name, stack[:len(stack)-1]
	call, ok := stack[len(stack)-1].(*ast.CallExpr)
	isCalled := ok && call.Fun == method
	switch {
	case name == "Group" && isCalled:
		return makesGroup
	case slices.Contains([]string{"Group", "NoRoute", "NoMethod", "RouterGroup", "With"}, name): // NoRoute's handlers have the locks of a later Use as well
		return isGiven
	case !adds[name] && name != "Use":
		return harmless
	case !isCalled: // somebody else may call it
		return isGiven
	}
	use := g.result(call, around)
	if adds[name] && (use == harmless || use == usesLocks) {
		return addsRoute
	}
	return use
}

// result returns what is done with what a method returns that adds a route or a middleware. In Gin that is the group once more.
func (g *groups) result(call *ast.CallExpr, stack []ast.Node) groupUse {
	name := call.Fun.(*ast.SelectorExpr).Sel.Name
	switch parent := stack[len(stack)-1].(type) {
	case *ast.ExprStmt:
		if name == "Use" {
			return usesLocks
		}
	case *ast.SelectorExpr:
		return g.selected(parent, stack[:len(stack)-1])
	default:
		if isNamed(g.pass.TypesInfo.TypeOf(call), ginPath, "IRoutes") {
			return isGiven
		}
	}
	return harmless
}

// target returns what a group is given to, by its type: a variable, a parameter, a result. It also returns the variable or the function, if the
// package has it.
func (g *groups) target(e ast.Expr, stack []ast.Node) (t types.Type, to types.Object) {
	info := g.pass.TypesInfo
	switch parent := stack[len(stack)-1].(type) {
	case *ast.KeyValueExpr:
		return info.TypeOf(parent.Key), nil
	case *ast.AssignStmt:
		return g.assigned(e, parent.Lhs, parent.Rhs)
	case *ast.ValueSpec:
		names, values := assigned(parent)
		return g.assigned(e, names, values)
	case *ast.ReturnStmt:
		return g.returned(e, parent, stack)
	case *ast.CallExpr:
		return g.argument(e, parent)
	}
	return nil, nil
}

// assigned is target of one that is assigned.
func (g *groups) assigned(e ast.Expr, to, values []ast.Expr) (types.Type, types.Object) {
	i := slices.Index(values, e)
	if i < 0 {
		return nil, nil
	}
	if len(to) > len(values) { // the results of a call
		i = slices.IndexFunc(to, func(e ast.Expr) bool { return isGroup(g.pass.TypesInfo.TypeOf(e)) })
	}
	if i < 0 || isBlank(to[i]) {
		return nil, nil
	}
	if v := variable(g.pass.TypesInfo, to[i]); v != nil {
		return v.Type(), v
	}
	return g.pass.TypesInfo.TypeOf(to[i]), nil
}

// returned is target of one that a function returns.
func (g *groups) returned(e ast.Expr, ret *ast.ReturnStmt, stack []ast.Node) (types.Type, types.Object) {
	sig, fn := g.around(stack)
	if sig == nil {
		return nil, nil
	}
	results := slices.Collect(sig.Results().Variables())
	i := slices.Index(ret.Results, e)
	if len(results) > len(ret.Results) { // those of a call
		i = slices.IndexFunc(results, func(v *types.Var) bool { return isGroup(v.Type()) })
	}
	if i < 0 {
		return nil, nil
	}
	if fn == nil {
		return results[i].Type(), nil
	}
	return results[i].Type(), fn
}

// around returns the signature of the function in which a place is, and the function, if it has a name.
func (g *groups) around(stack []ast.Node) (*types.Signature, *types.Func) {
	for _, n := range slices.Backward(stack) {
		switch n := n.(type) {
		case *ast.FuncLit:
			sig, _ := g.pass.TypesInfo.TypeOf(n).(*types.Signature)
			return sig, nil
		case *ast.FuncDecl:
			if fn, ok := g.pass.TypesInfo.Defs[n.Name].(*types.Func); ok {
				return fn.Signature(), fn
			}
		}
	}
	return nil, nil
}

// argument is target of one that is passed to a function, or converted.
func (g *groups) argument(e ast.Expr, call *ast.CallExpr) (types.Type, types.Object) {
	to := g.pass.TypesInfo.TypeOf(call.Fun)
	sig, ok := to.(*types.Signature)
	if !ok {
		return to, nil
	}
	i := slices.Index(call.Args, e)
	if i < 0 || i >= sig.Params().Len() || sig.Variadic() && i == sig.Params().Len()-1 {
		return nil, nil
	}
	if fn := callee(g.pass.TypesInfo, call); fn != nil && g.declared[fn] {
		return sig.Params().At(i).Type(), fn.Signature().Params().At(i)
	}
	return sig.Params().At(i).Type(), nil
}

// onlyServed reports whether the routes of a variable, or those that a function returns, are only served: nobody adds some.
func (g *groups) onlyServed(obj types.Object) bool {
	if g.asked[obj] { // it is being asked, and what else is done with it decides
		return true
	}
	if !g.isKnown(obj) {
		return false
	}
	g.asked[obj] = true
	defer delete(g.asked, obj)
	return !slices.ContainsFunc(g.sites[obj], func(s site) bool { return g.useAt(obj, s) != harmless })
}

// isKnown reports whether all places that name a variable or a function are in the package.
func (g *groups) isKnown(obj types.Object) bool {
	isMain := g.pass.Pkg.Name() == "main"
	switch obj := obj.(type) {
	case *types.Func:
		return g.declared[obj] && (!obj.Exported() || isMain && obj.Signature().Recv() == nil)
	case *types.Var:
		return !obj.IsField() && (!obj.Exported() || isMain || obj.Parent() != g.pass.Pkg.Scope())
	}
	return false
}

// useAt returns what is done with a group at a place that names its variable, or the function that returns it.
func (g *groups) useAt(obj types.Object, s site) groupUse {
	if _, isFunc := obj.(*types.Func); !isFunc {
		return g.use(s.id, s.stack)
	}
	e, stack := ast.Expr(s.id), s.stack
	if method, ok := stack[len(stack)-1].(*ast.SelectorExpr); ok {
		e, stack = method, stack[:len(stack)-1]
	}
	call, ok := stack[len(stack)-1].(*ast.CallExpr)
	if !ok || call.Fun != e {
		return isGiven
	}
	return g.use(call, stack[:len(stack)-1])
}
