// Package lockclient is for programs that call services whose routes are locked: it asks again where a service has refused a request because of
// a lock, when the service said that asking again helps, and not before.
//
//	client := &http.Client{Transport: &lockclient.Transport{}}
//
// For gRPC there is package grpcretry, for ConnectRPC package connectretry, and for any other kind of client Budget.Ask.
//
// A request is made again only if the service has not begun to work on it. Two things must come together: a code that says so, from the
// body of the answer (see Again), and a time after which to ask, from its Retry-After. So these are never asked again: a LOCK_COOLDOWN, since asking
// again would do the same again; what is uncertain; a lock that was lost in the middle of the work; an answer that was kept and is sent again; a 503 of a proxy; an
// answer in another format than that of the middlewares (WithErrorHandler). POST is no exception.
//
// In gRPC and ConnectRPC a refusal names the method that refused, so a handler that returns the refusal of another service is not asked again. HTTP has nothing
// of the kind. A handler that takes a lock of its own after it has begun, or that calls another service, must not answer with that one's code, type and
// Retry-After: they say that nothing was done.
package lockclient
