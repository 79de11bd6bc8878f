package grpclock

import (
	"context"
	"sync"

	"google.golang.org/grpc/metadata"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// An interceptor is what a constructor has made of its arguments.
type interceptor struct {
	*rpcdoor.Door
	first sync.Once // call: checkOther
}

// words are what texts call the interceptor that the constructor makes.
func words(constructor string) rpcdoor.Words {
	return rpcdoor.Words{Package: "grpclock", Constructor: constructor, Call: "a gRPC call"}
}

func newInterceptor(constructor string, l *lockmw.Locker, rules Rules, opts []Option) *interceptor {
	i := &interceptor{Door: rpcdoor.New(rpcdoor.NewOptions(words(constructor), opts), l, rules)}
	i.give()
	return i
}

// incoming are the metadata in a call's context.
type incoming struct{}

// Values returns the values of the incoming metadata called name, in any case.
func (incoming) Values(ctx context.Context, name string) []string {
	return metadata.ValueFromIncomingContext(ctx, name)
}

// Key makes a key function of a function that reads a call: its context, in which earlier
// interceptors leave what they know, and its request message. The result works in
// grpclock and connectlock only. In a stream, the function is called with the first
// message: see StreamServerInterceptor.
//
// In what the function returns, characters that a key may not hold are escaped, as in
// keyfunc.Value. An empty string is keyfunc.ErrMissing. If the function joins several
// values, it must escape them itself, or leave that to keyfunc.Join. Key panics if it is
// given nil.
func Key(key func(ctx context.Context, req any) (string, error)) keyfunc.Func {
	return rpcdoor.Key("grpclock", key)
}
