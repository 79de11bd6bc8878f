package rpcdoor

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// The way of a call that is answered once for all who send it. What is kept of an answer is in answer.go.

// A Once is what an interceptor called Idempotent has made of its arguments. Its Door finds the rule of a method and
// makes the keys.
type Once struct {
	*Door
	rules IdempotentRules
}

// once is what a rule of a Once has beside a lock's.
type once struct {
	door  *door.Idempotent
	reply protoreflect.MessageType
	crash lockmw.Crash
}

// NewOnce makes rules ready. It panics about what cannot work.
func NewOnce(o Options, l *lockmw.Locker, rules IdempotentRules) *Once {
	i := &Once{newDoor(o, l), rules}
	if rules == nil {
		i.panicf("the IdempotentRules are nil; no call would be answered once")
	}
	i.covers, i.complete = isUnary, i.completed
	locks := make(Rules, len(rules))
	for name, rule := range rules {
		locks[name] = Rule{Key: rule.Key, Policy: rule.Flight.Policy}
	}
	i.addRules(locks)
	return i
}

func isUnary(m protoreflect.MethodDescriptor) bool {
	return !m.IsStreamingClient() && !m.IsStreamingServer()
}

// completed makes ready what a rule has beside a lock's.
func (i *Once) completed(name string, ready *MethodRule, m protoreflect.MethodDescriptor) error {
	switch {
	case m == nil:
		return errors.New("this program does not know the service, and so not the type in which an answer is given again: " +
			"is it spelled right? Import the package generated of its .proto file")
	case !isUnary(m):
		return errors.New("it is a stream, and streams have no answer that could be kept")
	}
	if !i.everybody {
		if err := door.WhoseKey(ready.asked); err != nil {
			return err
		}
	}
	reply, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		return fmt.Errorf("this program does not know the type %s, in which an answer is given again: import the package generated of its .proto file", m.Output().FullName())
	}
	f := i.flightOf(name)
	answers, err := door.NewIdempotent(i.Locker, f, answerCodec{}, Answer{NotKept: true}, i.optional)
	ready.once = &once{answers, reply, f.Crash}
	return err
}

// flightOf returns the Flight of the rule for a method.
func (i *Once) flightOf(method string) lockmw.Flight {
	rule, own := i.rules[method]
	if !own {
		service, _ := Cut(method)
		rule = i.rules[service+wildcard]
	}
	return rule.Flight
}

// A Made is what the handler of a call has made.
type Made struct {
	Reply any            // unless Err is set
	Err   error          // as the handler has returned it
	As    *status.Status // what Err is to clients

	// What the handler has set, by names in lower case. Values whose name ends in -bin are bytes.
	Header, Trailer map[string][]string
}

// Answer answers a call once for all who send it. If there is an answer already, that is replayed, and run is not called. Otherwise
// run runs the handler, in a context that no client's leaving ends, and the call's answer is what that has made. In both
// cases an error is in the place of the answer: it is a *lockmw.AcquireError, or Is lockmw.ErrLost.
func (i *Once) Answer(c Call, rule *MethodRule, message any, run func(ctx context.Context) Made) (replayed *Replay, err error) {
	if rule.once == nil {
		return nil, door.NoKey(c.Context, i.Locker, rule.Policy, fmt.Errorf(
			"%w: %s is not in the descriptor of its service, so the type of its reply is not known", keyfunc.ErrMisuse, c.Method))
	}
	w := door.Wanted{Route: c.Method}
	w.Keys, _, w.KeyErr = i.keys(c, rule, message)
	if rule.once.door.Runs(w) {
		run(c.Context)
		return nil, nil
	}
	if w.KeyErr == nil {
		w.Fingerprint, w.KeyErr = i.fingerprintOf(c, message)
	}
	var made *Made
	answer, _, err := door.Answered(c.Context, rule.once.door, w, func(ctx context.Context) (Answer, error) {
		own := run(ctx)
		made = &own
		return i.toKeep(ctx, c, rule, own), nil
	})
	if made != nil {
		return nil, i.failed(c, made.Err, err)
	}
	if err == nil {
		replayed, err = answer.replay(rule.once.reply)
	}
	if err != nil && !errors.As(err, new(*lockmw.AcquireError)) {
		err = rule.once.door.Refuse(c.Context, w, err)
	}
	return replayed, err
}

// toKeep returns what is kept of what a handler has made. Of what does not tell whether the work was done, nothing is: it is for the handler's own
// client.
func (i *Once) toKeep(ctx context.Context, c Call, rule *MethodRule, made Made) Answer {
	door.DoubtError(ctx, made.Err)
	if made.Err != nil && door.IsStopped(ctx) { // in the middle
		door.Doubt(ctx)
	}
	switch {
	case door.IsDoubted(ctx):
		return Answer{}
	case !i.keeps(ctx, c.Method, rule, made):
		lockmw.NotAnAnswer(ctx)
		return Answer{}
	}
	return i.answerOf(c, rule, made)
}

// failed returns why a call that has run its handler is not answered with what that has made: the lock was lost. Another error
// is about the keeping alone. own is the handler's.
func (i *Once) failed(c Call, own, err error) error {
	switch {
	case errors.Is(err, lockmw.ErrLost):
		door.Doubt(c.Context)
		return door.WithLoss(own, lockmw.ErrLost)
	case err != nil:
		i.Logger.ErrorContext(c.Context, i.Package+": the answer to a call is not kept", "method", c.Method, "error", err)
	}
	return nil
}

// fingerprintOf returns what a call must have in common with the one whose answer it gets. The error is the call's fault, or
// keyfunc.ErrMisuse.
func (i *Once) fingerprintOf(c Call, message any) ([]byte, error) {
	m, ok := messageOf(message)
	if !ok {
		return nil, fmt.Errorf("%w: the message is a %T and no proto.Message", keyfunc.ErrMisuse, message)
	}
	var text []byte
	var err error
	if i.fingerprint != nil {
		text, err = i.fingerprint(c.Context, c.Method, message)
	} else {
		text, err = proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
	}
	if err != nil {
		return nil, fmt.Errorf("the fingerprint: %w", err)
	}
	return door.NewDigest(c.Method, string(text)).Sum(), nil
}

// The numbers of codes that are told apart when an answer is kept.
const (
	ok                 = 0
	unknown            = 2
	invalidArgument    = 3
	notFound           = 5
	alreadyExists      = 6
	failedPrecondition = 9
	outOfRange         = 11
	unimplemented      = 12
	internal           = 13
	unavailable        = 14
	dataLoss           = 15
)

// keeps reports whether what a handler has made is the answer to all calls.
func (i *Once) keeps(ctx context.Context, method string, rule *MethodRule, made Made) bool {
	if i.keep != nil {
		return i.keep(ctx, method, made.Err)
	}
	if made.Err == nil {
		return true
	}
	switch made.As.GetCode() {
	case invalidArgument, notFound, alreadyExists, failedPrecondition, outOfRange, unimplemented:
		return true // asked again, the handler would say the same
	case canceled, unknown, deadlineExceeded, internal, unavailable, dataLoss:
		return rule.once.crash == lockmw.Uncertain // half of the work may be done
	}
	return false
}

// answerOf returns what is kept of what a handler has made: of a reply that cannot be given again, that there was one.
func (i *Once) answerOf(c Call, rule *MethodRule, made Made) Answer {
	answer, err := keptOf(made, rule.once.reply)
	if err != nil {
		seam.Warn(i.Locker, c.Context, rule.Policy, fmt.Sprintf("an answer of %s cannot be given again: %v", c.Method, err))
		return Answer{NotKept: true}
	}
	return answer
}
