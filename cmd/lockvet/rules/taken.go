package rules

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const redislock = "github.com/bsm/redislock"

// redsync has the paths of all versions of redsync.
var redsync = regexp.MustCompile(`^(gopkg\.in/redsync\.v1|github\.com/go-redsync/redsync(/v\d+)?)$`)

// isLibrary reports whether a package is one whose locks are known.
func isLibrary(path string) bool {
	return path == kit+"lockmw" || path == redislock || redsync.MatchString(path)
}

// A taken is a lock that a function takes.
type taken struct {
	handover

	stmt    ast.Node
	call    *ast.CallExpr
	lock    *types.Var   // what gives it back; nil: it has no name of its own
	err     *types.Var   // what says whether it was taken: by no error, or by true; nil: nothing does, unless the lock is nil
	beside  []*types.Var // the other results of the call, which may say it in a way that is not known
	dropped bool         // the lock is given to nobody
	held    bool         // the function has looked, and there is a lock

	says map[*types.Var]bool // what is made of err, such as ok in: _, ok := errors.AsType[*T](err); true: it holds where the lock was not taken

	conditions []condition // that may go with the lock
	known      truths      // what is known of them where the function is looked at
}

// takes returns the lock that a statement takes; ok is false if it takes none.
func takes(pass *analysis.Pass, stmt ast.Node) (t taken, ok bool) {
	call, results := callOf(stmt)
	if call == nil {
		return t, false
	}
	info := pass.TypesInfo
	t = taken{stmt: stmt, call: call}
	fn := callee(info, call)
	if locksMutex(fn) {
		t.handover = handover{Back: ".Unlock"}
		if method, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr); ok {
			t.lock = variable(info, method.X)
		}
		if len(results) == 1 {
			t.err = variable(info, results[0])
		}
		return t, true
	}
	if t.handover, ok = hands(pass, fn); !ok {
		return t, false
	}
	if len(results) == 0 {
		t.dropped = true
		return t, true
	}
	if len(results) != fn.Signature().Results().Len() {
		return t, false
	}
	for i, result := range results {
		v := variable(info, result)
		switch {
		case isBlank(result):
			t.dropped = t.dropped || i == t.Lock
		case i == t.Lock:
			t.lock = v
		case i == t.Says:
			t.err = v
		case v != nil && !isContext(v.Type()):
			t.beside = append(t.beside, v)
		}
	}
	return t, true
}

// callOf returns the call that a statement is, or whose results it assigns, and what they are assigned to.
func callOf(stmt ast.Node) (call *ast.CallExpr, results []ast.Expr) {
	switch s := stmt.(type) {
	case *ast.ExprStmt:
		call, _ = ast.Unparen(s.X).(*ast.CallExpr)
	case *ast.AssignStmt:
		if len(s.Rhs) == 1 {
			call, _ = ast.Unparen(s.Rhs[0]).(*ast.CallExpr)
		}
		results = s.Lhs
	case *ast.ValueSpec: // var ctx, lease, err = locks.Acquire(…)
		if len(s.Values) == 1 {
			call, _ = ast.Unparen(s.Values[0]).(*ast.CallExpr)
		}
		results, _ = assigned(s)
	}
	return call, results
}

func isBlank(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "_"
}

// locksMutex reports whether a method locks a mutex of redsync.
func locksMutex(fn *types.Func) bool {
	return fn != nil && fn.Pkg() != nil && redsync.MatchString(fn.Pkg().Path()) && fn.Signature().Recv() != nil &&
		slices.Contains([]string{"Lock", "LockContext", "TryLock", "TryLockContext"}, fn.Name())
}

// hands returns how a function hands a lock to its caller; ok is false if it does not.
func hands(pass *analysis.Pass, fn *types.Func) (h handover, ok bool) {
	switch {
	case fn == nil:
		return h, false
	case isOf(fn, "lockmw", "Acquire", "AcquireAll", "Resume") && fn.Signature().Results().Len() == 3:
		return handover{Lock: 1, Says: 2, Back: ".Release", Lease: true}, true
	case isFunc(fn, redislock, "Obtain", "ObtainMulti"), isObtain(fn):
		return handover{Lock: 0, Says: 1, Back: ".Release"}, true
	}
	ok = pass.ImportObjectFact(fn, &h)
	return h, ok
}

// isObtain reports whether a method is that of an interface of the analysed code in the place of redislock's client.
func isObtain(fn *types.Func) bool {
	sig := fn.Signature()
	return fn.Name() == "Obtain" && sig.Recv() != nil && types.IsInterface(sig.Recv().Type()) && sig.Results().Len() == 2 &&
		isNamed(sig.Results().At(0).Type(), redislock, "Lock")
}

// isOwn reports whether it is for a function alone to give a lock back that it takes: it has named the lock, has handed it to nobody in front
// of the place where it takes it, and goes by what the call says in a way that can be followed.
func isOwn(info *types.Info, body *ast.BlockStmt, t taken) bool {
	return t.lock != nil && !isKeptElsewhere(info, body, t) && !switches(info, body, t) && (!locksMutex(callee(info, t.call)) || isMade(info, body, t.lock))
}

// isMade reports whether a function makes what a variable has. A mutex that it asks for may be unlocked by others who ask for it.
func isMade(info *types.Info, body *ast.BlockStmt, v *types.Var) bool {
	made, asked := false, false
	definitions(info, body, func(defined *types.Var, value ast.Expr) {
		if defined != v || info.Types[value].IsNil() {
			return
		}
		call, ok := ast.Unparen(value).(*ast.CallExpr)
		if ok {
			fn := callee(info, call)
			ok = fn != nil && strings.HasPrefix(strings.ToLower(fn.Name()), "new")
		}
		made, asked = made || ok, asked || !ok
	})
	return made && !asked
}

// isKeptElsewhere reports whether a lock was given to somebody in front of the place where it is taken: to a deferred function, or to a field.
func isKeptElsewhere(info *types.Info, body *ast.BlockStmt, t taken) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		stmt, ok := n.(ast.Stmt)
		if !ok || found {
			return !found
		}
		switch stmt.(type) {
		case *ast.BlockStmt, *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.CaseClause, *ast.CommClause, *ast.LabeledStmt:
			return true
		}
		if stmt != t.stmt && stmt.Pos() < t.stmt.Pos() {
			found = givesAway(info, stmt, t)
		}
		return false
	})
	return found
}

// switches reports whether a function goes by what a call says with a switch of which the graph does not tell what it compares.
func switches(info *types.Info, body *ast.BlockStmt, t taken) (found bool) {
	of := func(v *types.Var) bool { return v == t.err || v == t.lock || slices.Contains(t.beside, v) }
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SwitchStmt:
			found = found || n.Tag != nil && mentions(info, n.Tag, of)
		case *ast.TypeSwitchStmt:
			found = found || mentions(info, n.Assign, of)
		}
		return !found
	})
	return found
}

// givesAway reports whether a node releases a lock, or hands it to somebody who may: it is returned, stored, passed on, or named in a function.
func givesAway(info *types.Info, n ast.Node, t taken) (found bool) {
	var stack []ast.Node
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		id, ok := n.(*ast.Ident)
		if !ok || info.Uses[id] != t.lock {
			return true
		}
		found = found || !isLook(info, stack, t)
		return true
	})
	return found
}

// releasing are the methods by which the locks that are known are given back.
var releasing = []string{"Release", "Unlock", "UnlockContext"}

// looks are the names that methods have which leave a lock where it is.
var looks = []string{"Extend", "ExtendContext", "Key", "Metadata", "Name", "Refresh", "TTL", "Token", "Until", "Valid", "ValidContext", "Value"}

// isLook reports whether the last of these nodes, of which each stands in the one before, is a lock that is only looked at.
func isLook(info *types.Info, stack []ast.Node, t taken) bool {
	for _, n := range stack {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
	}
	if len(stack) < 2 {
		return false
	}
	switch parent := stack[len(stack)-2].(type) {
	case *ast.SelectorExpr:
		if t.Inside { // a method of the analysed code, or a field
			return slices.Contains(looks, parent.Sel.Name)
		}
		return !slices.Contains(releasing, parent.Sel.Name)
	case *ast.BinaryExpr: // lease != nil
		return true
	case *ast.CallExpr:
		fn := callee(info, parent)
		return isOf(fn, "fence", "Guard") || isFunc(fn, "log/slog") || isFunc(fn, "log") || isFunc(fn, "fmt")
	}
	return false
}
