package grpclock

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/lockmw"
)

// IdempotentRules say which methods answer a call once, by full method ("/shop.v1.Orders/Pay") or for all unary methods
// of a service ("/shop.v1.Orders/*"). Where both name a method, the rule of the full method counts. So you can take one
// method out of "*": give it a rule whose Key returns keyfunc.Skip. A stream has no answer that could be kept: "*"
// leaves the streams of a service out, and a rule that names a stream is a mistake. A method without a rule runs for
// each call.
//
// The interceptor copies the IdempotentRules; later changes have no effect. They are the same type as
// connectlock.IdempotentRules.
type IdempotentRules = rpcdoor.IdempotentRules

// An IdempotentRule says which calls are the same, and how their answer is kept. It is a struct with two fields:
//
//	type IdempotentRule struct {
//		// Key derives from a call what stays the same when a client sends the call again, and is different for
//		// everybody else. It must not be nil.
//		Key keyfunc.Func
//
//		// Flight is how the answer is kept. It has no Fingerprint: see WithFingerprint.
//		Flight lockmw.Flight
//	}
//
// The method is always part of the key: a key that is used for two methods is two keys. Redis has only a hash of the
// key.
//
// Flight.Policy.Wait is for how long a call waits for the answer to an earlier one. Without Wait and Retries, a call is
// refused at once while the earlier one is at work. Flight.Retain is for how long an answer is given again. It must not
// be zero.
//
// A Codec is given the struct that is kept, with its exported fields. encoding/json can encode that struct. An answer
// of more than MaxAnswer bytes is not kept, and the call is not run again: see Idempotent.
type IdempotentRule = rpcdoor.IdempotentRule

// Idempotent returns an interceptor that answers a unary call once for all who send it: normally, a double click pays
// once, and both clicks get the reply.
//
//	grpclock.Idempotent(locks, grpclock.IdempotentRules{"/shop.v1.Orders/Pay": {
//		Key:    keyfunc.MustParse("{value.user}:{body.request_id}"), // AIP-155; or {header.idempotency-key|idempotency}
//		Flight: lockmw.Flight{Policy: lockmw.Policy{Wait: 5 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain},
//	}}, grpclock.WithValues(func(ctx context.Context, name string) (any, bool) {
//		user, ok := auth.FromContext(ctx)
//		return user.ID, ok && name == "user"
//	}))
//
// The interceptor goes behind authentication and limits, and in front of UnaryServerInterceptor. If a lock stands in
// front of it, the Locker's log says so, once for each method. The first call with a
// key runs the handler, as lockmw.Do does. Calls that come while it runs wait for its answer. Calls that come later get
// the answer until Retain is over. So the answer may be another process's. It is the same reply, or the same status
// with its details, and the header and trailers that the handler has set. The header also says "idempotent-replayed:
// true". What interceptors in front of this one have set is not part of the answer. Neither are set-cookie, date and
// the names of the protocol.
//
// The handler's context has the values of the call's context, but neither its deadline nor its end: a client that
// leaves finds the answer when it asks again. The handler's context ends when the lock is lost, and after the policy's
// MaxHold.
//
// A reply is kept. So is a status that would be the same if the client asked again: InvalidArgument, NotFound,
// AlreadyExists, FailedPrecondition, OutOfRange and Unimplemented. With lockmw.Uncertain these are kept, too, because
// half of the work may be done: Unknown, Internal, DataLoss, Unavailable, DeadlineExceeded and Canceled. With WithKeep
// you decide otherwise.
//
// A result that is not kept is for its own call alone, and the next call runs the handler. The refusal of a lock inside
// this interceptor is never kept, whatever an error handler makes of it. Neither is a result for which
// lockmw.NotAnAnswer was called. Call it where the handler takes a lock itself and does not get it, if nothing was done
// before: with lockmw.Uncertain, the error is kept otherwise.
//
// Nobody knows what was done after a panic, if a lock inside this interceptor was lost, if the handler fails after it
// was told to stop, and if its error Is lockmw.ErrLost, lockmw.ErrMaxHold or lockmw.ErrUncertain. Then nothing is kept,
// and the next call runs the handler or, with lockmw.Uncertain, is refused with IDEMPOTENCY_UNCERTAIN.
//
// Calls are the same if they have the same key and the same request message: see WithFingerprint. A call that gets no
// answer has a status like that of a lock. The reason is one of these, or one of a lock's:
//
//	InvalidArgument     the call has no key                                      IDEMPOTENCY_KEY_MISSING
//	InvalidArgument     the key was used for another request                     IDEMPOTENCY_KEY_REUSED
//	Aborted             the first call is still at work                          IDEMPOTENCY_IN_PROGRESS
//	DeadlineExceeded    it was at work until this call's deadline                IDEMPOTENCY_IN_PROGRESS
//	FailedPrecondition  it is not known whether the first one took effect        IDEMPOTENCY_UNCERTAIN
//	AlreadyExists       the first one was processed, and its answer not kept     IDEMPOTENCY_ANSWER_NOT_KEPT
//
// Idempotent panics if l, rules or an option is nil, and if a rule cannot work:
//
//   - UnaryServerInterceptor would panic because of it;
//   - its Flight is invalid (lockmw.Locker.ValidateFlight), its Retain is zero, or it has a Fingerprint;
//   - it names a stream;
//   - this program does not know the service, or the type of a reply;
//   - its key is made of one header or one field alone, and there is no WithKeysOfEverybody to say that this is meant.
func Idempotent(l *lockmw.Locker, rules IdempotentRules, opts ...Option) grpc.UnaryServerInterceptor {
	once := rpcdoor.NewOnce(rpcdoor.NewOptions(words(rpcdoor.Idempotent), opts), l, rules)
	return (&idempotent{interceptor{Door: once.Door}, once}).unary
}

// An idempotent is what Idempotent has made of its arguments. Its interceptor refuses.
type idempotent struct {
	interceptor
	once *rpcdoor.Once
}

func (i *idempotent) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (reply any, err error) {
	rule := i.Find(ctx, info.FullMethod)
	if rule == nil {
		return handler(ctx, req)
	}
	var held *heldMetadata
	dropped := false
	defer func() { held.end(dropped) }() // also if the handler panics
	replayed, refused := i.once.Answer(rpcdoor.Call{Context: ctx, Method: info.FullMethod, Headers: incoming{}}, rule, req, func(ctx context.Context) rpcdoor.Made {
		ctx, held = holdMetadata(ctx)
		reply, err = handler(ctx, req)
		header, trailer := held.made()
		return rpcdoor.Made{Reply: reply, Err: err, As: sentAs(err).Proto(), Header: header, Trailer: trailer}
	})
	switch {
	case refused != nil:
		dropped = true
		return nil, i.refuseUnary(ctx, info.FullMethod, refused)
	case replayed == nil: // the handler has run
		return reply, err
	}
	_ = grpc.SetHeader(ctx, metadata.MD(replayed.Header)) // they fail outside of a server, where nobody reads them
	_ = grpc.SetTrailer(ctx, metadata.MD(replayed.Trailer))
	if replayed.Status != nil {
		return nil, status.FromProto(replayed.Status).Err()
	}
	return replayed.Reply, nil
}

// sentAs returns the status that clients get of a handler's error, as grpc makes it.
func sentAs(err error) *status.Status {
	if s, ok := status.FromError(err); ok {
		return s
	}
	return status.FromContextError(err)
}
