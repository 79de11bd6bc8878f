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

// Key makes a key function of one that reads a call: its context, in which earlier
// interceptors leave what they know, and its request message. It works in grpclock
// and connectlock only. In a stream it is called with the first message, see
// StreamServerInterceptor. What it returns is escaped where a key may not hold a
// character, as in keyfunc.Value; an empty string is keyfunc.ErrMissing. The function
// must escape values that it joins itself, or leave that to keyfunc.Join. Key panics
// if it is nil.
func Key(key func(ctx context.Context, req any) (string, error)) keyfunc.Func {
	return rpcdoor.Key("grpclock", key)
}
