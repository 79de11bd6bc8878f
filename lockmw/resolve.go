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

// ErrNotUncertain is the error of Resolve about work that is not uncertain: it has its answer, somebody has resolved it, the time for which
// it was noted is over, or the work under the key is another one.
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
	// Again says that the work was not done. The next call does it.
	Again = Resolution{what: wasUndone}

	// Discard says that nobody is to do the work any more, whether or not it was done, and that it has no answer. Calls get
	// ErrAnswerNotKept, for the Retain of the call that began the work.
	Discard = Resolution{what: isSettled}
)

// Done says that the work was done, and what its answer is. The answer has the type that the function of Do returns, or is a
// json.RawMessage of it. Calls get it, for the Retain of the call that began the work.
func Done(answer any) Resolution { return Resolution{what: wasDone, answer: answer} }

// Resolve says what became of the work called id under key, which includes the prefix. Both are in the *UncertainError. Resolve is for
// operators, and for programs that can look up what was done. Done is for answers that are encoded as JSON. For a Flight with a Codec, say
// Again or Discard.
//
// If the work's own process was only slow, it may still resolve the work itself. Whoever comes first counts. So Resolve changes nothing
// while somebody has the lock. Resolve takes about a second at most, and ends with ctx. ResolveAs also notes who has resolved the work, and
// why.
//
// The error Is
//
//   - ErrNotAcquired, while somebody has the lock;
//   - ErrNotUncertain, if the work is not uncertain, or no longer is;
//   - ErrInvalidPolicy, if r is the zero Resolution, or if its answer cannot be encoded for this work; also on a quorum, which keeps no
//     answers;
//   - ErrInvalidKey or ErrClosed;
//   - ErrUnavailable: it is then not known whether the work was resolved, and Resolve may be called again.
func (l *Locker) Resolve(ctx context.Context, key, id string, r Resolution) error {
	return l.ResolveAs(ctx, key, id, r, Intervention{})
}

// ResolveAs is Resolve on behalf of somebody, and for a reason. Observers (EventResolved) and the log of this Locker are told both. They
// are not kept in Redis. If a text of by is too long or cannot be printed, the error Is ErrInvalidPolicy, and nothing was resolved.
// Otherwise the error is that of Resolve.
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

// String returns "done", "again" or "discard", and "nothing" for the zero Resolution.
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
