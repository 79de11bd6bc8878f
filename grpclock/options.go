package grpclock

import (
	"context"
	"log/slog"

	"github.com/lockmw/kit/internal/rpcdoor"
)

// An Option changes how an interceptor behaves.
type Option func(*options)

type options = rpcdoor.Options

// WithErrorHandler sets the function that makes the error of a call that does not get the
// lock, or loses it. handle gets the call's context and full method. err is a
// *lockmw.AcquireError, or Is lockmw.ErrLost. If the lock was lost and the handler
// failed, too, the handler's own error is joined to err. The text of err names the key
// and is not for clients.
//
// The call ends with the error that handle returns, and with the status of that error.
// handle also sets the details and the trailers. But the call ends as it would without
// WithErrorHandler in these cases:
//
//   - handle returns nil, or an error whose status is OK: no refusal becomes a success;
//   - handle returns err itself, or an error that wraps err or a part of it and has no
//     status of its own: gRPC would send its text, with the key, to the client.
//
// handle is not called when the client is gone.
func WithErrorHandler(handle func(ctx context.Context, method string, err error) error) Option {
	return rpcdoor.WithErrorHandler(handle)
}

// WithSkipper has calls for which skip returns true run without a lock, or as if
// Idempotent were not there. skip is asked only about methods that have a rule.
func WithSkipper(skip func(ctx context.Context, method string) bool) Option {
	return rpcdoor.WithSkipper(skip)
}

// WithValues has keys made from what earlier interceptors know of a call, such as the
// tenant: {value.tenant}, also in an annotation, and keyfunc.Value("tenant") are what
// values returns for the name "tenant". values returns false if the call has no such
// value. It may return the types that keyfunc.Value takes.
//
//	grpclock.WithValues(func(ctx context.Context, name string) (any, bool) {
//		user, ok := auth.FromContext(ctx)
//		return user.Tenant, ok && name == "tenant"
//	})
//
// A context does not tell values by name. So without this option, a key that reads a
// value is a mistake, and the interceptor's constructor panics.
func WithValues(values func(ctx context.Context, name string) (any, bool)) Option {
	return rpcdoor.WithValues(values)
}

// WithLogger sets where these are reported:
//
//   - at start-up: a rule whose service this program does not know;
//   - at the first call: a rule for a stream that no StreamServerInterceptor has, and a
//     rule for a unary method that no UnaryServerInterceptor has;
//   - once: the method of a stream that ran without its lock, because its handler
//     received no message;
//   - by Idempotent: an answer that could not be encoded.
//
// The default is slog.Default(). What happens to locks later is logged by the Locker: see
// lockmw.WithLogger.
func WithLogger(logger *slog.Logger) Option {
	return rpcdoor.WithLogger(logger)
}

// WithKeysOfEverybody allows Idempotent to have keys that are made of one header or one
// field alone, such as {body.request_id}. Whoever sends the same key and request then
// gets the same answer, no matter whose it was. It is for services whose answers
// everybody may read, or whose clients are all one. Other constructors panic if they are
// given this option.
func WithKeysOfEverybody() Option { return rpcdoor.WithKeysOfEverybody() }

// WithOptionalKey has calls that lack the header or field of their key run as if
// Idempotent were not there. Without it, they are refused with IDEMPOTENCY_KEY_MISSING. A
// call that lacks a value, which earlier interceptors should know, is refused all the
// same. Other constructors panic if they are given this option.
func WithOptionalKey() Option { return rpcdoor.WithOptionalKey() }

// WithKeep sets which results of a handler Idempotent keeps. keep gets the handler's
// context, the full method and the handler's error. The error is nil with a reply.
// Otherwise it may have a status or not. A result for which keep returns false is for its
// own call alone, and the next call runs the handler. The refusal of a lock is not kept,
// whatever keep says. Other constructors panic if they are given this option.
func WithKeep(keep func(ctx context.Context, method string, err error) bool) Option {
	return rpcdoor.WithKeep(keep)
}

// WithFingerprint sets what two calls with one key must have in common, beside the
// method. If they differ in that, the second one is refused with IDEMPOTENCY_KEY_REUSED.
// The default is the whole request message, with the fields that this program does not
// know. If a message has the time of the call or the number of the attempt, it is another
// one each time, and needs a function.
//
// The encoding of a message may change with the version of protobuf. At the moment of
// such an upgrade, a client that asks again may be refused. If fingerprint returns an
// error, the call is refused with InvalidArgument, or with Internal if the error Is
// keyfunc.ErrMisuse. Other constructors panic if they are given this option.
func WithFingerprint(fingerprint func(ctx context.Context, method string, req any) ([]byte, error)) Option {
	return rpcdoor.WithFingerprint(fingerprint)
}
