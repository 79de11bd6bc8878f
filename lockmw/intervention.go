package lockmw

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/store"
)

// What people do by hand, to locks (ForceRelease) and to work of which nobody knows (Resolve): by whom it was done and why is told to
// the log and the observers of the Locker that does it, and to the holder from whom a lock is taken.

// An Intervention says who does something by hand, and why: for ForceReleaseAs and ResolveAs. Either text may be empty. Both are printable
// UTF-8 in one line: Author has at most 128 bytes, Reason at most 256. They are for operators: they appear in logs and on the page of
// package lockadmin. No client is told.
type Intervention struct {
	Author string // a person or a program, such as ana@bastion
	Reason string // such as the number of an incident
}

// String returns both texts in a few words, such as "by ana@bastion: INC-42", and "" for the zero Intervention.
func (i Intervention) String() string {
	switch {
	case i == Intervention{}:
		return ""
	case i.Reason == "":
		return "by " + i.Author
	case i.Author == "":
		return "because: " + i.Reason
	}
	return "by " + i.Author + ": " + i.Reason
}

// validate returns nil, or what is wrong with a text.
func (i Intervention) validate() error {
	for _, text := range []struct {
		field, value string
		most         int
	}{{"Intervention.Author", i.Author, store.MostOfAuthor}, {"Intervention.Reason", i.Reason, store.MostOfReason}} {
		switch {
		case len(text.value) > text.most:
			return badPolicy(text.field, "%d bytes are more than %d", len(text.value), text.most)
		case !store.IsPrintable(text.value):
			return badPolicy(text.field, "%q has characters that cannot be printed", text.value)
		}
	}
	return nil
}

// attrs are those of a line in the log.
func (i Intervention) attrs() (attrs []any) {
	if i.Author != "" {
		attrs = append(attrs, slog.String("author", i.Author))
	}
	if i.Reason != "" {
		attrs = append(attrs, slog.String("because", i.Reason))
	}
	return attrs
}

// A RevokedError is the cause with which a lease's context ends if the lock was taken by force and its process has heard of that. It is
// also the Err of its EventLost. It Is ErrLost. If the message was lost, or no messages arrive, as on a quorum, the process does not know
// that it was by force: the cause is ErrLost alone.
//
//	if revoked, ok := errors.AsType[*lockmw.RevokedError](context.Cause(ctx)); ok {
//		slog.Warn("export stopped by hand", "by", revoked.Author, "because", revoked.Reason)
//	}
//
// Both texts are empty if the lock was taken by ForceRelease, or by an older version of lockmw or lockctl: these do not know them.
type RevokedError struct{ Intervention }

// Error says that the lock was lost and, as far as that is known, who has taken it and why. It is meant for logs.
func (e *RevokedError) Error() string { return ErrLost.Error() + ": " + e.brief() }

// Unwrap returns ErrLost.
func (e *RevokedError) Unwrap() error { return ErrLost }

// brief says without ErrLost how the lock was lost.
func (e *RevokedError) brief() string {
	return strings.TrimSuffix("released by force "+e.Intervention.String(), " ")
}

// intervened tells of something that was done by hand: what is the line in the log, and attrs stand in it behind the key.
func (l *Locker) intervened(e Event, what string, attrs ...any) {
	l.log.Warn(what, append(append([]any{"key", e.Key}, attrs...), e.Intervention.attrs()...)...)
	l.recent.Happened(recent.Incident{At: time.Now(), Kind: e.Kind.String(), Key: e.Key, Reason: e.said()})
}

// said is what operators read of an intervention.
func (e Event) said() string {
	if e.Resolution == "" {
		return e.Intervention.String()
	}
	return strings.TrimSuffix(fmt.Sprintf("as %s %v", e.Resolution, e.Intervention), " ")
}
