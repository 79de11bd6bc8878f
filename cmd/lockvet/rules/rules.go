// Package rules has the rules of lockvet, as analyzers for go/analysis.
package rules

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// All are the rules.
var All = []*analysis.Analyzer{Ctx, Release, Goroutine, Route, Policy, Fence}

const (
	kit  = "github.com/lockmw/kit/" // the module whose use is looked at
	docs = "https://pkg.go.dev/github.com/lockmw/kit/cmd/lockvet"

	ginPath = "github.com/gin-gonic/gin"
)

// files calls do for each file of a package that is no test, nor a help for tests, and was written by somebody.
func files(pass *analysis.Pass, do func(f *ast.File)) {
	for _, f := range pass.Files {
		if !strings.HasSuffix(pass.Fset.Position(f.FileStart).Filename, "_test.go") && !helpsTests(pass.TypesInfo, f) && !ast.IsGenerated(f) {
			do(f)
		}
	}
}

// helpsTests reports whether a function of a file is given a test.
func helpsTests(info *types.Info, f *ast.File) (found bool) {
	if !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` }) {
		return false
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok {
			for _, name := range []string{"T", "B", "F", "TB"} {
				found = found || isNamed(info.TypeOf(field.Type), "testing", name)
			}
		}
		return !found
	})
	return found
}

// callee returns the function or method that is called; nil: it is not known.
func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	fn, _ := typeutil.Callee(info, call).(*types.Func)
	if fn == nil {
		return nil
	}
	return fn.Origin()
}

// isOf reports whether a function is one of a package of the module; without names, any.
func isOf(fn *types.Func, pkg string, names ...string) bool { return isFunc(fn, kit+pkg, names...) }

// isFunc reports whether a function or method is one of a package; without names, any.
func isFunc(fn *types.Func, path string, names ...string) bool {
	return fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == path && (len(names) == 0 || slices.Contains(names, fn.Name()))
}

// isMiddleware reports whether a call makes a middleware of Gin, Echo or net/http that takes a lock.
func isMiddleware(info *types.Info, e ast.Expr, pkgs ...string) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	fn := callee(info, call)
	for _, pkg := range pkgs {
		if isOf(fn, pkg, "Middleware", "Idempotent") {
			return true
		}
	}
	return false
}

// isNamed reports whether a type, or what it points to, is the named one.
func isNamed(t types.Type, pkg, name string) bool {
	if t == nil {
		return false
	}
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == pkg && named.Obj().Name() == name
}

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }

// variable returns the variable that an expression is; nil: it is none.
func variable(info *types.Info, e ast.Expr) *types.Var {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := info.ObjectOf(id).(*types.Var)
	return v
}

// definitions tells of the variables within a node that are given a value, and of the values.
func definitions(info *types.Info, within ast.Node, do func(v *types.Var, value ast.Expr)) {
	pairs := func(names, values []ast.Expr) {
		if len(names) != len(values) {
			return
		}
		for i, name := range names {
			if v := variable(info, name); v != nil {
				do(v, values[i])
			}
		}
	}
	ast.Inspect(within, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			pairs(n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			var names []ast.Expr
			for _, name := range n.Names {
				names = append(names, name)
			}
			pairs(names, n.Values)
		}
		return true
	})
}

// assigns reports whether a node gives a variable another value. What runs later does not count.
func assigns(info *types.Info, n ast.Node, v *types.Var) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.AssignStmt:
			for _, lhs := range n.Lhs {
				found = found || v != nil && variable(info, lhs) == v
			}
		}
		return !found
	})
	return found
}

// mentions reports whether one of the variables within a node is such a one.
func mentions(info *types.Info, within ast.Node, one func(v *types.Var) bool) (found bool) {
	ast.Inspect(within, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			v, isVar := info.Uses[id].(*types.Var)
			found = found || isVar && one(v)
		}
		return !found
	})
	return found
}
