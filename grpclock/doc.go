// Package grpclock runs gRPC methods under a Redis lock: one rule beside a method.
//
//	rules := grpclock.Rules{"/shop.v1.Orders/Pay": {
//		Key:    keyfunc.MustParse("{body.order_id}"),
//		Policy: lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second},
//	}}
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(grpclock.UnaryServerInterceptor(locks, rules)),
//		grpc.ChainStreamInterceptor(grpclock.StreamServerInterceptor(locks, rules)),
//	)
//
// The rule can also stand in the .proto file, as an annotation of the method: see
// Annotated.
//
// The handler runs while the lock is held. Its context is the lease's: it ends when the
// lock is lost, and lockmw.FromContext finds the lease in it.
//
// # Where it goes
//
// The interceptor goes last in the chain, and so innermost: behind recovery, logging,
// authentication, authorisation and rate limits. A lock in front of authorisation lets
// strangers block somebody else's resource. So put it into grpc.ChainUnaryInterceptor and
// grpc.ChainStreamInterceptor. An interceptor in grpc.UnaryInterceptor or
// grpc.StreamInterceptor runs before the whole chain, wherever the option stands.
//
// One recovery in front of the lock is enough: when a handler panics, the lock is
// released, and the panic goes on.
//
// # Keys
//
// In a key function or template:
//
//   - body is a field of the request message, by its name in the .proto file or in JSON
//     ("customer.id");
//   - header is the incoming metadata of that name, such as "x-tenant" or ":authority"; a
//     call that has it twice, with different values, is refused;
//   - value is what the function of WithValues returns: the tenant, the user;
//   - method and route are both the full method ("/shop.v1.Orders/Pay");
//   - param, query, form and cookie do not exist in a call.
//
// A body field is a string, bytes, an integer, a bool, or an enum, which is its number.
// An empty string is missing. Floats, messages, lists and maps have no definite text, and
// cannot be part of a key. What an unset or zero field stands for depends on its
// presence:
//
//   - A field without presence that is zero is "0" or "false", which is what the handler
//     sees.
//   - A field with presence (optional, oneof, message) that is not set is missing, and 0
//     is another key. A handler that calls the getter sees 0 in both cases, so its
//     template must say {body.shelf?|int}.
//   - Where proto2 or editions give a field a default other than zero ([default = …], or
//     a closed enum whose first value is not 0), a field that is not set is that default,
//     as the getter returns it. That also holds inside a message that is not set.
//
// Key makes a key function of a function that reads the call's context and message.
//
// Methods and fields are looked up when the interceptor is made, because a typo would
// have calls run without a lock. The constructor panics if a service has no such method,
// or a method's message has no such field. It also panics if a key needs what no call
// has, such as {param.id}, or reads a value without WithValues.
//
// Two kinds of fields are looked up in each call: those of methods that this program does
// not know, and those that a function of your own reads in some calls only. If there is
// no such field, the call is refused with LOCK_KEY_INVALID.
//
// # Refusals
//
// If a call does not get the lock, its handler does not run. (The handler of a stream
// that is locked by its first message runs until it receives that message.) The call's
// status has one of the gRPC codes on the left. It also has one of the codes on the
// right, which are constants of package lockmw, as the reason in an errdetails.ErrorInfo
// of the domain "lockmw":
//
//	Aborted             others hold the lock                         LOCK_BUSY, LOCK_WAIT_TIMEOUT
//	Aborted             its work was done a moment ago (MinHold)     LOCK_COOLDOWN
//	DeadlineExceeded    others held it until the call's deadline     LOCK_WAIT_TIMEOUT
//	ResourceExhausted   too many wait already                        LOCK_QUEUE_FULL
//	Unavailable         Redis cannot be reached, or refuses          LOCK_BACKEND_UNAVAILABLE
//	Unavailable         the Locker is closed                         LOCK_CLOSED
//	InvalidArgument     no key can be made of the call               LOCK_KEY_INVALID
//	Internal            the lock was lost while the handler worked   LOCK_LOST
//	Internal            a mistake of the program                     LOCK_MISUSE
//	Canceled            the client has left                          (no ErrorInfo)
//
// An errdetails.BadRequest names the field or header of which no key can be made. CodeOf
// reads the reason in a client. A status shows no key, no token and nothing that Redis
// said.
//
// If the lock is lost while the handler runs, the call fails with LOCK_LOST even if the
// handler succeeds: it may have worked at the same time as another. What it did may have
// taken effect. The trailers that it has set are not sent then. Neither is its header in
// a unary call, unless it has sent the header itself.
//
// # Retries
//
// Where asking again makes sense, the status has an errdetails.RetryInfo, and the trailer
// grpc-retry-pushback-ms has the same delay in milliseconds. A client with a retry policy
// in its service config waits that long, if the policy names the status code. With other
// refusals the trailer is -1, and the client does not retry at all.
//
// Calls that were refused because others hold the lock are retried by policies that name
// Aborted. Few policies do, and none should if the rule's Policy waits already.
//
// # Streams
//
// A stream is locked from its start to its end. The rule "/shop.v1.Orders/*" is for the
// streams of the service, too. If the key is made from the message, or the client sends
// one message, the lock is taken when the handler receives the first message: see
// StreamServerInterceptor. A stream holds its lock for as long as it lasts, unless the
// rule's Policy has a MaxHold.
//
// When the lock is lost or MaxHold has passed, the stream's context ends, and the
// handler's next RecvMsg or SendMsg returns an error. A RecvMsg that already waits for a
// message is not interrupted.
//
// # One answer for all
//
// Idempotent is an interceptor that answers a unary call once for all who send it. The
// second click gets the reply of the first one, and so does a client whose connection
// broke. The interceptor goes in front of the lock.
//
// # ConnectRPC
//
// Package connectlock has an interceptor for handlers of connectrpc.com/connect, with the
// same Rules and annotations.
package grpclock
