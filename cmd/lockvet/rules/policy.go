package rules

import (
	"go/ast"
	"go/constant"
	"time"

	"golang.org/x/tools/go/analysis"

	"github.com/lockmw/kit/lockmw"
)

// Policy finds policies that are refused when the program runs.
var Policy = &analysis.Analyzer{
	Name: "lockpolicy",
	Doc: `find policies that Validate refuses

A policy whose fields are constants is checked as at run time: 3000 where 3 * time.Second is meant, MinHold above MaxHold, Shared with Permits. Do and
Idempotent take no policy with FailOpen: without Redis nobody knows whether the work was done.`,
	URL: docs,
	Run: runPolicy,
}

func runPolicy(pass *analysis.Pass) (any, error) {
	files(pass, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			switch t := pass.TypesInfo.TypeOf(literal); {
			case isNamed(t, kit+"lockmw", "Policy"):
				checkPolicy(pass, literal)
			case isNamed(t, kit+"lockmw", "Flight"):
				checkFlight(pass, literal)
			}
			return true
		})
	})
	return nil, nil
}

func checkPolicy(pass *analysis.Pass, literal *ast.CompositeLit) {
	var p lockmw.Policy
	whole := true
	for _, element := range literal.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return
		}
		value := pass.TypesInfo.Types[field.Value].Value
		if value == nil || !set(&p, nameOf(field.Key), value) {
			whole = false
			continue
		}
		// A duration below 1 ms is wrong, whatever the other fields are.
		if d, ok := constant.Int64Val(constant.ToInt(value)); ok && isNamed(pass.TypesInfo.TypeOf(field.Value), "time", "Duration") {
			if d := time.Duration(d); d < 0 || d > 0 && d < time.Millisecond {
				pass.Reportf(field.Value.Pos(), "%s is %v: is the unit missing?", nameOf(field.Key), d)
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

// set gives a field of a policy its value. It returns false for a field that it does not know.
func set(p *lockmw.Policy, field string, value constant.Value) bool {
	n, isInt := int64(0), false
	if value.Kind() == constant.Int || value.Kind() == constant.Float {
		n, isInt = constant.Int64Val(constant.ToInt(value))
	}
	durations := map[string]*time.Duration{
		"TTL": &p.TTL, "Wait": &p.Wait, "RetryInterval": &p.RetryInterval, "MaxHold": &p.MaxHold, "MinHold": &p.MinHold, "RetryAfter": &p.RetryAfter,
	}
	texts := map[string]*string{"Name": &p.Name, "Prefix": &p.Prefix}
	flags := map[string]*bool{
		"Reentrant": &p.Reentrant, "FailOpen": &p.FailOpen, "MinHoldOnError": &p.MinHoldOnError, "AsyncRelease": &p.AsyncRelease, "Shadow": &p.Shadow,
	}
	switch {
	case durations[field] != nil && isInt:
		*durations[field] = time.Duration(n)
	case texts[field] != nil && value.Kind() == constant.String:
		*texts[field] = constant.StringVal(value)
	case flags[field] != nil && value.Kind() == constant.Bool:
		*flags[field] = constant.BoolVal(value)
	case field == "Retries" && isInt:
		p.Retries = int(n)
	case field == "Permits" && isInt:
		p.Permits = int(n)
	case field == "Mode" && isInt:
		p.Mode = lockmw.Mode(n)
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
