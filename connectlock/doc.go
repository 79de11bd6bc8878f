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
// The rules are those of package grpclock, by procedure, which Connect and gRPC write
// alike; so is the annotation in .proto files, which Annotated reads. Methods
// that have the same rule exclude each other, through whichever of the two they are
// served, and by whichever protocol (Connect, gRPC or gRPC-Web) they are called.
//
// The handler runs while the lock is held. Its context is the lease's: it ends
// when the lock is lost, and lockmw.FromContext finds the lease in it.
//
// # Where it goes
//
// The interceptor goes last in WithInterceptors, and so innermost: behind recovery,
// logging, authentication, authorisation and rate limits. A lock before authorisation
// lets strangers block somebody's resource. When a handler panics the lock is released,
// and the panic goes on, to connect.WithRecover, which must stand before WithInterceptors, or
// to net/http.
//
// It is for handlers. In a client the interceptor does nothing, so that one list of
// interceptors can serve both.
//
// # Keys
//
// Keys are made as in grpclock: body is a field of the request message, value is what the
// function of WithValues returns, method and route are the procedure, and Key
// reads the context and the message. header is the first value of the request's header of
// that name; of one whose name ends in -Bin it is what the value stands for, since that
// may be written in two ways. {header.:authority} is the host.
//
// Methods and fields are looked up when the interceptor is made, in the descriptors that
// generated code registers. Interceptor panics if a service has no such method, or a
// method's message no such field.
//
// # Refusals
//
// For a call that does not get the lock the handler does not run. (The handler of a
// stream that is locked by its first message runs until it receives that.) The call's
// error is a *connect.Error with the code that grpclock's status would have, and the same
// errdetails.ErrorInfo and errdetails.RetryInfo. CodeOf reads the reason in a client.
// Nothing in an error shows a key, a token or what Redis said.
//
// In the Connect protocol the header Retry-After tells when asking again makes sense; of a
// stream it stands in the metadata of its end. In gRPC and gRPC-Web that is the trailer
// grpc-retry-pushback-ms, which is -1 where asking again makes no sense. (The gRPC client
// for Go retries by its policy only what a server has refused without a header, and
// connect's handlers send one.)
//
// If the lock is lost while the handler runs, the call fails with LOCK_LOST even
// if the handler succeeds: it may have worked at the same time as another. What
// it did may have taken effect. The trailers that it has set are not sent then,
// nor is its header in a unary call.
//
// # Streams
//
// A stream is locked from its start to its end. If the key is made from the message, the
// lock is taken when the handler receives the first one, see Interceptor. A stream holds
// its lock for as long as it lasts, unless the rule's Policy has a MaxHold.
//
// When the lock is lost or MaxHold has passed, the stream's context ends, and
// the handler's next Receive or Send returns an error. A Receive that is waiting for
// a message already is not interrupted.
//
// # One answer for all
//
// Idempotent is an interceptor that answers a unary call once for all who send it: the second click, and the client
// whose connection broke, get the reply of the first one. It goes in front of the lock.
//
// Start reading at this file, then rules.go and options.go (what users write), interceptor.go
// (unary calls), stream.go, and error.go (what clients get). idempotent.go is for itself. What an
// interceptor makes of its rules, what key functions see and how a stream takes its lock
// is in internal/rpcdoor, which grpclock has in common with this package.
package connectlock
