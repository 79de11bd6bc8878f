// Package grpclock runs gRPC methods under a Redis lock: one rule beside a
// method.
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
// The rule can also stand in the .proto file, as an annotation of the method,
// see Annotated.
//
// The handler runs while the lock is held. Its context is the lease's: it ends
// when the lock is lost, and lockmw.FromContext finds the lease in it.
//
// # Where it goes
//
// Last in the chain, and so innermost: behind recovery, logging,
// authentication, authorisation and rate limits. A lock before authorisation
// lets strangers block somebody's resource. Recovery outside of it is enough:
// a handler that panics releases the lock, and the panic goes on.
//
// # Keys
//
// In a key function or template
//
//   - body is a field of the request message, by its name in the .proto file or
//     in JSON ("customer.id"): a string, bytes, an integer, a bool, or an enum,
//     which is its number. A field with presence (optional, oneof, message) that
//     is not set is missing, and 0 is another key; a handler that calls the
//     getter sees 0 in both, so its template says {body.shelf?|int}. A field
//     without presence that is zero is "0" or "false", which is what the handler
//     sees. An empty string is missing. Floats, messages, lists and maps have no
//     definite text;
//   - header is the first value of the incoming metadata of that name, such as
//     "x-tenant" or ":authority";
//   - value is what WithValues says: the tenant, the user;
//   - method and route are the full method;
//   - param, query, form and cookie are nothing.
//
// Key makes a key of a function of the call's context and message.
//
// Methods and fields are looked for when the interceptor is made, which panics if a
// service has no such method, or a method's message no such field: a typo would have
// calls run without a lock. So it does if a key needs what no call has, such as
// {param.id}, or reads a value without WithValues. Fields of methods that this
// program does not know, and those that a function of your own reads in some calls
// only, are looked for in each call.
//
// # Refusals
//
// For a call that does not get the lock the handler does not run; that of a
// stream which is locked by its first message runs until it asks for that. Its
// status is
//
//	Aborted             others hold the lock                     LOCK_BUSY, LOCK_WAIT_TIMEOUT
//	DeadlineExceeded    they did until the call's deadline       LOCK_WAIT_TIMEOUT
//	ResourceExhausted   too many wait                            LOCK_QUEUE_FULL
//	Unavailable         Redis, or the Locker is closed           LOCK_BACKEND_UNAVAILABLE, LOCK_CLOSED
//	InvalidArgument     no key can be made of the call           LOCK_KEY_INVALID
//	Internal            the lock was lost; a mistake             LOCK_LOST, LOCK_MISUSE
//	Canceled            the client has left
//
// with that reason in an errdetails.ErrorInfo of the domain "lockmw". Nothing in
// it shows a key, a token or what Redis said.
//
// If the lock is lost while the handler runs, the call fails with LOCK_LOST even
// if the handler succeeds: it may have worked at the same time as another. What
// it did may have taken effect. The trailers that it has set are not sent then,
// nor is its header in a unary call, unless it has sent that itself.
//
// # Retries
//
// Where asking again makes sense, the status has an errdetails.RetryInfo, and
// the trailer grpc-retry-pushback-ms the same delay. A client with a retry
// policy in its service config waits that long, if the policy names the code;
// with other refusals the trailer is -1, and it does not retry at all. Name
// Aborted there to have contention retried: most policies do not, and should
// not when the rule's Policy waits already.
//
// # Streams
//
// A stream is locked from its start to its end; a "/shop.v1.Orders/*" stands for
// streams, too. If the key is made from the message, the lock is taken when the
// handler receives the first one, see StreamServerInterceptor. A long stream
// holds its lock for as long as it lasts: Policy.MaxHold ends it.
//
// When the lock is lost or MaxHold has passed, the stream's context ends, and
// the handler's next RecvMsg or SendMsg returns an error. One that is waiting
// for a message is not interrupted.
//
// Start reading at this file, then rules.go, door.go (what an interceptor makes
// of its rules), unary.go, stream.go and latestream.go (a stream that is locked
// by its first message); metadata.go is what they do with a handler's header and
// trailers; request.go and fields.go are what key functions see,
// probe.go finds out what they read, annotated.go reads .proto annotations, and
// status.go is what clients get.
package grpclock
