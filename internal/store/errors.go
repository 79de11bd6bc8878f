package store

import "errors"

// An Error says why the store has not carried out a command.
type Error struct {
	Err error

	// Ambiguous: the command may have been carried out, or still may be.
	Ambiguous bool

	// Pending: ctx ended first. The command goes on, and Request.Late gets
	// its outcome.
	Pending bool

	// Permanent: asking again will not help (wrong type, no permission).
	Permanent bool

	// Foreign: data of another program lies where the lock's would.
	Foreign bool

	// Stale: the connection broke, as one does that the server had closed
	// before, or it hangs. Asking again at once, on another connection, may well help.
	Stale bool

	// Evidence is what the error tells about the store itself.
	Evidence Evidence

	// Ballot is how the nodes of a quorum answered, or nil.
	Ballot *Ballot
}

// Evidence is what a command without a usable answer tells about the store:
// whether it can be reached at all. Work that may run without its lock while
// the store is away may do so for [Unreachable] and for [Silent], and for nothing else.
type Evidence uint8

const (
	// Unclear: the error says nothing about the store. The caller left, the
	// connection broke after the command was sent, or something between the
	// caller and the store is set up wrongly.
	Unclear Evidence = iota
	// Unreachable: the store cannot be reached, and that is certain. Nobody listens at
	// its address, there is no way there, or a server says that it cannot serve
	// yet (LOADING, CLUSTERDOWN).
	Unreachable
	// Silent: the command was sent, or was to be sent, and nothing came back
	// within its time. Who else got an answer meanwhile knows more.
	Silent
	// Answered: the store is there. It refused the command, or what it did is
	// not enough.
	Answered
)

// Error returns the cause's text.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// AsError returns err as an *Error. Anything else counts as ambiguous: it is
// safe to clean up once too often.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Err: err, Ambiguous: true}
}
