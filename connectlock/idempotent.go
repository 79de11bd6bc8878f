package connectlock

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/lockmw"
)

// IdempotentRules say which procedures answer a call once, by procedure ("/shop.v1.Orders/Pay") or for all unary
// procedures of a service ("/shop.v1.Orders/*"). They are a map[string]IdempotentRule, and the same type as
// grpclock.IdempotentRules, whose comment says more.
type IdempotentRules = rpcdoor.IdempotentRules

// An IdempotentRule says which calls are the same, and how their answer is kept: see grpclock.IdempotentRule. It is a
// struct with two fields:
//
//	type IdempotentRule struct {
//		// Key derives from a call what stays the same when a client sends the call again, and is different for
//		// everybody else. It must not be nil.
//		Key keyfunc.Func
//
//		// Flight is how the answer is kept. It has no Fingerprint: see WithFingerprint.
//		Flight lockmw.Flight
//	}
type IdempotentRule = rpcdoor.IdempotentRule

// Idempotent returns an interceptor that answers a unary call once for all who send it: normally, a double click pays
// once, and both clicks get the reply. In handlers it does what grpclock.Idempotent does, with the same codes. It also
// gives the answers that grpclock.Idempotent has kept for the same procedure, in whatever protocol a call comes. In
// clients and for streams it does nothing.
//
//	connectlock.Idempotent(locks, connectlock.IdempotentRules{"/shop.v1.Orders/Pay": {
//		Key:    keyfunc.MustParse("{value.user}:{body.request_id}"), // AIP-155; or {header.idempotency-key|idempotency}
//		Flight: lockmw.Flight{Policy: lockmw.Policy{Wait: 5 * time.Second}, Retain: 24 * time.Hour, Crash: lockmw.Uncertain},
//	}}, connectlock.WithValues(func(ctx context.Context, name string) (any, bool) {
//		user, ok := auth.FromContext(ctx)
//		return user.ID, ok && name == "user"
//	}))
//
// The interceptor goes behind authentication and limits, and in front of Interceptor. Calls by GET, which have no side
// effects, pass. The header of an answer that is given again says "Idempotent-Replayed: true". Interceptors in front
// find in such an answer a reply of the type that generated code has registered. The answer itself is a
// connect.AnyResponse, but no *connect.Response of that type. The metadata of an error are kept as trailers.
//
// Idempotent panics as grpclock.Idempotent does.
func Idempotent(l *lockmw.Locker, rules IdempotentRules, opts ...Option) connect.Interceptor {
	once := rpcdoor.NewOnce(rpcdoor.NewOptions(words(rpcdoor.Idempotent), opts), l, rules)
	return &idempotent{interceptor{once.Door}, once}
}

// An idempotent is what Idempotent has made of its arguments. Its interceptor makes calls of what connect has.
type idempotent struct {
	interceptor
	once *rpcdoor.Once
}

// WrapUnary answers a call once.
func (i *idempotent) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (reply connect.AnyResponse, err error) {
		spec := req.Spec()
		if spec.IsClient || req.HTTPMethod() == http.MethodGet {
			return next(ctx, req)
		}
		rule := i.door.Find(ctx, spec.Procedure)
		if rule == nil {
			return next(ctx, req)
		}
		call, beside := i.call(ctx, spec, req.Peer(), req.Header()), besideOf(ctx)
		replayed, refused := i.once.Answer(call.Call, rule, req.Any(), func(ctx context.Context) rpcdoor.Made {
			reply, err = next(ctx, req)
			return beside.made(reply, err)
		})
		switch {
		case refused != nil:
			beside.takeBack(true)
			return nil, call.refuse(refused)
		case replayed == nil: // the handler has run
			return reply, err
		case replayed.Status != nil:
			return nil, beside.failure(replayed)
		}
		return beside.response(replayed), nil
	}
}

// WrapStreamingHandler returns next: a stream has no answer that could be kept.
func (i *idempotent) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// A beside is where handlers set what a response has not: the header and the trailer of a call, and what was in them before.
type beside struct {
	header, trailer http.Header
	before          [2]http.Header
	takeBack        func(bool)
}

func besideOf(ctx context.Context) beside {
	info, ok := connect.CallInfoForHandlerContext(ctx)
	if !ok {
		return beside{takeBack: func(bool) {}}
	}
	b := beside{header: info.ResponseHeader(), trailer: info.ResponseTrailer()}
	b.before = [2]http.Header{b.header.Clone(), b.trailer.Clone()}
	b.takeBack = kept(b.header, b.trailer)
	return b
}

// made returns what a handler has made of a call.
func (b beside) made(reply connect.AnyResponse, err error) rpcdoor.Made {
	made := rpcdoor.Made{Err: err, Header: make(map[string][]string), Trailer: make(map[string][]string)}
	addTo(made.Header, added(b.header, b.before[0]))
	addTo(made.Trailer, added(b.trailer, b.before[1]))
	if err != nil {
		made.As = statusOf(err)
		if coded, ok := errors.AsType[*connect.Error](err); ok {
			addTo(made.Trailer, coded.Meta())
		}
		return made
	}
	made.Reply = reply.Any()
	addTo(made.Header, reply.Header())
	addTo(made.Trailer, reply.Trailer())
	return made
}

// added returns what a header has that it had not before.
func added(now, before http.Header) http.Header {
	more := make(http.Header)
	for name, values := range now {
		if old := before[name]; len(values) >= len(old) && slices.Equal(values[:len(old)], old) {
			values = values[len(old):]
		}
		more[name] = values
	}
	return more
}

// addTo adds a header by names in lower case, and what the values of binary ones stand for.
func addTo(to map[string][]string, h http.Header) {
	for name, values := range h {
		name = strings.ToLower(name)
		for _, value := range values {
			if strings.HasSuffix(name, "-bin") {
				decoded, err := connect.DecodeBinaryHeader(value)
				if err != nil {
					continue
				}
				value = string(decoded)
			}
			to[name] = append(to[name], value)
		}
	}
}

// addedBack does the reverse.
func addedBack(to http.Header, from map[string][]string) {
	for name, values := range from {
		for _, value := range values {
			if strings.HasSuffix(name, "-bin") {
				value = connect.EncodeBinaryHeader([]byte(value))
			}
			to.Add(name, value)
		}
	}
}

// statusOf returns the status that clients get of a handler's error, as connect makes it.
func statusOf(err error) *status.Status {
	coded, ok := errors.AsType[*connect.Error](err)
	if !ok {
		s := &status.Status{Code: int32(connect.CodeUnknown), Message: err.Error()}
		switch {
		case errors.Is(err, context.Canceled):
			s.Code = int32(connect.CodeCanceled)
		case errors.Is(err, context.DeadlineExceeded):
			s.Code = int32(connect.CodeDeadlineExceeded)
		}
		return s
	}
	s := &status.Status{Code: int32(coded.Code()), Message: coded.Message()}
	for _, detail := range coded.Details() {
		s.Details = append(s.Details, &anypb.Any{TypeUrl: anyType + detail.Type(), Value: detail.Bytes()})
	}
	return s
}

// anyType is in front of the name of a type in an Any.
const anyType = "type.googleapis.com/"

// failure returns the error of an answer that is given again.
func (b beside) failure(r *rpcdoor.Replay) error {
	answer := connect.NewError(connect.Code(r.Status.GetCode()), errors.New(r.Status.GetMessage()))
	for _, detail := range r.Status.GetDetails() {
		if encoded, err := connect.NewErrorDetail(detail); err == nil { // as it is
			answer.AddDetail(encoded)
		}
	}
	if b.header == nil {
		addedBack(answer.Meta(), r.Header)
	} else {
		addedBack(b.header, r.Header)
	}
	addedBack(answer.Meta(), r.Trailer)
	return answer
}

// response returns the response of an answer that is given again.
func (b beside) response(r *rpcdoor.Replay) connect.AnyResponse {
	answer := &response{connect.NewResponse(new(anypb.Any)), r.Reply}
	addedBack(answer.Header(), r.Header)
	addedBack(answer.Trailer(), r.Trailer)
	return answer
}

// A response is one of a message whose type is not known when this package is compiled. Connect takes from it what
// its methods return; only its own type has them all, and so is in it.
type response struct {
	*connect.Response[anypb.Any]
	message proto.Message
}

// Any returns the message.
func (r *response) Any() any { return r.message }
