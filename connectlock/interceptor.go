package connectlock

import (
	"context"
	"maps"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/lockmw"
)

// Interceptor returns an interceptor that runs handlers under the locks that rules name,
// unary ones and streams. For a procedure without a rule it does two look-ups in a map.
// In clients it does nothing.
//
// For each call, WithSkipper's function is asked first, and then the key function. If the
// key function returns keyfunc.Skip, the method runs without a lock. If it fails, Redis
// is not asked. The call then fails with CodeInvalidArgument, or with CodeInternal for a
// mistake of the program (keyfunc.ErrMisuse).
//
// When the lock of a stream is taken depends on the stream:
//
//   - If the key is made from headers, the lock is taken before the handler runs.
//   - If the key is made from the message, the lock is taken when the handler receives
//     the first message, as part of Receive. What the handler does before that is not
//     under the lock. If such a stream ends without a message, it has no key and is
//     refused.
//   - If the client sends one message only, the lock is taken when the client has sent
//     all, whatever the key is made from. Connect receives that message before the
//     handler's own code begins.
//
// Interceptor panics if l, rules or an option is nil, and if a rule cannot work:
//
//   - its name is malformed, or its service has no such method;
//   - its Key is nil;
//   - its Key reads what no call or no message of the method has, or a value without
//     WithValues;
//   - its Policy is invalid.
//
// To find out what a Key reads, it is called once for each method with a made-up request.
// Every header, value and field of that request is "00000000000000000000000000000000".
// The Key may fail or panic then.
func Interceptor(l *lockmw.Locker, rules Rules, opts ...Option) connect.Interceptor {
	return &interceptor{rpcdoor.New(rpcdoor.NewOptions(words("Interceptor"), opts), l, rules)}
}

type interceptor struct{ door *rpcdoor.Door }

// WrapUnary runs a handler of one message and one reply under its lock.
func (i *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		spec := req.Spec()
		if spec.IsClient {
			return next(ctx, req)
		}
		rule := i.door.Find(ctx, spec.Procedure)
		if rule == nil {
			return next(ctx, req)
		}
		call := i.call(ctx, spec, req.Peer(), req.Header())
		lease, err := i.door.Enter(call.Call, rule, req.Any())
		if err != nil {
			return nil, call.refuse(err)
		}
		if lease == nil {
			return next(ctx, req)
		}
		end := func(bool) {}
		if info, ok := connect.CallInfoForHandlerContext(ctx); ok { // where handlers set what a response has not
			end = kept(info.ResponseHeader(), info.ResponseTrailer())
		}
		reply, err, lost := rpcdoor.Under(ctx, lease, end, func() (connect.AnyResponse, error) { return next(lease.Context(), req) })
		if lost != nil {
			return nil, call.refuse(door.WithLoss(err, lost))
		}
		return reply, err
	}
}

// WrapStreamingClient returns next: there is no lock in clients.
func (i *interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// A call is one call of a procedure that has a rule.
type call struct {
	rpcdoor.Call
	door     *rpcdoor.Door
	protocol string
}

func (i *interceptor) call(ctx context.Context, spec connect.Spec, peer connect.Peer, h http.Header) call {
	return call{rpcdoor.Call{Context: ctx, Method: spec.Procedure, Headers: header(h)}, i.door, peer.Protocol}
}

// A header is what came with a call.
type header http.Header

// Values returns the values of the header called name, in any case. Binary ones that
// cannot be decoded are none.
func (h header) Values(_ context.Context, name string) []string {
	if name == ":authority" { // as gRPC calls it
		name = "Host"
	}
	values := http.Header(h).Values(name)
	if !strings.HasSuffix(strings.ToLower(name), "-bin") {
		return values
	}
	var all []string
	for _, line := range values {
		for text := range strings.SplitSeq(line, ",") { // several may stand in one
			if decoded, err := connect.DecodeBinaryHeader(strings.TrimSpace(text)); err == nil {
				all = append(all, string(decoded))
			}
		}
	}
	return all
}

// kept returns a function that is to be called when a handler is done: if the call has
// another answer than the handler's, it takes back what the handler has set in headers,
// whose maps these are.
func kept(headers ...http.Header) (end func(refused bool)) {
	before := make([]http.Header, len(headers))
	for i, h := range headers {
		if len(h) > 0 {
			before[i] = h.Clone()
		}
	}
	return func(refused bool) {
		if !refused {
			return
		}
		for i, h := range headers {
			clear(h)
			maps.Copy(h, before[i])
		}
	}
}
