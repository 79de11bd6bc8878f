// Package funclock runs methods and functions under a Redis lock. lockgen (package
// cmd/lockgen) writes code for a line above a method, and that code calls this package:
//
//	type Orders interface {
//		// Pay charges the customer.
//		//
//		//lockmw:lock {order.ID} prefix=order: wait=2s
//		Pay(ctx context.Context, order Order) (Receipt, error)
//	}
//
// Of this, lockgen makes a decorator: a function LockOrders that returns an Orders whose
// Pay runs under the lock:
//
//	var orders = LockOrders(ledger, locks) // of the type Orders
//
// Programs themselves use only [Tune] of this package. The rest is for generated code,
// and may be called by hand, too.
//
// # Errors
//
// A call that gets no lock does not run. Its error is that of lockmw.WithLock: it Is
// lockmw.ErrNotAcquired while others hold the lock. If a value of the key is missing (an
// empty text, a nil on the way to it), the error Is lockmw.ErrInvalidKey. The error of a
// function in the key is an ErrInvalidKey, too, unless it Is keyfunc.ErrMisuse. If it Is
// keyfunc.Skip, the call runs without a lock. If a call does not run, all its results but
// the error are zero values.
//
// # What takes no lock
//
// The decorator takes the lock, not the method. Calls that do not go through the
// decorator take no lock. If a method calls another one on the same receiver, that is
// such a call.
package funclock

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Tune changes the policy of a lock when a decorator is made. It is the place for what
// comes from a configuration. It is called once for each lock of the decorator. name is
// the lock's name (not the policy's Name), such as "shop.Orders.Pay": the package, the
// type that has the directive, and the method. p is the policy that the directive
// describes.
type Tune func(name string, p *lockmw.Policy)

// A Spec is what a directive says.
type Spec struct {
	// Name is the lock's name, such as "shop.Orders.Pay". Tune is told it, and {method} in
	// a key is this name. The policy's Name, which metrics and logs show, is another
	// thing. If the policy has neither a Name nor a Prefix, its Name becomes this one.
	Name string
	// Keys are what is locked. Each is a template of package keyfunc with the sources
	// {value.NAME} and {method}, or a text without placeholders. The locks of several keys
	// are taken together. A NAME that ends in "..." is a list. Its template is one key for
	// each element of the list, 64 at most.
	Keys []string
	// Values are the NAMEs, in the order in which Lock.Key is given their values.
	Values []string
	// Policy is how the lock is taken and kept.
	Policy lockmw.Policy
}

// A Lock is the lock of one method or function. Many goroutines may use it at once.
type Lock struct {
	locks  *lockmw.Locker
	name   string
	values []string
	key    keyfunc.Func
	policy lockmw.Policy
}

// New returns the lock that spec describes, after each of tune has changed its policy. It
// panics if locks or one of tune is nil, if the policy is invalid, if a key cannot be
// parsed, or if a key is made of anything but {method} and the Values.
func New(locks *lockmw.Locker, spec Spec, tune ...Tune) *Lock {
	if locks == nil {
		panic("funclock: " + spec.Name + ": the Locker is nil")
	}
	p := spec.Policy
	for i, t := range tune {
		if t == nil {
			panic(fmt.Sprintf("funclock: %s: Tune %d is nil", spec.Name, i+1))
		}
		t(spec.Name, &p)
	}
	if p.Name == "" && p.Prefix == "" {
		p.Name = spec.Name
	}
	if err := locks.Validate(p); err != nil {
		panic("funclock: " + spec.Name + ": " + err.Error())
	}
	return &Lock{locks: locks, name: spec.Name, values: spec.Values, key: keyOf(spec), policy: p}
}

// keyOf returns what derives the keys of a spec.
func keyOf(spec Spec) keyfunc.Func {
	var all []keyfunc.Func
	for _, text := range spec.Keys {
		var key keyfunc.Func
		if strings.ContainsAny(text, "{}") {
			key = keyfunc.MustParse(text)
			checkSources(spec, text)
		} else {
			key = keyfunc.Const(text)
		}
		for i, name := range spec.Values {
			if strings.HasSuffix(name, each) && strings.Contains(text, "{value."+name) {
				key = forEach(name, i, key)
			}
		}
		all = append(all, key)
	}
	if len(all) == 1 {
		return all[0]
	}
	return keyfunc.All(all...)
}

// placeholder is one of a template that keyfunc has parsed, without its "?" and filters.
var placeholder = regexp.MustCompile(`\{([^{}|?]+)[^{}]*\}`)

// checkSources panics if a key is made of something that a call does not have.
func checkSources(spec Spec, key string) {
	text := strings.NewReplacer("{{", "", "}}", "").Replace(key)
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		name, isValue := strings.CutPrefix(m[1], "value.")
		switch {
		case isValue && slices.Contains(spec.Values, name), m[1] == "method":
		case isValue:
			panic(fmt.Sprintf("funclock: %s: the key %s names a value that is not in Values (%s)", spec.Name, key, strings.Join(spec.Values, ", ")))
		default:
			panic(fmt.Sprintf("funclock: %s: the key %s has %s: a key is made of {value.NAME} and {method}", spec.Name, key, m[0]))
		}
	}
}

// Key derives the keys of one call from its values, which are given in the order of
// Spec.Values. It panics if there are more or fewer of them. If no key can be derived,
// Call.Keys and Call.Run return the error.
func (l *Lock) Key(values ...Value) Call {
	if len(values) != len(l.values) {
		panic(fmt.Sprintf("funclock: %s: Key of %d values, want %d (%s)", l.name, len(values), len(l.values), strings.Join(l.values, ", ")))
	}
	for i := range values {
		if failed, ok := values[i].more.(failure); ok {
			return Call{lock: l, err: failed.err}
		}
	}
	r, _ := requests.Get().(*request)
	r.lock, r.values = l, append(r.values[:0], values...)
	keys, err := keyfunc.KeysOf(l.key, r)
	clear(r.values) // they may hold what the caller wants to be collected
	requests.Put(r)
	return Call{lock: l, keys: keys, err: err}
}

// A Call is one call. It has the keys of that call, or the reason why there are none.
type Call struct {
	lock *Lock
	keys keyfunc.Keys
	err  error
}

// Keys returns the keys without the policy's prefix, or the error of deriving them.
func (c Call) Keys() ([]string, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.keys.List(), nil
}

// Run runs fn under the lock, as lockmw.Locker.WithLock does, or WithLocks if there are
// several keys. fn gets the lease's context. If there is no key, fn does not run, and the
// error Is lockmw.ErrInvalidKey, or keyfunc.ErrMisuse for a mistake of the program. If
// the reason is keyfunc.Skip, fn runs with ctx and without a lock.
func (c Call) Run(ctx context.Context, fn func(ctx context.Context) error) error {
	l := c.lock
	switch {
	case errors.Is(c.err, keyfunc.Skip):
		return fn(ctx)
	case c.err != nil:
		return door.NoKey(ctx, l.locks, l.policy, c.err)
	}
	if key, one := c.keys.One(); one {
		return l.locks.WithLock(ctx, key, l.policy, fn)
	}
	return l.locks.WithLocks(ctx, c.keys.List(), l.policy, fn)
}
