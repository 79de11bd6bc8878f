package door

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// The way of a request that is answered once for all who send it, which the doors called Idempotent share: from what a key
// function has returned to an answer, its own or another's.

// An Idempotent is what a door called Idempotent is made of.
type Idempotent struct {
	locker   *lockmw.Locker
	flight   lockmw.Flight
	most     int // how many bytes of an answer are kept
	fact     any // see NewIdempotent
	optional bool
}

// keysOfAnswers is the prefix of keys where the policy has none.
const keysOfAnswers = "idempotent:"

// NewIdempotent returns one. Answers are encoded by own where f has no Codec; fact is the one of which nothing is kept but that there was one. With optional a request without a key runs as if
// the door were not there. The error is a mistake of the program.
func NewIdempotent(l *lockmw.Locker, f lockmw.Flight, own lockmw.Codec, fact any, optional bool) (*Idempotent, error) {
	if err := l.ValidateFlight(f); err != nil {
		return nil, err
	}
	if f.Fingerprint != nil {
		return nil, errors.New("Flight.Fingerprint: each request has its own; see WithFingerprint")
	}
	if f.Retain == 0 { // a client that asks again comes later
		return nil, fmt.Errorf("%w: Retain is zero: say for how long a client that sends its request again gets the same answer", lockmw.ErrInvalidPolicy)
	}
	i := &Idempotent{locker: l, flight: f, most: cmp.Or(f.MaxAnswer, seam.DefaultMaxAnswer), fact: fact, optional: optional}
	i.flight.MaxAnswer = max(i.most, roomForFact)
	if f.Codec == nil {
		i.flight.Codec = own
	}
	return i, nil
}

// Most is how many bytes of an answer are kept, encoded.
func (i *Idempotent) Most() int { return i.most }

// WhoseKey returns the mistake of a key function that read one header or one field of the body, and nothing else of a
// Sample: any client that guesses or overhears the key gets the answer.
func WhoseKey(asked *Sample) error {
	called, template, alone := asked.alone()
	if !alone {
		return nil
	}
	return fmt.Errorf("whose key? It is made of the %s alone, so whoever sends the same gets the same answer: "+
		"put the user or the tenant in front, as in {value.user}:{%s}, or say WithKeysOfEverybody()", called, template)
}

// A Wanted is what a request asks for.
type Wanted struct {
	Keys        keyfunc.Keys
	KeyErr      error  // of the key function
	Route       string // the method and the pattern, which metrics show: a key is used for one route
	Path        string // what the pattern does not have of the path: a part of the key as well, and no name for metrics
	Fingerprint []byte // of the request: see lockmw.Flight
}

// Runs reports whether the request goes on as if the door were not there: the key function says so, or it has no key
// and needs none.
func (i *Idempotent) Runs(w Wanted) bool {
	return errors.Is(w.KeyErr, keyfunc.Skip) || i.optional && lacksKey(w.KeyErr)
}

// lacksKey reports whether err says that the client has not sent a part of the key. A value of earlier middleware or a parameter
// of the route that is missing is no fault of its.
func lacksKey(err error) bool {
	if !errors.Is(err, keyfunc.ErrMissing) || errors.Is(err, keyfunc.ErrMisuse) {
		return false
	}
	value, named := errors.AsType[*keyfunc.ValueError](err)
	return !named || value.Source != "value" && value.Source != "param"
}

// Answered returns the answer to a request: that of work, which runs for this one, or with shared another's. The error is
// that of lockmw.Do, or the refusal of a request without a key. A refusal is no answer for a middleware around this one to keep. Where work
// has run, an error that is not lockmw.ErrLost says why no more is kept of its answer, which is right all the same, than the bare fact, if that.
//
// ctx is the request's. Its end ends the wait. Once work runs that goes on: work's context has the values of ctx, and ends when
// the lock is lost, or by MaxHold.
func Answered[A any](ctx context.Context, i *Idempotent, w Wanted, work func(ctx context.Context) (A, error)) (answer A, shared bool, err error) {
	f := i.flightOf(w)
	i.checkPlace(ctx, f.Policy, w.Route)
	switch {
	case lacksKey(w.KeyErr):
		return answer, false, refused(ctx, i.locker.Refuse(ctx, f.Policy, fmt.Errorf("%w: %w", seam.ErrNoIdempotencyKey, w.KeyErr)))
	case w.KeyErr != nil:
		return answer, false, refused(ctx, NoKey(ctx, i.locker, f.Policy, w.KeyErr))
	}
	waits, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	defer stop()
	ran, codec := false, &boundCodec{Codec: f.Codec, most: i.most, fact: i.fact}
	f.Codec = codec
	answer, shared, err = lockmw.Do(waits, i.locker, w.key(), f, func(inner context.Context) (A, error) {
		if !stop() { // the client has left in this moment, and nothing was done
			lockmw.NotAnAnswer(inner)
			var none A
			return none, fmt.Errorf("%w: %w", lockmw.ErrNotAcquired, context.Cause(ctx))
		}
		ran = true
		return work(inner)
	})
	switch {
	case ran && err == nil:
		return answer, shared, codec.refused
	case ran || err == nil:
		return answer, shared, err
	}
	if _, told := errors.AsType[*lockmw.AcquireError](err); !told { // there is an answer, and it cannot be read
		err = i.locker.Refuse(ctx, f.Policy, err)
	}
	return answer, shared, refused(ctx, err)
}

// checkPlace has the log say, once for each route, that a lock stands in front. The request is answered all the same, but the one that comes while it is at
// work meets that lock first.
func (i *Idempotent) checkPlace(ctx context.Context, p lockmw.Policy, route string) {
	if seam.DoorInFront(ctx) {
		seam.Warn(i.locker, ctx, p, fmt.Sprintf("a lock stands in front of Idempotent, on %q: who sends a request again while the first one is at work "+
			"is refused by that lock, or waits for it, in place of getting the answer; put the lock behind Idempotent", route))
	}
}

// Refuse returns the refusal of a request whose answer is there and cannot be given, because of err, as lockmw.Locker.Refuse does.
func (i *Idempotent) Refuse(ctx context.Context, w Wanted, err error) error {
	return refused(ctx, i.locker.Refuse(ctx, i.flightOf(w).Policy, err))
}

// Unknown returns the refusal of a request whose own work has ended, if nobody knows whether that was done, and nil otherwise. ctx is the request's
// context, and inner the work's. errors.As finds the *lockmw.UncertainError in it.
func (i *Idempotent) Unknown(ctx, inner context.Context, w Wanted) error {
	unknown := seam.CallOf(inner).Unknown()
	if unknown == nil {
		return nil
	}
	Doubt(ctx) // whoever has begun work is no witness that nothing was done
	return i.locker.Refuse(ctx, i.flightOf(w).Policy, unknown)
}

// flightOf returns the flight of a request.
func (i *Idempotent) flightOf(w Wanted) lockmw.Flight {
	f := i.flight
	f.Fingerprint = w.Fingerprint
	if f.Policy.Prefix == "" {
		f.Policy.Prefix = keysOfAnswers
		if f.Policy.Name == "" {
			f.Policy.Name = strings.ToValidUTF8(w.Route[:min(len(w.Route), longestName)], "")
		}
	}
	return f
}

// longestName is how long the name of a policy may be.
const longestName = 256

// key is the key of the route and of what the key function has named. Redis has its hash: who knows the key of an
// answer may ask for it.
func (w Wanted) key() string {
	all := NewDigest(append([]string{w.Route, w.Path}, w.Keys.List()...)...)
	return base64.RawURLEncoding.EncodeToString(all.Sum())
}
