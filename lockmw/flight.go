package lockmw

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/store"
)

// One answer for all who ask for the same: Do. What a call asks for and how its answer is kept is here; how the calls of one process
// come together is in calls.go, and how the lock is given back with the answer in keep.go.

// A Flight says how Do takes its lock, and for whom it keeps the answer.
type Flight struct {
	// Policy is that of the lock under which the function runs. Wait bounds the time until a call runs its function or has another
	// call's answer: let it be longer than the work takes. Without Wait and Retries, a call that finds the function of another
	// call running is refused at once. Do refuses Mode Shared, Permits, MinHold, Reentrant, FailOpen, AsyncRelease and Shadow:
	// several would do the work, or nobody could keep the answer.
	Policy Policy

	// Retain says for how long, at most a year, calls that come later get the answer that this call's function makes. Zero means
	// that only calls that came before the answer was ready get it.
	Retain time.Duration

	// Crash says what the next call does if the process of earlier work has died in the middle of it, or has lost track of it.
	// Zero means RunAgain.
	Crash Crash

	// UncertainFor is for how long Uncertain keeps the next call from doing the work again, counted from when the work begins: from
	// one second to a year, and longer than the Policy's TTL, which is how long a process that has died keeps the lock. Make it longer
	// than the work and the TTL. Zero means seven days. If a live setting raises the TTL, this time is longer by as much.
	UncertainFor time.Duration

	// Fingerprint checks that the key was used for the same request: it is, for example, the body, where a client has chosen the
	// key. A call that finds the answer to another fingerprint, within Retain, gets ErrOtherRequest. So does one that finds work for
	// another fingerprint of which nobody knows whether it was done (Uncertain): only calls with its own fingerprint get ErrUncertain.
	// Redis gets only its SHA-256.
	Fingerprint []byte

	// MaxAnswer is how many bytes an answer may have in its encoded form. Zero means 32 KiB. Answers lie in
	// the memory of the Redis that has the locks.
	MaxAnswer int

	// Codec encodes the answer. Nil means JSON.
	Codec Codec

	// Version names the form of the answer: at most 64 bytes without blanks. A call with another version gets an error and not the
	// answer: see Do.
	Version string
}

// A Crash says what a call of Do does when it finds work that was begun, and nobody knows whether it was done.
type Crash uint8

const (
	// RunAgain: the call does the work again. So the work is done at least once.
	RunAgain Crash = iota
	// Uncertain: the call is refused with an *UncertainError, until Locker.Resolve says what has happened or UncertainFor is over.
	// Until then, and as long as Redis forgets nothing, the work is not begun again.
	Uncertain
)

const (
	defaultUncertainFor = 7 * 24 * time.Hour
	mostRetained        = 365 * 24 * time.Hour
	mostVersion         = 64
)

// A Codec encodes answers, and may encrypt them. It is given the key with the policy's prefix. A Codec that encrypts uses it as
// additional data, so that one answer cannot be put in the place of another. Its methods may be called concurrently.
type Codec interface {
	// Name returns the word, without blanks, by which a kept answer says what it was made with.
	Name() string

	// Encode returns the bytes of an answer.
	Encode(key string, answer any) ([]byte, error)

	// Decode reads an answer from data. answer is a pointer to it.
	Decode(key string, data []byte, answer any) error
}

type jsonCodec struct{}

func (jsonCodec) Name() string { return "json" }

func (jsonCodec) Encode(_ string, answer any) ([]byte, error) { return json.Marshal(answer) }

func (jsonCodec) Decode(_ string, data []byte, answer any) error { return json.Unmarshal(data, answer) }

// Do runs fn under the lock of f.Policy.Prefix+key, and gives its answer to all who ask for the same: to the calls of Do that
// came while fn ran, in any process, and to later calls until f.Retain is over.
//
//	report, shared, err := lockmw.Do(ctx, locks, "2026-11-27", lockmw.Flight{
//		Policy: lockmw.Policy{Prefix: "report:", Wait: 10 * time.Second},
//		Retain: time.Hour,
//	}, func(ctx context.Context) (string, error) { return "all is well", nil })
//
// An error of fn is neither shared nor kept, unlike in x/sync's singleflight. The call that ran fn returns the error, and the
// next call that waits runs its own fn. So return what all shall hear, also a "no", as an answer and not as an error. With
// NotAnAnswer an answer is for its own caller alone.
//
// shared says that the answer is another call's. Such an answer is decoded anew for each call, so that no two have a pointer in
// common. fn runs in the goroutine of its call, with the values of that call's context, but neither its deadline nor its end.
// fn's context ends when the lock is lost, after the policy's MaxHold, and when all calls of this process that wait for the
// answer have left. Do gives the lock back, together with the answer. If fn releases the lease itself (FromContext finds it),
// nothing is kept: with RunAgain another call may run its function meanwhile, and with Uncertain later calls get ErrUncertain.
//
// Calls wait in the lock's queue, in the order in which they came, as with Acquire. The calls of one process for the same key
// and fingerprint stand there once. Policy.Wait bounds the time until a call has an answer, or runs fn. A plain Acquire of the
// same key waits its turn among them, and gets the lock and no answer.
//
// With RunAgain the work runs at least once. It runs twice if its process dies, or loses its lock, before the answer is kept:
// the next call runs fn then. With Uncertain the next call is refused instead. The error
//
//   - is fn's, if fn ran and has failed. With Uncertain that says that nothing was done. It does not say so if the error Is
//     ErrUncertain, ErrLost, ErrMaxHold or context.Canceled, or is a time-out (its Timeout method returns true, as that of
//     context.DeadlineExceeded does), or if fn's context has ended: then the next call is told that nobody knows. A time-out in
//     an *AcquireError, of a lock that fn did not get, does not count. With NotAnAnswer every error but ErrUncertain says that
//     nothing was done, as long as the lock is held;
//   - Is ErrLost, if the lock was lost while fn ran, and nothing was kept. What fn returned is returned, too. With RunAgain
//     somebody else may have done the work;
//   - is the Codec's, if the answer cannot be encoded. fn's answer is returned, too. The calls that wait run fn, or with
//     Uncertain get ErrAnswerNotKept;
//   - Is ErrAnswerTooLarge, if fn's answer has more than MaxAnswer bytes. fn's answer is returned, too. Calls of this process
//     that came meanwhile have it as well. Other calls run fn, or with Uncertain get ErrAnswerNotKept;
//   - is an *AcquireError that Is ErrOtherRequest, if the answer that is kept is to another fingerprint, or if the work of which
//     nobody knows was begun for another one;
//   - is an *AcquireError that Is ErrUncertain, if work for the key and the fingerprint was begun with Uncertain and nobody knows
//     whether it was done. errors.As finds the *UncertainError in it;
//   - is an *AcquireError that Is ErrAnswerNotKept, if the work was done, or discarded by Resolve, and there is no answer to
//     give;
//   - is an error of another kind, if the answer that is kept cannot be decoded, or has another Version or Codec;
//   - is Acquire's otherwise, and fn did not run.
//
// Where this process sees that nobody knows whether work was done, its log has a line about that, at the level of errors and also
// without WithLogger: with the key, the work's id for Resolve, and why.
//
// If Redis does not confirm within a second that it has the answer, the call returns the answer all the same, with a nil error.
// In the background, the lock is kept and the answer is sent again.
func Do[T any](ctx context.Context, l *Locker, key string, f Flight, fn func(context.Context) (T, error)) (answer T, shared bool, err error) {
	if err := l.ValidateFlight(f); err != nil {
		return answer, false, l.Refuse(ctx, f.Policy, err)
	}
	c := newCall(ctx, l, key, f)
	codec := f.codec()
	own, data, err := c.do(func(ctx context.Context) ([]byte, error) {
		var err error
		if answer, err = fn(ctx); err != nil || c.remarks.have(noneForOthers) {
			return nil, err
		}
		data, err := codec.Encode(c.name(), answer)
		if err != nil {
			c.unencoded = true
			return nil, fmt.Errorf("lockmw: the answer of %q cannot be kept: %w", c.name(), err)
		}
		return data, nil
	})
	if own || err != nil {
		return answer, false, err
	}
	if err := f.decode(c.name(), data, &answer); err != nil {
		var none T
		return none, true, err
	}
	return answer, true, nil
}

// The errors of Do beside those of Acquire and ErrLost.
var (
	// ErrOtherRequest: the answer that is kept for the key is to another Flight.Fingerprint, or the work for the key of which nobody
	// knows whether it was done was begun for another one.
	ErrOtherRequest = errors.New("lockmw: the answer that is kept is to another request")

	// ErrUncertain: work for the key was begun, and nobody knows whether it was done, because its process has died or has lost
	// track of it. Do's error has an *UncertainError in it. A function of Do that does not know whether its work was done returns
	// an error that Is ErrUncertain.
	ErrUncertain = errors.New("lockmw: it is not known whether the work was done")

	// ErrAnswerNotKept: the work for the key was done, or discarded by Resolve, and there is no answer to give.
	ErrAnswerNotKept = errors.New("lockmw: the work was done, and its answer was not kept")

	// ErrAnswerTooLarge: the answer has more bytes than Flight.MaxAnswer, and is not kept.
	ErrAnswerTooLarge = errors.New("lockmw: answer is too large to be kept")
)

// An UncertainError says which work was begun, has no answer, and has nobody at it any more.
type UncertainError struct {
	Key   string    // with the policy's prefix
	ID    string    // of the work, for Locker.Resolve
	Since time.Time // when it was begun, by Redis's clock
}

// Error names the key, so do not send it to clients.
func (e *UncertainError) Error() string {
	return fmt.Sprintf("%v: %q, work %s, which was begun at %s", ErrUncertain, e.Key, e.ID, e.Since.UTC().Format(time.RFC3339))
}

// Unwrap returns ErrUncertain.
func (e *UncertainError) Unwrap() error { return ErrUncertain }

// ValidateFlight returns nil if Do takes f on this Locker. Otherwise the error Is ErrInvalidPolicy, and says what Do refuses.
// The middlewares and interceptors called Idempotent call it, so that such a mistake shows at the start.
func (l *Locker) ValidateFlight(f Flight) error {
	if err := l.Validate(f.Policy); err != nil {
		return err
	}
	switch p := f.Policy; {
	case p.Mode == Shared:
		return badPolicy("Mode", "Do with Shared: several would do the work at the same time; leave out Mode")
	case p.Permits != 0:
		return badPolicy("Permits", "Do with Permits: several would do the work at the same time; leave out Permits")
	case p.MinHold != 0:
		return badPolicy("MinHold", "Do gives the answer to those who come later: say for how long with Retain")
	case p.Shadow:
		return badPolicy("Shadow", "Do in shadow would do the work once for each who asks, and have no answer for others: leave out Shadow")
	case p.Reentrant:
		return badPolicy("Reentrant", "Do within the work of the same key has no answer yet: leave out Reentrant")
	case p.FailOpen:
		return badPolicy("FailOpen", "Do without its lock would do the work twice: test for ErrUnavailable, and do without Do")
	case p.AsyncRelease:
		return badPolicy("AsyncRelease", "Do gives its lock back with the answer, and waits for both: leave out AsyncRelease")
	}
	switch {
	case l.quorum:
		return badPolicy("Flight", "a quorum keeps no answers: use a Locker of New")
	case f.Retain < 0, f.Retain > mostRetained:
		return badPolicy("Retain", "%v is not between 0 and %v", f.Retain, mostRetained)
	case f.Retain > 0 && f.Retain < time.Millisecond:
		return badPolicy("Retain", "%v is less than a millisecond; is the unit missing?", f.Retain)
	case f.Crash > Uncertain:
		return badPolicy("Crash", "%d is neither RunAgain nor Uncertain", f.Crash)
	case f.Crash == Uncertain && f.Retain == 0:
		return badPolicy("Retain", "Uncertain with Retain 0: calls that come after the work would do it again; say for how long the answer is kept")
	case f.UncertainFor < 0, f.UncertainFor > mostRetained:
		return badPolicy("UncertainFor", "%v is not between 0 and %v", f.UncertainFor, mostRetained)
	case f.UncertainFor > 0 && f.UncertainFor < time.Second:
		return badPolicy("UncertainFor", "%v is less than a second; is the unit missing?", f.UncertainFor)
	case f.Crash == Uncertain && f.UncertainFor > 0 && f.UncertainFor <= f.Policy.withDefaults().TTL:
		return badPolicy("UncertainFor", "%v is not longer than the TTL: it is over before a process that has died has lost its lock; it counts from when the work begins", f.UncertainFor)
	case f.MaxAnswer < 0:
		return badPolicy("MaxAnswer", "%d is less than 0", f.MaxAnswer)
	case len(f.Version) > mostVersion, strings.ContainsAny(f.Version, " \n"):
		return badPolicy("Version", "%q has blanks or more than %d bytes", f.Version, mostVersion)
	case strings.ContainsAny(f.codec().Name(), " \n"):
		return badPolicy("Codec", "its name %q has blanks", f.codec().Name())
	}
	return nil
}

func (f Flight) codec() Codec {
	if f.Codec == nil {
		return jsonCodec{}
	}
	return f.Codec
}

func (f Flight) maxAnswer() int {
	if f.MaxAnswer == 0 {
		return seam.DefaultMaxAnswer
	}
	return f.MaxAnswer
}

// fingerprint is what Redis gets of the fingerprint: a word.
func (f Flight) fingerprint() string {
	sum := sha256.Sum256(f.Fingerprint)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// The data of a record are a line that says how to read it (its form, the codec and the answer's version), and the answer; or they are notKept.
const (
	form    = "1"
	notKept = "-"
)

func (f Flight) head() string { return form + " " + f.codec().Name() + " " + f.Version }

func (f Flight) record(fingerprint string, answer []byte) *store.Record {
	return &store.Record{Fingerprint: fingerprint, Data: f.head() + "\n" + string(answer), Retain: f.Retain}
}

// bareFact is the record of work that was done and has no answer that could be kept.
func (f Flight) bareFact(fingerprint string) *store.Record {
	return &store.Record{Fingerprint: fingerprint, Data: notKept, Retain: f.Retain}
}

// intent says that the work with that id begins.
func (f Flight) intent(work int64) *store.Intent {
	return &store.Intent{Work: work, Lies: f.uncertainFor(), Retain: f.Retain, Form: f.head()}
}

// uncertainFor is for how long the intent of work lies there that nobody has ended.
func (f Flight) uncertainFor() time.Duration { return cmp.Or(f.UncertainFor, defaultUncertainFor) }

// decode reads the answer from the data of a record.
func (f Flight) decode(key string, data string, answer any) error {
	head, rest, ok := strings.Cut(data, "\n")
	words := strings.SplitN(head, " ", 3)
	switch {
	case !ok || len(words) != 3 || words[0] != form:
		return fmt.Errorf("lockmw: the answer that is kept for %q is not in a form that this version of lockmw knows", key)
	case words[1] != f.codec().Name():
		return fmt.Errorf("lockmw: the answer that is kept for %q is encoded by %q, and this call decodes by %q", key, words[1], f.codec().Name())
	case words[2] != f.Version:
		return fmt.Errorf("lockmw: the answer that is kept for %q has the version %q, and this call wants %q", key, words[2], f.Version)
	}
	if err := f.codec().Decode(key, []byte(rest), answer); err != nil {
		return fmt.Errorf("lockmw: the answer that is kept for %q cannot be read: %w", key, err)
	}
	return nil
}
