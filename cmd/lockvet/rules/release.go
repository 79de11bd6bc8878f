package rules

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/cfg"
)

// Release finds locks that are not given back.
var Release = &analysis.Analyzer{
	Name: "lockrelease",
	Doc: `find locks that are not released on each way out of a function

A lease that is not released is renewed for as long as its process lives, and everybody else waits for it.

	ctx, lease, err := locks.Acquire(ctx, key, policy)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)

A lock that is taken only if it is needed may be released under the same condition, or under a bool variable that says whether it was taken.

The rule also knows the locks of redislock (Obtain, ObtainMulti) and redsync (Lock, LockContext, TryLock, TryLockContext), in all their versions.
Those end with their TTL, so that it says nothing if a function drops one, never gives it back, or only where the work failed: that may be meant.

A function that takes a lock and returns it, within a struct or as a function that releases it if it likes, hands the duty to its caller,
and the rule looks there. It follows such functions over packages, and through an interface whose methods all do so in its package:

	func (s *Store) LockOrder(ctx context.Context, id string) (*redislock.Lock, error)`,
	URL:       docs,
	Requires:  []*analysis.Analyzer{ctrlflow.Analyzer},
	FactTypes: []analysis.Fact{new(handover), new(carrier)},
	Run:       runRelease,
}

func runRelease(pass *analysis.Pass) (any, error) {
	graphs := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	exportHandovers(pass, graphs)
	files(pass, func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					checkReleases(pass, n.Body, graphs.FuncDecl(n))
				}
			case *ast.FuncLit:
				checkReleases(pass, n.Body, graphs.FuncLit(n))
			}
			return true
		})
	})
	return nil, nil
}

func checkReleases(pass *analysis.Pass, body *ast.BlockStmt, graph *cfg.CFG) {
	if graph == nil {
		return
	}
	info := pass.TypesInfo
	type left struct {
		lock *types.Var
		way  ast.Node
	}
	told := make(map[left]bool) // where a lock is taken again until it is there, the first statement is told of
	statements(body, func(stmt ast.Node) {
		t, ok := takes(pass, stmt)
		switch {
		case !ok:
		case t.dropped:
			if t.Lease {
				pass.Reportf(stmt.Pos(), "the lease is dropped: nobody can release the lock, and it is renewed for as long as the process lives")
			}
		case t.lock == nil || t.lock.Pos() < body.Pos() || t.lock.Pos() >= body.End(): // others may release it
		case !isOwn(info, body, t): // nothing is known
		default:
			way := unreleased(info, body, graph, t)
			if way != nil && !told[left{t.lock, way}] {
				told[left{t.lock, way}] = true
				pass.Reportf(t.call.Pos(), "the lock is not released on each way out of the function: line %d is reached without %s%s",
					pass.Fset.Position(way.Pos()).Line, t.lock.Name(), t.Back)
			}
		}
	})
}

// statements calls do for the statements of a function, but not for those of functions within it. Of var, it is called for each line, as the
// function's graph has them.
func statements(body *ast.BlockStmt, do func(stmt ast.Node)) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.FuncLit:
			return false
		case ast.Stmt, *ast.ValueSpec:
			do(n)
		}
		return true
	})
}

// failures are the branches of a function behind an error.
type failures []*ast.BlockStmt

func failuresOf(info *types.Info, body *ast.BlockStmt) (found failures) {
	statements(body, func(stmt ast.Node) {
		if branch, ok := stmt.(*ast.IfStmt); ok && findsError(info, branch.Cond) {
			found = append(found, branch.Body)
		}
	})
	return found
}

func (f failures) have(n ast.Node) bool {
	return slices.ContainsFunc(f, func(b *ast.BlockStmt) bool { return b.Pos() <= n.Pos() && n.Pos() < b.End() })
}

// findsError reports whether a condition has: err != nil.
func findsError(info *types.Info, cond ast.Expr) (found bool) {
	ast.Inspect(cond, func(n ast.Node) bool {
		e, ok := n.(*ast.BinaryExpr)
		if ok && e.Op == token.NEQ && info.Types[e.Y].IsNil() {
			found = found || isError(info.TypeOf(e.X))
		}
		return !found
	})
	return found
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

// leaves returns at which returns a function may well leave a lock that ends with its TTL. Where it gives it back nowhere, it wants the work to be
// done once in that time. Where it gives it back only behind errors, it wants others to try again at once, and to leave alone what is done.
func leaves(info *types.Info, body *ast.BlockStmt, graph *cfg.CFG, t taken) (spared func(ret ast.Node) bool) {
	failed := failuresOf(info, body)
	back, always := false, false
	for _, b := range graph.Blocks {
		for _, n := range b.Nodes {
			if givesAway(info, n, t) && !assigns(info, n, t.lock) {
				back, always = true, always || !failed.have(n)
			}
		}
	}
	return func(ret ast.Node) bool { return !back || !always && !failed.have(ret) }
}

// A step is a block of a function.
type step struct {
	block *cfg.Block
	fresh bool // the error of the lock is still in its variable
	held  bool // the function has looked, and there is a lock
	known truths
}

// unreleased returns where a function is left with its lock; nil: nowhere, or the function goes by the lock's error in a way that is not known.
func unreleased(info *types.Info, body *ast.BlockStmt, graph *cfg.CFG, t taken) ast.Node {
	w := walk{info: info, taken: t}
	if !t.Lease {
		w.spared = leaves(info, body, graph, t)
	}
	return w.through(body, graph)
}

// A walk goes all ways that a function may take with its lock.
type walk struct {
	taken

	info *types.Info
	seen map[step]bool

	spared func(ret ast.Node) bool // returns that may be reached with the lock; nil: none

	hands map[ast.Node]bool // the returns that are looked for, which hand the lock over; nil: those that are reached with it and do not
	wraps map[ast.Node]bool // statements that put the lock into what is handed over
}

// through returns the first return that is found.
func (w walk) through(body *ast.BlockStmt, graph *cfg.CFG) ast.Node {
	w.says, w.seen = madeOf(w.info, graph, w.taken), make(map[step]bool)
	w.beside = append(slices.Clip(w.beside), hints(w.info, graph, w.taken)...)
	w.conditions, w.known = conditionsOf(w.info, body, graph, w.taken)
	for _, b := range graph.Blocks {
		for i, n := range b.Nodes {
			if n == w.stmt {
				return w.from(step{block: b, fresh: true, known: w.known}, b.Nodes[i+1:])
			}
		}
	}
	return nil
}

// from is through from a step on, of whose block these nodes are ahead.
func (w walk) from(s step, nodes []ast.Node) ast.Node {
	for _, n := range nodes {
		switch {
		case w.hands[n]:
			return n
		case w.wraps[n]:
		case givesAway(w.info, n, w.taken), s.fresh && remakes(w.info, n, w.err):
			return nil
		}
		s.known = w.learns(n, s)
		if n != w.stmt && assigns(w.info, n, w.err) {
			s.fresh = false
		}
	}
	if exit := s.block.Return(); exit != nil {
		if w.hands != nil || w.spared != nil && w.spared(exit) {
			return nil
		}
		return exit
	}
	var none, held [2]bool // on the ways behind a condition
	if len(s.block.Succs) == 2 && len(s.block.Nodes) > 0 {
		if cond, ok := s.block.Nodes[len(s.block.Nodes)-1].(ast.Expr); ok {
			behind := wayWithout(w.info, cond, w.at(s), s.fresh)
			none, held = [2]bool{behind.none.onTrue, behind.none.onFalse}, [2]bool{behind.held.onTrue, behind.held.onFalse}
		}
	}
	for i, next := range s.block.Succs {
		to := step{next, s.fresh, s.held || len(s.block.Succs) == 2 && held[i], s.known}
		if len(s.block.Succs) == 2 && none[i] || w.seen[to] {
			continue
		}
		w.seen[to] = true
		if exit := w.from(to, next.Nodes); exit != nil {
			return exit
		}
	}
	return nil
}

// remakes reports whether a node gives a variable a value that is made of the one that it has: err = errors.Wrap(err, "…").
func remakes(info *types.Info, n ast.Node, v *types.Var) bool {
	assign, ok := n.(*ast.AssignStmt)
	return ok && assigns(info, n, v) && slices.ContainsFunc(assign.Rhs, func(e ast.Expr) bool {
		return mentions(info, e, func(other *types.Var) bool { return other == v })
	})
}

// madeOf returns what a function makes of the error of a lock, and whether that is true where the lock was not taken.
func madeOf(info *types.Info, graph *cfg.CFG, t taken) map[*types.Var]bool {
	found := make(map[*types.Var]bool)
	for _, b := range graph.Blocks {
		for _, n := range b.Nodes {
			to, values := assigned(n)
			if n == t.stmt {
				continue
			}
			for _, from := range values {
				if !mentions(info, from, func(v *types.Var) bool { return v == t.err }) {
					continue
				}
				for _, lhs := range to {
					if v := variable(info, lhs); v != nil && v != t.err {
						found[v] = findsOne(info, from)
					}
				}
			}
		}
	}
	return found
}

// hints returns the variables into which a function puts what it makes of the further results of the call.
func hints(info *types.Info, graph *cfg.CFG, t taken) (found []*types.Var) {
	for _, b := range graph.Blocks {
		for _, n := range b.Nodes {
			to, values := assigned(n)
			if n == t.stmt || !slices.ContainsFunc(values, func(e ast.Expr) bool { return isBeside(info, e, t) }) {
				continue
			}
			for _, lhs := range to {
				if v := variable(info, lhs); v != nil && v != t.lock && v != t.err {
					found = append(found, v)
				}
			}
		}
	}
	return found
}

// isBeside reports whether an expression mentions one of the further results of the call.
func isBeside(info *types.Info, e ast.Expr, t taken) bool {
	return mentions(info, e, func(v *types.Var) bool { return slices.Contains(t.beside, v) })
}

// findsOne reports whether an expression is true where it finds an error: errors.Is(err, X), errors.As(err, &x), errors.AsType[X](err).
func findsOne(info *types.Info, e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && isFunc(callee(info, call), "errors", "Is", "As", "AsType")
}

// A way says on which of the two ways behind a condition there is no lock, or none that anything is known of, and on which there is one for certain.
type way struct{ none, held sides }

type sides struct{ onTrue, onFalse bool }

func (s sides) not() sides { return sides{s.onFalse, s.onTrue} }

// and is of x && y: where that holds both do.
func (s sides) and(y sides) sides { return sides{s.onTrue || y.onTrue, s.onFalse && y.onFalse} }

// or is of x || y.
func (s sides) or(y sides) sides { return s.not().and(y.not()).not() }

// unknown is behind a condition that goes by what the call says in a way that nobody knows.
var unknown = way{none: sides{true, true}}

// wayWithout returns what is behind a condition. fresh: the lock's error is still in its variable.
func wayWithout(info *types.Info, cond ast.Expr, t taken, fresh bool) way {
	if w, ok := t.told(info, cond); ok {
		return w
	}
	switch e := ast.Unparen(cond).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			x := wayWithout(info, e.X, t, fresh)
			return way{x.none.not(), x.held.not()}
		}
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			return wayOfBoth(info, e, t, fresh)
		}
		if w, known := comparison(info, e, t, fresh); known {
			return w
		}
	case *ast.Ident:
		v := variable(info, e)
		if v != nil && v == t.err && fresh && isBool(v.Type()) {
			return way{none: sides{onFalse: true}, held: sides{onTrue: true}}
		}
		if t.says[v] {
			return way{none: sides{onTrue: true}}
		}
	case *ast.CallExpr:
		if fresh && findsOne(info, e) && t.err != nil && variable(info, e.Args[0]) == t.err {
			return way{none: sides{onTrue: true}}
		}
	}
	return asked(info, cond, t, fresh)
}

// wayOfBoth is wayWithout of x && y, or x || y.
func wayOfBoth(info *types.Info, e *ast.BinaryExpr, t taken, fresh bool) way {
	x := wayWithout(info, e.X, t, fresh)
	if e.Op == token.LAND {
		t.held = t.held || x.held.onTrue
		y := wayWithout(info, e.Y, t, fresh)
		return way{x.none.and(y.none), x.held.and(y.held)}
	}
	t.held = t.held || x.held.onFalse
	y := wayWithout(info, e.Y, t, fresh)
	return way{x.none.or(y.none), x.held.or(y.held)}
}

// asked is wayWithout of a condition of which it is only known what it mentions.
func asked(info *types.Info, cond ast.Expr, t taken, fresh bool) way {
	ofErr := func(v *types.Var) bool { _, says := t.says[v]; return v == t.err || says }
	ofLock := func(v *types.Var) bool { return v == t.lock }
	if fresh && mentions(info, cond, ofErr) || t.err == nil && mentions(info, cond, ofLock) || !t.held && isBeside(info, cond, t) {
		return unknown
	}
	return way{}
}

func isBool(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Kind() == types.Bool
}

// comparison is wayWithout of one with == or !=; known: it is of the lock or its error.
func comparison(info *types.Info, e *ast.BinaryExpr, t taken, fresh bool) (w way, known bool) {
	x, y := e.X, e.Y
	if info.Types[x].IsNil() {
		x, y = y, x
	}
	v := variable(info, x)
	isErr, isLock := fresh && v != nil && v == t.err, v != nil && v == t.lock
	var equal way
	switch {
	case isErr && info.Types[y].IsNil():
		equal = way{none: sides{onFalse: true}, held: sides{onTrue: !t.Maybe}}
	case isErr && e.Op == token.EQL && !isBool(v.Type()): // err == redislock.ErrNotObtained
		return way{none: sides{onTrue: true}}, true
	case isLock && info.Types[y].IsNil():
		equal = way{none: sides{onTrue: true}, held: sides{onFalse: true}}
	default:
		return way{}, false
	}
	if e.Op == token.NEQ {
		return way{equal.none.not(), equal.held.not()}, true
	}
	return equal, e.Op == token.EQL
}
