package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
)

// A handover is the fact that a function takes a lock and hands it to its caller, whose duty it is to give it back.
type handover struct {
	Lock   int    // which result it is
	Says   int    // which result says whether it was taken, by no error or by true; -1: none does, and the lock is nil if it was not
	Maybe  bool   // there may be no lock and no error either
	Back   string // what stands behind the lock's name where it is given back: ".Release"
	Inside bool   // the result is not the lock itself, but has it within: a struct, or a function that releases it
	Lease  bool   // it is a lease, which is renewed until it is released
}

// AFact makes it a fact of go/analysis.
func (*handover) AFact() {}

func (h *handover) String() string {
	if h.Says < 0 {
		return fmt.Sprintf("hands over a lock: result %d, with %s", h.Lock, h.Back)
	}
	return fmt.Sprintf("hands over a lock: result %d, with %s, if result %d says so", h.Lock, h.Back, h.Says)
}

// A carrier is the fact that a function puts a lock that it is given into its only result, and does nothing else.
type carrier struct {
	Param int // which parameter it is
}

// AFact makes it a fact of go/analysis.
func (*carrier) AFact() {}

func (c *carrier) String() string { return fmt.Sprintf("carries the lock of parameter %d", c.Param) }

// exportHandovers finds the functions of a package that hand a lock over. It looks again as long as it finds some, because they call each other.
func exportHandovers(pass *analysis.Pass, graphs *ctrlflow.CFGs) {
	uses := func(p *types.Package) bool { return isLibrary(p.Path()) }
	if uses(pass.Pkg) || !slices.ContainsFunc(pass.Pkg.Imports(), uses) && len(pass.AllObjectFacts()) == 0 {
		return
	}
	for more := true; more; {
		more = false
		functions(pass, func(fn *types.Func, decl *ast.FuncDecl) {
			if pass.ImportObjectFact(fn, new(handover)) || pass.ImportObjectFact(fn, new(carrier)) {
				return
			}
			if param := carries(pass.TypesInfo, fn, decl); param >= 0 {
				pass.ExportObjectFact(fn, &carrier{param})
				more = true
			} else if h, ok := handsOver(pass, fn, decl, graphs.FuncDecl(decl)); ok {
				pass.ExportObjectFact(fn, &h)
				more = true
			}
		})
		for fn, h := range handsThrough(pass) {
			pass.ExportObjectFact(fn, &h)
			more = true
		}
	}
}

// functions calls do for the functions of a package that have a result.
func functions(pass *analysis.Pass, do func(fn *types.Func, decl *ast.FuncDecl)) {
	files(pass, func(f *ast.File) {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.FuncDecl)
			if !ok || decl.Body == nil {
				continue
			}
			if fn, ok := pass.TypesInfo.Defs[decl.Name].(*types.Func); ok && fn.Signature().Results().Len() > 0 {
				do(fn, decl)
			}
		}
	})
}

// carries returns which parameter of a function is a lock that it returns within a struct; negative: none.
func carries(info *types.Info, fn *types.Func, decl *ast.FuncDecl) int {
	if len(decl.Body.List) != 1 || fn.Signature().Results().Len() != 1 {
		return -1
	}
	ret, ok := decl.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(ret.Results) != 1 {
		return -1
	}
	at := -1
	for i := range fn.Signature().Params().Len() {
		param := fn.Signature().Params().At(i)
		elements(ret.Results[0], func(_ *ast.CompositeLit, _, value ast.Expr) {
			if isLock(param.Type()) && variable(info, value) == param {
				at = i
			}
		})
	}
	return at
}

// isLock reports whether a type is that of a lock that is known.
func isLock(t types.Type) bool {
	p, ok := types.Unalias(t).(*types.Pointer)
	if !ok {
		return false
	}
	named, ok := types.Unalias(p.Elem()).(*types.Named)
	return ok && named.Obj().Pkg() != nil && isLibrary(named.Obj().Pkg().Path()) && slices.Contains([]string{"Lease", "Lock", "Mutex"}, named.Obj().Name())
}

// elements calls do for the elements of a struct that is written out, also behind an &, and of those within it.
func elements(e ast.Expr, do func(of *ast.CompositeLit, key, value ast.Expr)) {
	if u, ok := ast.Unparen(e).(*ast.UnaryExpr); ok && u.Op == token.AND {
		e = u.X
	}
	lit, ok := ast.Unparen(e).(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, element := range lit.Elts {
		var key ast.Expr
		if kv, ok := element.(*ast.KeyValueExpr); ok {
			key, element = kv.Key, kv.Value
		}
		do(lit, key, element)
		elements(element, do)
	}
}

// handsThrough returns the methods of interfaces of a package through which locks are handed over: all types of the package that have them do so
// in the same way. Types of tests and generated files do not count.
func handsThrough(pass *analysis.Pass) map[*types.Func]handover {
	written := make(map[*token.File]bool)
	files(pass, func(f *ast.File) { written[pass.Fset.File(f.FileStart)] = true })
	var ifaces []*types.Interface
	var others []types.Type // pointers to them
	for _, name := range pass.Pkg.Scope().Names() {
		obj := pass.Pkg.Scope().Lookup(name)
		switch t := declared(obj).(type) {
		case nil:
		case *types.Interface:
			ifaces = append(ifaces, t)
		default:
			if written[pass.Fset.File(obj.Pos())] {
				others = append(others, types.NewPointer(obj.Type()))
			}
		}
	}
	found := make(map[*types.Func]handover)
	for _, iface := range ifaces {
		for method := range iface.ExplicitMethods() {
			if method.Pkg() != pass.Pkg || pass.ImportObjectFact(method, new(handover)) {
				continue
			}
			if h, ok := handsAs(pass, iface, method, others); ok {
				found[method] = h
			}
		}
	}
	return found
}

// declared returns what stands behind the name of a type that has no parameters; nil: it is none.
func declared(obj types.Object) types.Type {
	name, ok := obj.(*types.TypeName)
	if !ok || name.IsAlias() {
		return nil
	}
	named, ok := name.Type().(*types.Named)
	if !ok || named.TypeParams().Len() > 0 {
		return nil
	}
	return named.Underlying()
}

// handsAs returns how those of the types that have an interface hand over a lock as one of its methods.
func handsAs(pass *analysis.Pass, iface *types.Interface, method *types.Func, all []types.Type) (h handover, ok bool) {
	for _, t := range all {
		if !types.Implements(t, iface) {
			continue
		}
		found, _, _ := types.LookupFieldOrMethod(t, false, pass.Pkg, method.Name())
		fn, isFunc := found.(*types.Func)
		if !isFunc || fn == method { // it has the interface within
			continue
		}
		var own handover
		if !pass.ImportObjectFact(fn.Origin(), &own) || ok && own != h {
			return handover{}, false
		}
		h, ok = own, true
	}
	return h, ok
}
