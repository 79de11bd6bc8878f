package lockmw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// How somebody who has looked says what became of work that was begun, and of which nobody knew more.

// ErrNotUncertain is the error of Resolve about work that is not uncertain: it has its answer, or somebody has resolved it, or the
// time for which it was noted is over, or it is other work.
var ErrNotUncertain = errors.New("lockmw: no such work is uncertain")

// A Resolution is what Resolve is told: Done, Again or Discard.
type Resolution struct {
	what   resolution
	answer any
}

type resolution uint8

const (
	wasUndone resolution = iota + 1
	isSettled
	wasDone
)

// The resolutions that need no answer.
var (
	// Again says that the work was not done: the next call does it.
	Again = Resolution{what: wasUndone}

	// Discard says that nobody is to do the work any more, whether or not it was done, and that there is no answer to it: calls get
	// ErrAnswerNotKept, for the Retain of the call that began it.
	Discard = Resolution{what: isSettled}
)

// Done says that the work was done, and what its answer is: of the type that the function of Do returns, or a json.RawMessage of it. Calls get
// it, for the Retain of the call that began the work.
func Done(answer any) Resolution { return Resolution{what: wasDone, answer: answer} }

// Resolve says what became of the work called id under key, the prefix included: both are in the *UncertainError. It is for operators, and for programs
// that can look up what was done. Done is for answers that are encoded as JSON; to a Flight with a Codec say Again or Discard.
//
// The work may yet be resolved by its own process, if that was only slow: whoever comes first counts. So Resolve changes nothing while
// somebody has the lock, and the error Is ErrNotAcquired then. It Is ErrNotUncertain if that is not what the work is (any more), ErrInvalidPolicy
// for an answer that cannot be encoded for it, and otherwise ErrInvalidKey, ErrClosed or ErrUnavailable: then it is not known
// whether Redis has heard of it, and Resolve may be called again. It takes about a second at most, and ends with ctx.
//
// ResolveAs notes as well who has resolved the work, and why.
func (l *Locker) Resolve(ctx context.Context, key, id string, r Resolution) error {
	return l.ResolveAs(ctx, key, id, r, Intervention{})
}

// ResolveAs is Resolve by somebody, and for a reason. Both are told to observers (EventResolved) and the log of this Locker. They
// are not kept in Redis. The error Is ErrInvalidPolicy, and nothing was resolved, where a text of by is too long or cannot be
// printed; otherwise it is that of Resolve.
func (l *Locker) ResolveAs(ctx context.Context, key, id string, r Resolution, by Intervention) error {
	if err := by.validate(); err != nil {
		return fmt.Errorf("lockmw: resolve %q: %w", key, err)
	}
	work, err := strconv.ParseInt(id, 10, 64)
	if err != nil || work <= 0 {
		return fmt.Errorf("lockmw: resolve %q: %w: there is no work %q", key, ErrNotUncertain, id)
	}
	if l.quorum {
		return badPolicy("Resolve", "a quorum keeps no answers")
	}
	var did store.Resolved
	var wrong error
	err = l.operate(ctx, "resolve", key, func(ctx context.Context) error {
		a, err := l.store.Recall(ctx, store.Request{Ref: store.Ref{Key: key}, Until: time.Now().Add(opTimeout), Recall: &store.Recall{Fingerprint: "-"}})
		if err != nil || a.Recalled == nil || a.Recalled.Work != work {
			return err
		}
		var record store.Record
		if record, wrong = r.record(a.Recalled); wrong == nil {
			did, err = l.store.Resolve(ctx, key, record)
		}
		return err
	})
	switch {
	case wrong != nil:
		return wrong
	case err != nil:
		return err
	case did == store.NoSuchWork:
		return fmt.Errorf("lockmw: resolve %q: %w", key, ErrNotUncertain)
	case did == store.StillHeld:
		return fmt.Errorf("lockmw: resolve %q: %w: somebody has the lock, and may be at work", key, ErrNotAcquired)
	}
	e := Event{Kind: EventResolved, Key: key, Resolution: r.String(), Intervention: by}
	l.intervened(e, "lockmw: work was resolved by hand", "work", id, "as", r.String())
	l.tell(ctx, e)
	return nil
}

// String returns "done", "again" or "discard".
func (r Resolution) String() string {
	switch r.what {
	case wasDone:
		return "done"
	case wasUndone:
		return "again"
	case isSettled:
		return "discard"
	}
	return "nothing"
}

// record is the record that takes the place of an intent.
func (r Resolution) record(intent *store.Recalled) (store.Record, error) {
	record := store.Record{Fingerprint: intent.Fingerprint, Retain: intent.Retain, Work: intent.Work}
	switch r.what {
	case wasUndone:
		record.Undone = true
	case isSettled:
		record.Data = notKept
	case wasDone:
		if words := strings.SplitN(intent.Data, " ", 3); len(words) != 3 || words[0] != form || words[1] != (jsonCodec{}).Name() {
			return record, badPolicy("Done", "the answer of this work is not encoded as JSON: say Again or Discard")
		}
		data, err := json.Marshal(r.answer)
		if err != nil {
			return record, badPolicy("Done", "the answer cannot be encoded: %v", err)
		}
		record.Data = intent.Data + "\n" + string(data)
	default:
		return record, badPolicy("Resolution", "it is empty: say Done, Again or Discard")
	}
	return record, nil
}
