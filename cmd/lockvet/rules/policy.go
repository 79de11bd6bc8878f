package rules

import (
	"go/ast"
	"go/constant"
	"go/types"
	"reflect"
	"time"

	"golang.org/x/tools/go/analysis"

	"github.com/lockmw/kit/lockmw"
)

// Policy finds policies that are refused when the program runs.
var Policy = &analysis.Analyzer{
	Name: "lockpolicy",
	Doc: `find policies that Validate refuses

A policy whose fields are constants is checked as at run time. The rule finds 3000 where 3 * time.Second is meant, MinHold above MaxHold, and Shared with
Permits. It also finds FailOpen in a policy of Do or Idempotent, which they refuse: without Redis, nobody knows whether the work was done.`,
	URL: docs,
	Run: runPolicy,
}

func runPolicy(pass *analysis.Pass) (any, error) {
	files(pass, func(f *ast.File) {
		later := completed(pass.TypesInfo, f)
		ast.Inspect(f, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			switch t := pass.TypesInfo.TypeOf(literal); {
			case isNamed(t, kit+"lockmw", "Policy"):
				checkPolicy(pass, literal, !later[literal])
			case isNamed(t, kit+"lockmw", "Flight"):
				checkFlight(pass, literal)
			}
			return true
		})
	})
	return nil, nil
}

// completed returns the literals of variables of which a field is given a value later.
func completed(info *types.Info, f *ast.File) map[*ast.CompositeLit]bool {
	literals, found := make(map[*types.Var]*ast.CompositeLit), make(map[*ast.CompositeLit]bool)
	definitions(info, f, func(v *types.Var, value ast.Expr) {
		if address, ok := value.(*ast.UnaryExpr); ok {
			value = address.X
		}
		if literal, ok := value.(*ast.CompositeLit); ok {
			literals[v] = literal
		}
	})
	ast.Inspect(f, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for _, lhs := range assign.Lhs {
			if field, ok := lhs.(*ast.SelectorExpr); ok && literals[variable(info, field.X)] != nil {
				found[literals[variable(info, field.X)]] = true
			}
		}
		return true
	})
	return found
}

// checkPolicy looks at a policy; whole: nothing is added to it later.
func checkPolicy(pass *analysis.Pass, literal *ast.CompositeLit, whole bool) {
	var p lockmw.Policy
	for _, element := range literal.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return
		}
		name, value := nameOf(field.Key), pass.TypesInfo.Types[field.Value].Value
		if value == nil && (name == "Name" || name == "Prefix") { // what it is does not matter to the other fields
			continue
		}
		if value == nil || !set(&p, name, value) {
			whole = false
			continue
		}
		// A duration below 1 ms is wrong, whatever the other fields are.
		if d, ok := constant.Int64Val(constant.ToInt(value)); ok && isNamed(pass.TypesInfo.TypeOf(field.Value), "time", "Duration") {
			switch d := time.Duration(d); {
			case d < 0:
				pass.Reportf(field.Value.Pos(), "%s is negative: %v", name, d)
				return
			case d > 0 && d < time.Millisecond:
				pass.Reportf(field.Value.Pos(), "%s is %v: is the unit missing?", name, d)
				return
			}
		}
	}
	if !whole {
		return
	}
	if err := p.Validate(); err != nil {
		pass.Reportf(literal.Pos(), "the policy is refused when the program runs: %v", err)
	}
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
