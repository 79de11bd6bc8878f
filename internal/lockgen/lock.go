package lockgen

import (
	"fmt"
	"go/token"
	"go/types"
	"math"
	pathpkg "path"
	"regexp"
	"slices"
	"strings"

	"github.com/lockmw/kit/keyfunc"
)

// A lock is what the directive above a method means.
type lock struct {
	id     string   // "shop.Orders.Pay"
	text   string   // the directive without its //lockmw:lock, as it stands in the source
	keys   []string // templates of keyfunc
	values []*resolved
	policy policy
	recv   *types.Var // what {s.Region} begins with
}

// lock finds out what a directive means.
func (b *builder) lock(t *target, f *types.Func, sig *types.Signature) *lock {
	l := &lock{id: b.prefix() + f.Name(), text: t.text}
	s := &scope{pkg: b.types, name: f.Name(), sig: sig, packages: b.importedBy(t.file), cgo: len(b.CgoFiles) > 0}
	switch {
	case t.of != nil:
		l.id = b.prefix() + t.of.Name.Name + "." + f.Name()
	case t.decl.Recv != nil:
		l.id = b.prefix() + receiverName(t.decl.Recv.List[0].Type) + "." + f.Name()
		s.recv = sig.Recv()
		l.recv = s.recv
	}
	b.checkSignature(t, s)
	var issues []issue
	l.policy, issues = t.readOptions()
	b.issues = append(b.issues, issues...)
	b.checkPolicy(l.policy.base)
	for i, w := range t.keys {
		if slices.ContainsFunc(t.keys[:i], func(other word) bool { return other.text == w.text }) {
			b.complainf(w.pos, "the key %s stands here twice", w.text)
			continue
		}
		b.key(l, s, w)
	}
	return l
}

// prefix is what the names of the package's locks begin with. Every program has a
// package main, so those are called after their folder: their locks shall not meet in
// one Redis. The folder of a major version is called like that of others, so the one
// above it counts.
func (b *builder) prefix() string {
	name := b.types.Name()
	if name == "main" {
		above, folder := pathpkg.Split(b.ImportPath)
		if above != "" && majorVersion.MatchString(folder) {
			folder = pathpkg.Base(above)
		}
		name = folder
	}
	return name + "."
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// key adds a key to a lock.
func (b *builder) key(l *lock, s *scope, w word) {
	wrong := func(err *slip) { b.complainf(w.pos+token.Pos(err.at), "%s", err.reason) }
	k, err := parseKey(w.text, s.isPackage)
	if err != nil {
		wrong(err)
		return
	}
	if len(k.holes) == 0 {
		if reason := looksLikeOption(w.text); reason != "" {
			b.complainf(w.pos, "%s", reason)
		} else if len(s.paramNames()) > 0 {
			b.complainf(w.pos, "the key names no value, so all calls of %s would take one lock; write a placeholder such as {%s}, or {method} if that is meant", s.name, s.example())
		}
		l.keys = append(l.keys, w.text)
		return
	}
	names := s.paramNames()
	lists := 0
	for i := range k.holes {
		h := &k.holes[i]
		values, err := b.values(s, h)
		if err != nil {
			wrong(err)
			continue
		}
		for _, v := range values {
			if reason := pointless(h, v); reason != "" {
				wrong(slipAt(h.at, "%s", reason))
			}
			lists += boolInt(v.each)
			if !slices.ContainsFunc(l.values, func(other *resolved) bool { return other.text == v.text }) {
				l.values = append(l.values, v)
			}
		}
		if lists > 1 {
			wrong(slipAt(h.at, "two lists in one key: it would be a key for each pair; write two keys"))
		}
	}
	text, _ := k.template(names)
	l.keys = append(l.keys, text)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// values resolves a placeholder, which is one value, or all parameters. The slip is
// counted from the key's start.
func (b *builder) values(s *scope, h *hole) ([]*resolved, *slip) {
	if h.plain == "" {
		v, err := s.resolve(&h.path)
		if err != nil {
			return nil, &slip{h.at + err.at, err.reason}
		}
		return []*resolved{v}, nil
	}
	for v := range s.sig.Params().Variables() {
		if v.Name() == h.plain {
			return nil, slipAt(h.at, "{%s} is not the parameter %s; call that something else", h.plain, h.plain)
		}
	}
	if h.plain == plainMethod {
		return nil, nil
	}
	if unnamed := s.unnamed(); unnamed != "" {
		return nil, slipAt(h.at, "{params} are all parameters: %s", unnamed)
	}
	names := s.paramNames()
	if len(names) == 0 {
		return nil, slipAt(h.at, "%s has no parameters but the context; write {method} if all calls are to take one lock", s.name)
	}
	var all []*resolved
	for _, name := range names {
		v, err := s.resolve(&path{root: name})
		if err != nil {
			return nil, slipAt(h.at, "{params} are all parameters, of which one is no key; name the parameters one by one: %s", err.reason)
		}
		all = append(all, v)
	}
	return all, nil
}

// params are the names of the parameters without the context.
func (s *scope) paramNames() (names []string) {
	for v := range s.sig.Params().Variables() {
		if !isContext(v.Type()) {
			names = append(names, v.Name())
		}
	}
	return names
}

// example is a parameter for an error to name.
func (s *scope) example() string {
	if names := s.rootNames(); len(names) > 0 {
		return names[0]
	}
	return "id"
}

// pointless says why a filter, or a '?', can do nothing for a value.
func pointless(h *hole, v *resolved) string {
	number := v.conv.call == "Int" || v.conv.call == "Uint"
	always := (number || v.conv.call == "Bool") && !v.conv.deref && !v.mayBeMissing()
	if h.optional && always {
		return fmt.Sprintf("'?' does nothing: %s is never missing, since 0 and false are values", v.text)
	}
	for i, f := range h.filters {
		if !someHaveAKey(v.conv.call, h.filters[:i+1]) {
			return fmt.Sprintf("|%s of %s, whose type is %s: no call would have a key", f, v.text, v.typ)
		}
	}
	return ""
}

// samples are values by the function of funclock that takes them. Where filters refuse these, they refuse
// all values of the type. Texts have none: there, a call may have any.
var samples = map[string][]any{
	"Bool": {false, true},
	"Int":  {0, -1, int64(math.MinInt64), int64(math.MaxInt64)},
	"Uint": {uint64(0), uint64(1), uint64(math.MaxUint64)},
}

// someHaveAKey reports whether filters, one after another, take any value that the function of funclock called call takes.
func someHaveAKey(call string, filters []string) bool {
	key, err := keyfunc.Parse("{value.v|" + strings.Join(filters, "|") + "}")
	if err != nil || samples[call] == nil {
		return true
	}
	return slices.ContainsFunc(samples[call], func(sample any) bool {
		_, err := key(stored{value: sample})
		return err == nil
	})
}

// stored is a request in which each name has one value.
type stored struct {
	keyfunc.Request
	value any
}

func (s stored) Value(string) (any, bool) { return s.value, true }

// mayBeMissing reports whether something on the way to a value may be nil.
func (r *resolved) mayBeMissing() bool {
	if slices.ContainsFunc(r.hops, func(h resolvedHop) bool { return h.guard }) {
		return true
	}
	return slices.ContainsFunc(r.args, (*resolved).mayBeMissing)
}

// receiverIsSafe notes that the receiver which a path begins with is never nil: the
// decorator was not made of a nil, and a field that is no pointer is none either.
func (r *resolved) receiverIsSafe(safe bool) {
	if r.recv && safe && len(r.hops) > 0 {
		r.hops[0].guard = false
	}
	for _, arg := range r.args {
		arg.receiverIsSafe(safe)
	}
}
