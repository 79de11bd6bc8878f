package rules

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/cfg"
)

// A condition is an expression that is true or false, and stays so until one of its variables is assigned: locked, cfg.Lock, mode == "shared".
// Functions that take a lock only if it is needed ask such a condition twice, for the lock and for its release.
type condition struct {
	text string
	vars []*types.Var // the variables that are named in it
}

// conditionOf returns the condition that an expression is. With contrary, the expression is true where the condition is false: != stands for the
// contrary of ==. Without ok, it is no condition: it calls a function, which may say something else the next time.
func conditionOf(info *types.Info, e ast.Expr) (c condition, contrary, ok bool) {
	e = ast.Unparen(e)
	for {
		not, isNot := e.(*ast.UnaryExpr)
		if !isNot || not.Op != token.NOT {
			break
		}
		e, contrary = ast.Unparen(not.X), !contrary
	}
	c.text, ok = types.ExprString(e), true
	if unequal, isBinary := e.(*ast.BinaryExpr); isBinary && unequal.Op == token.NEQ {
		c.text, contrary = types.ExprString(unequal.X)+" == "+types.ExprString(unequal.Y), !contrary
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			ok = false
		case *ast.CallExpr:
			ok = ok && isLen(info, n)
		case *ast.UnaryExpr:
			ok = ok && n.Op != token.ARROW
		case *ast.Ident:
			if v, isVar := info.ObjectOf(n).(*types.Var); isVar && !v.IsField() {
				c.vars = append(c.vars, v)
			}
		}
		return ok
	})
	return c, contrary, ok && len(c.vars) > 0
}

func isLen(info *types.Info, call *ast.CallExpr) bool {
	id, ok := ast.Unparen(call.Fun).(*ast.Ident)
	return ok && info.Uses[id] == types.Universe.Lookup("len")
}

func (c condition) is(other condition) bool {
	return c.text == other.text && slices.Equal(c.vars, other.vars)
}

// changesWith reports whether a condition may change when something is assigned: one of its variables, or a field that it names.
func (c condition) changesWith(info *types.Info, assigned ast.Expr) bool {
	if v := variable(info, assigned); v != nil {
		return slices.Contains(c.vars, v)
	}
	return strings.Contains(c.text, types.ExprString(assigned))
}

// A truth is what is known of a condition on one way through a function.
type truth int8

const (
	unsaid    truth = iota // nothing
	isTrue                 // it is true on this way
	isFalse                // it is false on this way
	undecided              // it goes by what the call said that took the lock, in a way that is not understood
)

// maxConditions is how many conditions of a function are followed: each of them multiplies the ways that have to be gone.
const maxConditions = 12

func truthOf(holds bool) truth {
	if holds {
		return isTrue
	}
	return isFalse
}

// truths are what is known of the conditions of a function.
type truths [maxConditions]truth

// conditionsOf returns the conditions of a function that may go with a lock: those under which it is taken, and the bool variables that are assigned
// by themselves. It also returns what is known of them where the lock is taken.
func conditionsOf(info *types.Info, body *ast.BlockStmt, graph *cfg.CFG, t taken) (found []condition, known truths) {
	add := func(c condition, is truth) {
		if !slices.ContainsFunc(found, c.is) && len(found) < maxConditions {
			found = append(found, c)
			known[len(found)-1] = is
		}
	}
	for _, asked := range askedAround(body, t.stmt) {
		each(asked.e, asked.holds, func(e ast.Expr, holds bool) {
			if c, contrary, ok := conditionOf(info, e); ok {
				add(c, truthOf(holds != contrary))
			}
		})
	}
	for _, b := range graph.Blocks {
		for _, n := range b.Nodes {
			to, _ := assigned(n)
			for _, e := range to {
				if c, _, ok := conditionOf(info, e); ok && isBool(info.TypeOf(e)) {
					add(c, unsaid)
				}
			}
		}
	}
	to, _ := assigned(t.stmt)
	for i, c := range found {
		if slices.ContainsFunc(to, func(e ast.Expr) bool { return c.changesWith(info, e) }) {
			known[i] = unsaid
		}
	}
	return found, known
}

// An asking is an expression that was true or false on the way to some place.
type asking struct {
	e     ast.Expr
	holds bool
}

// askedAround returns the conditions of the branches in which a statement stands.
func askedAround(body *ast.BlockStmt, stmt ast.Node) (found []asking) {
	ast.PreorderStack(body, nil, func(n ast.Node, stack []ast.Node) bool {
		if n != stmt {
			return true
		}
		for i, around := range append(slices.Clip(stack), n)[1:] {
			switch outer := stack[i].(type) {
			case *ast.IfStmt:
				if around == outer.Body || around == outer.Else {
					found = append(found, asking{outer.Cond, around == outer.Body})
				}
			case *ast.CaseClause:
				if choice, ok := stack[i-2].(*ast.SwitchStmt); ok && choice.Tag == nil && len(outer.List) == 1 {
					found = append(found, asking{outer.List[0], true})
				}
			}
		}
		return false
	})
	return found
}

// each calls do for an expression of which it is known whether it holds, and for those parts of it of which it then is known too.
func each(e ast.Expr, holds bool, do func(e ast.Expr, holds bool)) {
	do(e, holds)
	switch e := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			each(e.X, !holds, do)
		}
	case *ast.BinaryExpr:
		if e.Op == token.LAND && holds || e.Op == token.LOR && !holds {
			each(e.X, holds, do)
			each(e.Y, holds, do)
		}
	}
}

// assigned returns what a node assigns values to, and the values; without values, they are not known, or are those that a type has by itself.
func assigned(n ast.Node) (to, values []ast.Expr) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs, n.Rhs
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}, nil
	case *ast.ValueSpec:
		for _, name := range n.Names {
			to = append(to, name)
		}
		return to, n.Values
	}
	return nil, nil
}

// learns returns what is known of the conditions behind a node.
func (w walk) learns(n ast.Node, s step) truths {
	known := s.known
	to, values := assigned(n)
	for i, e := range to {
		for j, c := range w.conditions {
			if !c.changesWith(w.info, e) {
				continue
			}
			known[j] = unsaid
			own, _, ok := conditionOf(w.info, e)
			switch {
			case !ok || !c.is(own):
			case len(values) == len(to):
				known[j] = w.truth(values[i], s)
			case len(values) == 0: // var locked bool
				known[j] = isFalse
			}
		}
	}
	return known
}

// truth returns what is known of an expression on a way on which the function has the lock.
func (w walk) truth(e ast.Expr, s step) truth {
	if value := w.info.Types[e].Value; value != nil && value.Kind() == constant.Bool {
		return truthOf(constant.BoolVal(value))
	}
	switch without := wayWithout(w.info, e, w.at(s), s.fresh).none; {
	case without.onTrue && without.onFalse:
		return undecided
	case without.onTrue:
		return isFalse
	case without.onFalse:
		return isTrue
	}
	return unsaid
}

// at returns the lock with what is known of it at a step.
func (w walk) at(s step) taken {
	t := w.taken
	t.held, t.known = s.held, s.known
	return t
}

// told is wayWithout of a condition of which it is known whether it holds where the function has the lock: on the other way there is none.
func (t taken) told(info *types.Info, cond ast.Expr) (w way, ok bool) {
	if len(t.conditions) == 0 {
		return way{}, false
	}
	c, contrary, ok := conditionOf(info, cond)
	i := slices.IndexFunc(t.conditions, c.is)
	if !ok || i < 0 || t.known[i] == unsaid {
		return way{}, false
	}
	if t.known[i] == undecided {
		return unknown, true
	}
	holds := (t.known[i] == isTrue) != contrary
	return way{none: sides{onTrue: !holds, onFalse: holds}}, true
}
