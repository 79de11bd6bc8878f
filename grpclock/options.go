package grpclock

import (
	"context"
	"log/slog"

	"github.com/lockmw/kit/internal/rpcdoor"
)

// An Option changes how an interceptor behaves.
type Option func(*options)

type options = rpcdoor.Options

// WithErrorHandler sets who makes the error of a call that does not get the
// lock, or loses it. It gets the call's context and full method. err is a
// *lockmw.AcquireError, or Is lockmw.ErrLost; then the handler's own error is
// joined to it, if it failed too. The text of err names the key and is not for
// clients.
//
// What handle returns is the call's error, with its status, and details and
// trailers are handle's to set, too. If it returns nil, or an error whose status is OK,
// the call ends as it would without WithErrorHandler; no refusal becomes a success. So it
// does if handle returns err itself, or an error that wraps err or a part of it and has no
// status of its own: gRPC would send its text, with the key, to the client. handle is not called when
// the client is gone.
func WithErrorHandler(handle func(ctx context.Context, method string, err error) error) Option {
	return rpcdoor.WithErrorHandler(handle)
}

// WithSkipper has calls run for which skip returns true without a lock, or as if Idempotent were not there. It is
// asked about methods that have a rule.
func WithSkipper(skip func(ctx context.Context, method string) bool) Option {
	return rpcdoor.WithSkipper(skip)
}

// WithValues has keys made from what earlier interceptors know of a call, such as the
// tenant: {value.tenant}, also in an annotation, and keyfunc.Value("tenant") are what
// values returns for the name "tenant". It returns false where the call has no such
// value. The types that it may return are those of keyfunc.Value.
//
//	grpclock.WithValues(func(ctx context.Context, name string) (any, bool) {
//		user, ok := auth.FromContext(ctx)
//		return user.Tenant, ok && name == "tenant"
//	})
//
// A context does not tell values by name. So without this option a key that reads one
// is a mistake, and the interceptor's constructor panics.
func WithValues(values func(ctx context.Context, name string) (any, bool)) Option {
	return rpcdoor.WithValues(values)
}

// WithLogger sets where rules are reported whose service this program does not know,
// at start-up, and those for a stream that no StreamServerInterceptor has, or the
// other way round, at the first call; and, once, the method of a stream that ran without its
// lock, because its handler received no message. The default is slog.Default(). What happens to locks
// later is logged by the Locker, see lockmw.WithLogger. Idempotent reports there that an answer could not be encoded.
func WithLogger(logger *slog.Logger) Option {
	return rpcdoor.WithLogger(logger)
}

// WithKeysOfEverybody allows Idempotent to have keys that are made of one header or one field alone, as {body.request_id}: whoever sends the
// same gets the same answer, whose ever that was. It is for services whose answers everybody may read, or whose clients all are one.
// Other constructors panic.
func WithKeysOfEverybody() Option { return rpcdoor.WithKeysOfEverybody() }

// WithOptionalKey has calls run that lack the header or field of their key, as if Idempotent were not there. Without it they are refused
// with IDEMPOTENCY_KEY_MISSING. A value that is missing, which earlier interceptors should know, is refused all the same. Other constructors panic.
func WithOptionalKey() Option { return rpcdoor.WithOptionalKey() }

// WithKeep sets which results of a handler Idempotent keeps: keep gets the handler's context, the full method and the
// handler's error, which is nil with a reply, and otherwise an error with a status, or without. The others are the answer to
// their own call alone, and the next call runs the handler. The refusal of a lock is not kept whatever keep says. Other constructors panic.
func WithKeep(keep func(ctx context.Context, method string, err error) bool) Option {
	return rpcdoor.WithKeep(keep)
}

// WithFingerprint sets what two calls of a method with one key must have in common, beside the method; otherwise the second one is refused with
// IDEMPOTENCY_KEY_REUSED. The default is the whole request message, with the fields that this program does not know. A
// message that has the time of the call, or the number of the attempt, is another one each time, and wants a function. The encoding of
// a message may change with the version of protobuf: in the moment of such an upgrade a client that asks again may be refused. If
// fingerprint returns an error the call is refused with InvalidArgument, or with Internal if that Is keyfunc.ErrMisuse. Other constructors panic.
func WithFingerprint(fingerprint func(ctx context.Context, method string, req any) ([]byte, error)) Option {
	return rpcdoor.WithFingerprint(fingerprint)
}
