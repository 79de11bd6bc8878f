package rpcdoor

import (
	"context"
	"errors"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Call is what a framework tells of one call before its message.
type Call struct {
	Context context.Context
	Method  string // in full
	Headers Headers
}

// Headers are the metadata that came with a call.
type Headers interface {
	// Values returns the values of the header called name, in any case. ctx is the
	// call's context.
	Values(ctx context.Context, name string) []string
}

// Find returns the rule of a method, or nil if it has none or the call is to run
// without its lock.
func (d *Door) Find(ctx context.Context, method string) *MethodRule {
	rule := d.exact[method]
	if rule == nil {
		service, _ := Cut(method)
		rule = d.wild[service]
	}
	if rule != nil && d.skipper != nil && d.skipper(ctx, method) {
		return nil
	}
	return rule
}

// Enter takes the lock of a call whose message has come. Without an error and a lease,
// the call asks for no lock.
func (d *Door) Enter(c Call, rule *MethodRule, message any) (*lockmw.Lease, error) {
	keys, _, err := d.keys(c, rule, message)
	return d.acquire(c.Context, rule, keys, err)
}

// keys derives the keys of a call. message is nil if none has come yet; early tells
// that it was asked for all the same, and that the keys and the error mean nothing.
func (d *Door) keys(c Call, rule *MethodRule, message any) (keys keyfunc.Keys, early bool, err error) {
	v := &view{call: c, door: d, rule: rule, message: message}
	keys, err = keyfunc.KeysOf(rule.Key, v)
	if v.refused != nil && !errors.Is(err, keyfunc.Skip) {
		return keyfunc.Keys{}, v.early, v.refused
	}
	return keys, v.early, err
}

// acquire takes the lock of what the key function has returned. Without an
// error and a lease, it asks for no lock.
func (d *Door) acquire(ctx context.Context, rule *MethodRule, keys keyfunc.Keys, err error) (*lockmw.Lease, error) {
	return door.Acquire(ctx, d.Locker, keys, err, rule.Policy)
}

// Under runs the handler of a call with one message under its lock, and gives that
// back, also when the handler panics or calls runtime.Goexit; then it calls end. It
// returns what the handler does, and an error that says that the lock was lost.
func Under[T any](ctx context.Context, lease *lockmw.Lease, end func(lost bool), handler func() (T, error)) (reply T, err, lost error) {
	failed := true // so has a handler that panics
	defer func() {
		if failed {
			lease.MarkFailed()
		}
		if lost = door.Release(ctx, lease); lost != nil {
			door.Doubt(ctx) // the refusal that follows does not say whether the work was done
		}
		end(lost != nil)
	}()
	reply, err = handler()
	failed = err != nil
	return reply, err, nil
}
