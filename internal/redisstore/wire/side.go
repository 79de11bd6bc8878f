package wire

// A side is one direction of a connection: the writing, or the reading. One goroutine at
// a time has it. The pool's mutex guards it; take and giveUp alone change who has it.
type side struct {
	by      by
	call    *Call // the call of the caller who has it; nil: no caller has
	leaving int   // ticks for which that caller has wanted to leave and could not, since its I/O has not returned
}

// A by says who has a side.
type by uint8

const (
	nobody by = iota // whoever needs it takes it
	caller           // the owner of a call, who leaves when that is over
	itself           // a goroutine of the connection's own
)

// take gives the side to the owner of c, or without c to a goroutine of the connection's
// own. Nobody else may have it.
func (s *side) take(c *Call) {
	s.by, s.call = caller, c
	if c == nil {
		s.by = itself
	}
}

// giveUp leaves the side to whoever comes next.
func (s *side) giveUp() { *s = side{} }

// free reports whether nobody has the side.
func (s *side) free() bool { return s.by == nobody }
