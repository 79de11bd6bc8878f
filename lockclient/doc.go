// Package lockclient is for programs that call services whose routes are locked. If a service has refused a request because of a lock, and said that
// asking again helps, the package asks again, and not earlier than the service said.
//
//	client := &http.Client{Transport: &lockclient.Transport{}}
//
// For gRPC, use package grpcretry; for ConnectRPC, package connectretry; and for any other kind of client, Budget.Ask.
//
// A request is made again only if the service has not begun to work on it. The answer must have both a code that says so (see Again), in its body,
// and a time after which to ask, in Retry-After. If retry_after_ms in the body is shorter than Retry-After, it counts. In gRPC and ConnectRPC, the
// details of the status have both. A POST is made again like any other request. These are never asked again:
//
//   - a LOCK_COOLDOWN, because the same work would be done again;
//   - uncertain work;
//   - a lock that was lost in the middle of the work;
//   - an answer that was kept and is sent again;
//   - a 503 of a proxy;
//   - an answer in another format than that of the middlewares (WithErrorHandler).
//
// In gRPC and ConnectRPC, a refusal names the method that refused. So if a handler returns the refusal of another service, its call is not made
// again. In HTTP, a refusal names nothing. So a handler that has begun its work, and then takes a lock of its own or calls another service, must not
// answer with the code, type and Retry-After of a refusal that it gets: they say that nothing was done.
package lockclient
