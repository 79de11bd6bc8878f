package lockmw

import "github.com/lockmw/kit/internal/store"

// What a claim may leave in Redis, and who removes it.

// A residue is what the commands of a claim may have left in the store under its token: a
// place in the queue, or the lock.
type residue uint8

const (
	noResidue residue = iota

	// certain: something may lie there, and all commands about the token are answered. What
	// is removed does not come back.
	certain

	// inDoubt: a command was not answered and may still be carried out, so that something
	// may come to lie there later.
	inDoubt
)

// answered is the residue after another command, which was answered. stored says that by
// the answer something lies in the store now.
func (r residue) answered(stored bool) residue {
	switch {
	case r == inDoubt:
		return inDoubt
	case stored:
		return certain
	}
	return noResidue
}

// unanswered is the residue after another command, which ended with fault.
func (r residue) unanswered(fault *store.Error) residue {
	if fault.Ambiguous {
		return inDoubt
	}
	return r
}

// mayHaveLeft reports whether commands of the claim may have left something in the store.
func (c *claim) mayHaveLeft() bool { return c.residue != noResidue }

// remove has the janitor remove a residue that ref may have in the store.
func (l *Locker) remove(ref store.Ref, r residue) {
	if r != noResidue {
		l.janitor.Add(ref, r == certain)
	}
}
