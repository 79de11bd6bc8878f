package lockgen

import (
	"go/token"
	"go/types"
)

// checkSignature complains of a method that cannot run under a lock.
func (b *builder) checkSignature(t *target, s *scope) {
	pos := t.name.Pos()
	for _, tuple := range []*types.Tuple{s.sig.Params(), s.sig.Results()} {
		for v := range tuple.Variables() {
			if broken(v.Type()) {
				b.complainf(pos, "the signature of %s is not known: %s", s.name, b.firstError(v.Pos()))
				return
			}
		}
	}
	if contextOf(s.sig) < 0 {
		b.complainf(pos, "%s has no context.Context: the work could not be told that its lock is lost; make it the first parameter", s.name)
	}
	results := s.sig.Results()
	if results.Len() == 0 || !isError(results.At(results.Len()-1).Type()) {
		b.complainf(pos, "%s has no error as its last result: a call that gets no lock could not say so", s.name)
	}
	for v := range results.Variables() {
		if reason := outlives(v.Type(), b.types); reason != "" {
			b.complainf(pos, "a result of %s outlives the lock: %s", s.name, reason)
		}
	}
}

// contextOf returns which parameter is the context, or -1.
func contextOf(sig *types.Signature) int {
	for i := range sig.Params().Len() {
		if isContext(sig.Params().At(i).Type()) {
			return i
		}
	}
	return -1
}

// firstError is what the type checker says about the line of a position, or at all.
func (b *builder) firstError(pos token.Pos) string {
	at := b.fset.Position(pos)
	for _, e := range b.typeErrors {
		if p := b.fset.Position(e.Pos); p.Filename == at.Filename && p.Line == at.Line {
			return e.Msg
		}
	}
	if len(b.typeErrors) > 0 {
		return b.typeErrors[0].Msg
	}
	return "go vet says why"
}
