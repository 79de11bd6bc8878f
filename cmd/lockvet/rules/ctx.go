package rules

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// Ctx finds work under a lock that has another context than that of the lock.
var Ctx = &analysis.Analyzer{
	Name: "lockctx",
	Doc: `find work under a lock that is not told when the lock is lost

The context that WithLock passes to its function ends when the lock is lost. So does the context that Acquire returns.
Work with a context from outside the lock, such as that of the request, goes on then, beside the next holder. So does
work with context.Background.

	err := locks.WithLock(ctx, key, policy, func(lockCtx context.Context) error {
		return repo.Save(ctx, order) // should be lockCtx
	})

Work that has to be finished anyway gets context.WithoutCancel(lockCtx). The rule leaves alone deferred calls, releases,
logs, calls that only read a value of the context, and what comes after a release. Where a handler gives its request the
context of the lock, the rule does not look at that request any more:

	c.Request = c.Request.WithContext(lockCtx)`,
	URL: docs,
	Run: runCtx,
}

func runCtx(pass *analysis.Pass) (any, error) {
	files(pass, func(f *ast.File) {
		c := ctxCheck{pass: pass, told: make(map[token.Pos]bool)}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if body := underLock(pass.TypesInfo, n); body != nil {
					c.function(body)
				}
			case *ast.BlockStmt:
				c.block(n.List)
			case *ast.CaseClause:
				c.block(n.Body)
			case *ast.CommClause:
				c.block(n.Body)
			case *ast.IfStmt:
				if lock, ok := c.acquires(n.Init, []ast.Stmt{n}); ok {
					c.branches(n, lock, true)
				}
			}
			return true
		})
	})
	return nil, nil
}

// underLock returns the function that a call runs under a lock; nil: it is none, or one that is declared elsewhere.
func underLock(info *types.Info, call *ast.CallExpr) *ast.FuncLit {
	fn := callee(info, call)
	runs := isOf(fn, "lockmw", "WithLock", "WithLocks", "Wrap", "Once", "Do", "Run") || isOf(fn, "funclock", "Run")
	if !runs || len(call.Args) == 0 {
		return nil
	}
	body, _ := ast.Unparen(call.Args[len(call.Args)-1]).(*ast.FuncLit)
	return body
}

// A ctxCheck looks at one file.
type ctxCheck struct {
	pass *analysis.Pass
	told map[token.Pos]bool
}

func (c ctxCheck) report(at ast.Expr, from, instead string) {
	if !c.told[at.Pos()] {
		c.told[at.Pos()] = true
		c.pass.Reportf(at.Pos(), "%s does not end when the lock is lost: use %s", from, instead)
	}
}

// function looks at a function that runs under a lock.
func (c ctxCheck) function(body *ast.FuncLit) {
	info := c.pass.TypesInfo
	ended, changed := endOfLeading(info, body.Body), changesOf(info, body.Body.List)
	calls(info, body.Body, func(arg ast.Expr) {
		root, from := contextOf(info, arg)
		inside := root != nil && body.Pos() <= root.Pos() && root.Pos() < body.End()
		if from == "" || inside || changed.before(root, arg) || ended.IsValid() && arg.Pos() > ended {
			return
		}
		c.report(arg, from, "the context of the function that runs under the lock")
	})
}

// An acquired is a lock that a statement takes with Acquire, AcquireAll or Resume.
type acquired struct {
	taken

	outer   *types.Var // of which the context was made; nil: not of a variable, or of one that now has the lock's context
	instead string     // what is to be used under the lock
	changed changes    // that are made under the lock
}

// acquires returns the lock that a statement takes; ok is false if it takes none. Under it are the statements that may run with the lock.
func (c ctxCheck) acquires(stmt ast.Stmt, under []ast.Stmt) (lock acquired, ok bool) {
	info := c.pass.TypesInfo
	call, results := callOf(lineOf(stmt))
	if call == nil || len(results) != 3 || len(call.Args) == 0 || !isOf(callee(info, call), "lockmw", "Acquire", "AcquireAll", "Resume") {
		return lock, false
	}
	own := variable(info, results[0])
	lock.taken = taken{stmt: stmt, call: call, lock: variable(info, results[1]), err: variable(info, results[2])}
	lock.instead = "the context that " + callee(info, call).Name() + " returns"
	if own != nil && own.Name() != "_" {
		lock.instead = own.Name()
	}
	if outer, _ := contextOf(info, call.Args[0]); outer != own {
		lock.outer = outer
	}
	lock.changed = changesOf(info, under)
	return lock, lock.lock != nil
}

// lineOf returns the only line of a var, and each other statement as it is.
func lineOf(stmt ast.Stmt) ast.Node {
	decl, ok := stmt.(*ast.DeclStmt)
	if !ok {
		return stmt
	}
	if lines, ok := decl.Decl.(*ast.GenDecl); ok && len(lines.Specs) == 1 {
		return lines.Specs[0]
	}
	return stmt
}

// block looks at what stands behind an Acquire in a block.
func (c ctxCheck) block(stmts []ast.Stmt) {
	for i, stmt := range stmts {
		if lock, ok := c.acquires(stmt, stmts[i+1:]); ok {
			c.behind(stmts[i+1:], lock, true)
		}
	}
}

// behind looks at statements that are run while a lock is held. fresh: the lock's error is still in its variable. It returns whether the lock may
// be free, or in other hands, where the statements have been run and the function goes on.
func (c ctxCheck) behind(stmts []ast.Stmt, lock acquired, fresh bool) (free bool) {
	for _, stmt := range stmts {
		if c.statement(stmt, lock, fresh) {
			return !leavesFunction(c.pass.TypesInfo, stmts[len(stmts)-1])
		}
		fresh = fresh && (lock.err == nil || !assigns(c.pass.TypesInfo, stmt, lock.err))
	}
	return false
}

// leavesFunction reports whether nothing is run behind a statement.
func leavesFunction(info *types.Info, stmt ast.Stmt) bool {
	switch s := stmt.(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		id, ok := call.Fun.(*ast.Ident)
		return ok && info.Uses[id] == types.Universe.Lookup("panic")
	}
	return false
}

// statement is behind for one statement, with those that it consists of.
func (c ctxCheck) statement(stmt ast.Stmt, lock acquired, fresh bool) (free bool) {
	info := c.pass.TypesInfo
	p := partsOf(stmt)
	if p.init != nil {
		if c.statement(p.init, lock, fresh) {
			return true
		}
		fresh = fresh && (lock.err == nil || !assigns(info, p.init, lock.err))
	}
	if lock.err != nil && fresh && asksFor(info, stmt, lock.err) { // whether there is a lock
		if n, ok := stmt.(*ast.IfStmt); ok && !assigns(info, stmt, lock.lock) {
			return c.branches(n, lock, fresh)
		}
		return assigns(info, stmt, lock.lock) || releasesWithin(info, stmt, lock.lock)
	}
	if releases(info, stmt, lock.lock) || returns(info, stmt, lock.lock) {
		return true
	}
	for _, n := range p.evaluated {
		c.calls(n, lock)
	}
	for _, list := range p.lists {
		free = c.behind(list, lock, fresh) || free
	}
	return free
}

// calls looks at the contexts that calls within a node are given while a lock is held.
func (c ctxCheck) calls(within ast.Node, lock acquired) {
	info := c.pass.TypesInfo
	calls(info, within, func(arg ast.Expr) {
		root, from := contextOf(info, arg)
		before := root == nil || root.Pos() < lock.stmt.Pos()
		if from != "" && before && !lock.changed.before(root, arg) && (root == lock.outer || root == nil || isRequest(root.Type())) {
			c.report(arg, from, lock.instead)
		}
	})
}

// parts are what a statement consists of.
type parts struct {
	init      ast.Stmt     // is run first
	evaluated []ast.Node   // by the statement itself
	lists     [][]ast.Stmt // statements of which the statement runs some, perhaps
}

func partsOf(stmt ast.Stmt) (p parts) {
	evaluate := func(e ast.Expr) {
		if e != nil {
			p.evaluated = append(p.evaluated, e)
		}
	}
	switch s := stmt.(type) {
	case *ast.BlockStmt:
		p.lists = append(p.lists, s.List)
	case *ast.LabeledStmt:
		p.lists = append(p.lists, []ast.Stmt{s.Stmt})
	case *ast.IfStmt:
		p.init = s.Init
		evaluate(s.Cond)
		p.lists = append(p.lists, s.Body.List)
		if s.Else != nil {
			p.lists = append(p.lists, []ast.Stmt{s.Else})
		}
	case *ast.ForStmt:
		p.init = s.Init
		evaluate(s.Cond)
		p.lists = append(p.lists, s.Body.List)
		if s.Post != nil {
			p.lists = append(p.lists, []ast.Stmt{s.Post})
		}
	case *ast.RangeStmt:
		evaluate(s.X)
		p.lists = append(p.lists, s.Body.List)
	case *ast.SwitchStmt:
		p.init = s.Init
		evaluate(s.Tag)
		p.clauses(s.Body)
	case *ast.TypeSwitchStmt:
		p.init, p.evaluated = s.Init, []ast.Node{s.Assign}
		p.clauses(s.Body)
	case *ast.SelectStmt:
		p.clauses(s.Body)
	default:
		p.evaluated = []ast.Node{stmt}
	}
	return p
}

// clauses adds those of a switch or a select.
func (p *parts) clauses(body *ast.BlockStmt) {
	for _, clause := range body.List {
		switch clause := clause.(type) {
		case *ast.CaseClause:
			for _, e := range clause.List {
				p.evaluated = append(p.evaluated, e)
			}
			p.lists = append(p.lists, clause.Body)
		case *ast.CommClause:
			if clause.Comm != nil {
				p.lists = append(p.lists, append([]ast.Stmt{clause.Comm}, clause.Body...))
				continue
			}
			p.lists = append(p.lists, clause.Body)
		}
	}
}

// branches looks at those branches of an if in which the lock is held. It returns whether the lock may be free where the function goes on.
func (c ctxCheck) branches(n *ast.IfStmt, lock acquired, fresh bool) (free bool) {
	without := way{}
	if lock.err != nil {
		without = wayWithout(c.pass.TypesInfo, n.Cond, lock.taken, fresh)
	}
	if without.none == unknown.none {
		return releasesWithin(c.pass.TypesInfo, n, lock.lock)
	}
	if !without.none.onTrue {
		free = c.behind(n.Body.List, lock, fresh)
	}
	if without.none.onFalse {
		return free
	}
	switch other := n.Else.(type) {
	case *ast.BlockStmt:
		free = c.behind(other.List, lock, fresh) || free
	case *ast.IfStmt:
		free = c.branches(other, lock, fresh) || free
	}
	return free
}

// asksFor reports whether a statement goes by an error.
func asksFor(info *types.Info, stmt ast.Stmt, err *types.Var) bool {
	of := func(v *types.Var) bool { return v == err }
	switch s := stmt.(type) {
	case *ast.IfStmt:
		return mentions(info, s.Cond, of)
	case *ast.SwitchStmt:
		if s.Tag != nil && mentions(info, s.Tag, of) {
			return true
		}
		for _, clause := range s.Body.List {
			for _, e := range clause.(*ast.CaseClause).List {
				if mentions(info, e, of) {
					return true
				}
			}
		}
	case *ast.TypeSwitchStmt:
		return mentions(info, s.Assign, of)
	}
	return false
}

// endOfLeading returns where a function has waited for the end of its own context: what follows has to have another one.
func endOfLeading(info *types.Info, body *ast.BlockStmt) (at token.Pos) {
	for _, stmt := range body.List {
		e, ok := stmt.(*ast.ExprStmt)
		if !ok {
			continue
		}
		if receive, ok := e.X.(*ast.UnaryExpr); ok && receive.Op == token.ARROW && isDone(info, receive.X) {
			return e.End()
		}
	}
	return token.NoPos
}

// isDone reports whether an expression is ctx.Done().
func isDone(info *types.Info, e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	fn := callee(info, call)
	return fn != nil && fn.Name() == "Done"
}

// releases reports whether a statement itself, and not a branch of it, gives a lease back.
func releases(info *types.Info, stmt ast.Stmt, lease *types.Var) (found bool) {
	ast.Inspect(stmt, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt, *ast.FuncLit, *ast.BlockStmt:
			return false
		case *ast.CallExpr:
			if method, ok := ast.Unparen(n.Fun).(*ast.SelectorExpr); ok && method.Sel.Name == "Release" && variable(info, method.X) == lease {
				found = true
			}
		}
		return !found
	})
	return found
}

// releasesWithin reports whether a statement, or a branch of it, gives a lease back.
func releasesWithin(info *types.Info, stmt ast.Stmt, lease *types.Var) (found bool) {
	ast.Inspect(stmt, func(n ast.Node) bool {
		if block, ok := n.(ast.Stmt); ok {
			found = found || releases(info, block, lease)
		}
		return !found
	})
	return found
}

// returns reports whether a statement passes a lease on to the caller: what is done under the lock is done there.
func returns(info *types.Info, stmt ast.Stmt, lease *types.Var) bool {
	_, ok := stmt.(*ast.ReturnStmt)
	return ok && mentions(info, stmt, func(v *types.Var) bool { return v == lease })
}
