package rules

import (
	"cmp"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/go/analysis"

	"github.com/lockmw/kit/lockmw"
)

// Policy finds policies that are refused when the program runs.
var Policy = &analysis.Analyzer{
	Name: "lockpolicy",
	Doc: `find policies that Validate refuses

A policy whose fields are constants is checked as at run time. The rule finds 3000 where 3 * time.Second is meant, MinHold above MaxHold, and Shared with
Permits. It also finds FailOpen in a policy of Do or Idempotent, which they refuse: without Redis, nobody knows whether the work was done.

A policy of which a field is set later is not checked. A field may also be missing because other code sets it: that of a policy which a function returns,
or which is copied. Then the rule reports only what is wrong whatever is added.`,
	URL: docs,
	Run: runPolicy,
}

func runPolicy(pass *analysis.Pass) (any, error) {
	c := policyCheck{pass: pass, later: completed(pass), changed: make(map[*types.Var]bool)}
	files(pass, c.changes)
	files(pass, func(f *ast.File) {
		ast.PreorderStack(f, nil, func(n ast.Node, stack []ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			switch t := pass.TypesInfo.TypeOf(literal); {
			case isPolicy(t):
				c.policy(literal, stack)
			case isFlight(t):
				checkFlight(pass, literal)
			}
			return true
		})
	})
	return nil, nil
}

func isPolicy(t types.Type) bool { return isNamed(t, kit+"lockmw", "Policy") }

func isFlight(t types.Type) bool { return isNamed(t, kit+"lockmw", "Flight") }

// completed returns the policies in what variables are given of which a field is set later: p.Wait = wait, options.Policy.Wait = wait.
func completed(pass *analysis.Pass) map[*ast.CompositeLit]bool {
	info := pass.TypesInfo
	literals, found := make(map[*types.Var][]*ast.CompositeLit), make(map[*ast.CompositeLit]bool)
	files(pass, func(f *ast.File) {
		definitions(info, f, func(v *types.Var, value ast.Expr) { literals[v] = append(literals[v], policiesIn(info, value)...) })
	})
	files(pass, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			to, _ := assigned(n)
			for _, e := range to {
				field, ok := ast.Unparen(e).(*ast.SelectorExpr)
				if !ok || !isPolicy(info.TypeOf(field)) && !isPolicy(info.TypeOf(field.X)) {
					continue
				}
				for _, literal := range literals[ownerOf(info, field)] {
					found[literal] = true
				}
			}
			return true
		})
	})
	return found
}

// policiesIn returns the policies that are written out in an expression, and not in a function within it.
func policiesIn(info *types.Info, e ast.Expr) (found []*ast.CompositeLit) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CompositeLit:
			if isPolicy(info.TypeOf(n)) {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

// ownerOf returns the variable at the beginning of p.Wait, o.Policy.Wait, all[i].Wait; nil: it is none.
func ownerOf(info *types.Info, e ast.Expr) *types.Var {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return variable(info, e)
	case *ast.SelectorExpr:
		return ownerOf(info, e.X)
	case *ast.IndexExpr:
		return ownerOf(info, e.X)
	case *ast.StarExpr:
		return ownerOf(info, e.X)
	}
	return nil
}

// A policyCheck looks at one package.
type policyCheck struct {
	pass    *analysis.Pass
	later   map[*ast.CompositeLit]bool // of which a field is set later
	changed map[*types.Var]bool        // policies and flights with which other things are done than to pass them to the module, or to read them
}

// changes notes the variables of a file that somebody else may have, and complete.
func (c policyCheck) changes(f *ast.File) {
	ast.PreorderStack(f, nil, func(n ast.Node, stack []ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		v, ok := c.pass.TypesInfo.Uses[id].(*types.Var)
		if ok && (isPolicy(v.Type()) || isFlight(v.Type())) && !c.leaves(id, stack) {
			c.changed[v] = true
		}
		return true
	})
}

// leaves reports whether a place that names a policy leaves it as it is.
func (c policyCheck) leaves(id *ast.Ident, stack []ast.Node) bool {
	switch parent := stack[len(stack)-1].(type) {
	case *ast.SelectorExpr: // what sets a field is known already
		address, ok := stack[len(stack)-2].(*ast.UnaryExpr)
		return parent.X == id && (!ok || address.Op != token.AND)
	case *ast.AssignStmt:
		return slices.Contains(parent.Lhs, ast.Expr(id))
	case *ast.CallExpr:
		return c.isKit(parent)
	}
	return false
}

// isKit reports whether a call is one of the module, which takes a policy as it is.
func (c policyCheck) isKit(call *ast.CallExpr) bool {
	fn := callee(c.pass.TypesInfo, call)
	return fn != nil && fn.Pkg() != nil && strings.HasPrefix(fn.Pkg().Path(), kit)
}

// isWhole reports whether nobody can add something to a policy before it is used: it is passed to the module, or to a variable with which nothing
// else is done.
func (c policyCheck) isWhole(literal *ast.CompositeLit, stack []ast.Node) bool {
	e := ast.Expr(literal)
	for _, around := range slices.Backward(stack) {
		switch around := around.(type) {
		case *ast.UnaryExpr: // &
			e = around
		case *ast.CompositeLit:
			t := c.pass.TypesInfo.TypeOf(around)
			if _, isStruct := t.Underlying().(*types.Struct); isStruct && !isFlight(t) {
				return false
			}
			e = around
		case *ast.KeyValueExpr, *ast.ParenExpr:
		case *ast.CallExpr:
			return c.isKit(around)
		case *ast.AssignStmt, *ast.ValueSpec:
			to, values := assigned(around)
			i := slices.Index(values, e)
			return i >= 0 && len(to) == len(values) && c.keeps(to[i])
		default:
			return false
		}
	}
	return false
}

// keeps reports whether what is assigned to an expression stays as it is.
func (c policyCheck) keeps(to ast.Expr) bool {
	if isBlank(to) {
		return true
	}
	v := variable(c.pass.TypesInfo, to)
	isKnown := v != nil && (!v.Exported() || v.Parent() != c.pass.Pkg.Scope() || c.pass.Pkg.Name() == "main")
	return isKnown && (isPolicy(v.Type()) || isFlight(v.Type())) && !c.changed[v]
}

// policy looks at a policy. Of one that may not be whole, it reports what is wrong whatever is added.
func (c policyCheck) policy(literal *ast.CompositeLit, stack []ast.Node) {
	p, known := c.valueOf(literal)
	if !known || c.later[literal] {
		return
	}
	if !c.isWhole(literal, stack) {
		p = withMore(p)
	}
	if err := p.Validate(); err != nil {
		c.pass.Reportf(literal.Pos(), "the policy is refused when the program runs: %v", err)
	}
}

// withMore returns a policy with those fields that it may need for others.
func withMore(p lockmw.Policy) lockmw.Policy {
	p.Wait = max(p.Wait, time.Second)
	p.Name = cmp.Or(p.Name, "policy")
	return p
}

// valueOf returns a policy whose fields are constants; known is false if they are not, or if the rule has reported one of them already.
func (c policyCheck) valueOf(literal *ast.CompositeLit) (p lockmw.Policy, known bool) {
	known = true
	for _, element := range literal.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return p, false
		}
		name, value := nameOf(field.Key), c.pass.TypesInfo.Types[field.Value].Value
		if value == nil && (name == "Name" || name == "Prefix") { // what it is does not matter to the other fields
			continue
		}
		if value == nil || !set(&p, name, value) {
			known = false
			continue
		}
		if c.isTooShort(field.Value, name, value) {
			return p, false
		}
	}
	return p, known
}

// isTooShort reports a duration below 1 ms, which is wrong whatever the other fields are.
func (c policyCheck) isTooShort(e ast.Expr, name string, value constant.Value) bool {
	n, ok := constant.Int64Val(constant.ToInt(value))
	if !ok || !isNamed(c.pass.TypesInfo.TypeOf(e), "time", "Duration") {
		return false
	}
	switch d := time.Duration(n); {
	case d < 0:
		c.pass.Reportf(e.Pos(), "%s is negative: %v", name, d)
	case d > 0 && d < time.Millisecond:
		c.pass.Reportf(e.Pos(), "%s is %v: is the unit missing?", name, d)
	default:
		return false
	}
	return true
}

// set gives a field of a policy its value. It returns false for one that cannot be given.
func set(p *lockmw.Policy, field string, value constant.Value) bool {
	f := reflect.ValueOf(p).Elem().FieldByName(field)
	switch n, isInt := constant.Int64Val(constant.ToInt(value)); {
	case !f.IsValid():
		return false
	case f.CanInt() && isInt:
		f.SetInt(n)
	case f.CanUint() && isInt && n >= 0:
		f.SetUint(uint64(n))
	case f.Kind() == reflect.String && value.Kind() == constant.String:
		f.SetString(constant.StringVal(value))
	case f.Kind() == reflect.Bool && value.Kind() == constant.Bool:
		f.SetBool(constant.BoolVal(value))
	default:
		return false
	}
	return true
}

func checkFlight(pass *analysis.Pass, literal *ast.CompositeLit) {
	for _, element := range literal.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok || nameOf(field.Key) != "Policy" {
			continue
		}
		policy, ok := ast.Unparen(field.Value).(*ast.CompositeLit)
		if !ok {
			continue
		}
		for _, element := range policy.Elts {
			of, ok := element.(*ast.KeyValueExpr)
			if !ok || nameOf(of.Key) != "FailOpen" {
				continue
			}
			if value := pass.TypesInfo.Types[of.Value].Value; value != nil && constant.BoolVal(value) {
				pass.Reportf(of.Pos(), "FailOpen has no place in a Flight: without Redis nobody knows whether the work was done")
			}
		}
	}
}

// nameOf returns the name of a field in a literal.
func nameOf(key ast.Expr) string {
	id, ok := key.(*ast.Ident)
	if !ok {
		return ""
	}
	return id.Name
}
