// Package connectlock runs ConnectRPC methods under a Redis lock: one rule beside a
// method, for handlers of connectrpc.com/connect.
//
//	rules := connectlock.Rules{"/shop.v1.Orders/Pay": {
//		Key:    keyfunc.MustParse("{body.order_id}"),
//		Policy: lockmw.Policy{Prefix: "order:", Wait: 2 * time.Second},
//	}}
//	mux := http.NewServeMux()
//	mux.Handle(shopv1connect.NewOrdersHandler(shopService, // what protoc-gen-connect-go has made
//		connect.WithInterceptors(connectlock.Interceptor(locks, rules))))
//
// The rules are those of package grpclock. They are named by procedure, which Connect and
// gRPC write alike. The annotation in .proto files is the same, too: Annotated reads it.
// Methods that have the same rule exclude each other. It does not matter whether Connect
// or gRPC serves them, nor by which protocol (Connect, gRPC or gRPC-Web) they are called.
//
// The handler runs while the lock is held. Its context is the lease's: it ends when the
// lock is lost, and lockmw.FromContext finds the lease in it.
//
// # Where it goes
//
// The interceptor goes last in WithInterceptors, and so innermost: behind recovery,
// logging, authentication, authorisation and rate limits. A lock in front of
// authorisation lets strangers block somebody else's resource.
//
// When a handler panics, the lock is released, and the panic goes on: to
// connect.WithRecover, which must stand before WithInterceptors, or to net/http.
//
// The interceptor is for handlers. In a client it does nothing, so that one list of
// interceptors can serve both.
//
// # Keys
//
// Keys are made as in grpclock: body is a field of the request message, value is what the
// function of WithValues returns, and method and route are the procedure. Key makes a key
// function of a function that reads the context and the message.
//
// header is the request's header of that name; a call that has it twice, with different
// values, is refused. If the name ends in -Bin, the key is made from the decoded value,
// because the same value can be written in two ways. {header.:authority} is the host.
//
// Methods and fields are looked up when the interceptor is made, in the descriptors that
// generated code registers. Interceptor panics if a service has no such method, or a
// method's message has no such field.
//
// # Refusals
//
// If a call does not get the lock, its handler does not run. (The handler of a stream
// that is locked by its first message runs until it receives that message.) The call's
// error is a *connect.Error. It has the code that grpclock's status would have, and the
// same errdetails.ErrorInfo, errdetails.RetryInfo and errdetails.BadRequest. CodeOf reads
// the reason in a client. An error shows no key, no token and nothing that Redis said.
//
// In the Connect protocol, the header Retry-After says in seconds, rounded up, when
// asking again makes sense; for a stream it stands in the metadata of its end. In gRPC
// and gRPC-Web, the trailer grpc-retry-pushback-ms says so in milliseconds, and is -1 if
// asking again makes no sense. (The gRPC client for Go does not retry these calls by its
// policy: it retries only what a server has refused without a header, and connect's
// handlers send one.)
//
// If the lock is lost while the handler runs, the call fails with LOCK_LOST even if the
// handler succeeds: it may have worked at the same time as another. What it did may have
// taken effect. The trailers that it has set are not sent then. Neither is its header in
// a unary call.
//
// # Streams
//
// A stream is locked from its start to its end. If the key is made from the message, the
// lock is taken when the handler receives the first message: see Interceptor. A stream
// holds its lock for as long as it lasts, unless the rule's Policy has a MaxHold.
//
// When the lock is lost or MaxHold has passed, the stream's context ends, and the
// handler's next Receive or Send returns an error. A Receive that already waits for a
// message is not interrupted.
//
// # One answer for all
//
// Idempotent is an interceptor that answers a unary call once for all who send it. The
// second click gets the reply of the first one, and so does a client whose connection
// broke. The interceptor goes in front of the lock.
package connectlock
