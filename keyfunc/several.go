package keyfunc

import (
	"errors"
	"fmt"
	"slices"
)

// Keys is what a Func names for one request: one key, or the several keys of [All] or
// [Each]. The zero Keys contains one empty key.
type Keys struct {
	key     string
	several []string // two or more, no two of them equal; nil: key is the only one
}

// KeysOf calls f and returns the keys that f names for r. Middlewares call a Func in
// this way, because f itself returns one string, which cannot be several keys; see
// [All]. The errors are those of f, including [Skip]. With an error, Keys is the zero
// value.
func KeysOf(f Func, r Request) (Keys, error) {
	key, err := f(r)
	if err == nil {
		return Keys{key: key}, nil
	}
	if keys, ok := severalIn(err); ok {
		return Keys{several: keys}, nil
	}
	return Keys{}, err
}

// One returns the key and true if there is only one. Otherwise it returns "" and false.
func (k Keys) One() (key string, ok bool) { return k.key, k.several == nil }

// List returns the keys as a new slice, in the order in which they were named.
func (k Keys) List() []string {
	if k.several == nil {
		return []string{k.key}
	}
	return slices.Clone(k.several)
}

// several is what a Func returns as its error to name more than one key. So
// there is no string that stands for several keys: a string that comes with a
// request cannot be taken for them, and a Func that forgets to pass the error
// on has no key, instead of one lock in the place of all.
type several struct{ keys []string }

// Error is seen only where several keys have gone to something that takes one.
func (*several) Error() string {
	return "keyfunc: several keys, which only a middleware and keyfunc.KeysOf take"
}

// severalIn returns the keys of an error that names several. A Func may have
// wrapped it; an error that it has joined to another one counts as that other.
func severalIn(err error) (keys []string, ok bool) {
	for ; err != nil; err = errors.Unwrap(err) {
		if s, is := err.(*several); is { //nolint:errorlint // errors.As would look into joined errors
			return s.keys, true
		}
	}
	return nil, false
}

// maxKeys bounds what one request can lock at once.
const maxKeys = 64

// All returns a Func that names several locks, one for each of fs. A transfer, for
// example, locks both accounts, {from} and {to}. A middleware takes all of them or
// none, and always in the same order, whichever account a request names first; see
// lockmw.Locker.AcquireAll. Two equal keys count as one.
//
//	keyfunc.All(
//		keyfunc.MustParse("account:{body.from}"),
//		keyfunc.MustParse("account:{body.to}"))
//
// A string cannot be several keys. So the Func returns them in the place of an
// error, as it would return [Skip], and [KeysOf] takes them out. If all keys are
// equal, the Func returns that one. A Func of your own that calls an All must pass
// on its error. All goes around Join, Hash and Secret, not into them: there,
// several keys are [ErrMisuse]. All in All names the keys of both.
//
// The first error of one of fs, including Skip, is returned as it is. An [Optional]
// without a value names no key. Any other empty key is [ErrMissing], and so is a
// request without any key. More than 64 keys are ErrInvalidValue. All panics
// without fs, with more than 64, and if one is nil.
func All(fs ...Func) Func {
	if len(fs) == 0 || len(fs) > maxKeys {
		panic(fmt.Sprintf("keyfunc: All of %d Funcs: it takes 1 to %d", len(fs), maxKeys))
	}
	fs = slices.Clone(fs)
	for i, f := range fs {
		if f == nil {
			panic(fmt.Sprintf("keyfunc: All: Func %d is nil", i+1))
		}
	}
	return func(r Request) (string, error) {
		list := make([]string, 0, len(fs))
		for i, f := range fs {
			keys, err := KeysOf(f, r)
			if isAbsent(err) {
				continue
			}
			if err != nil {
				return "", err
			}
			if key, one := keys.One(); one && key == "" {
				return "", fmt.Errorf("%w: key %d of All", ErrMissing, i+1)
			}
			list = keys.addTo(list)
		}
		return named(list, "All")
	}
}

// addTo appends the keys that list does not hold.
func (k Keys) addTo(list []string) []string {
	if k.several == nil {
		if slices.Contains(list, k.key) {
			return list
		}
		return append(list, k.key)
	}
	for _, key := range k.several {
		list = Keys{key: key}.addTo(list)
	}
	return list
}

// named is what the Func of that name returns to name the keys of list, of which
// no two are equal.
func named(list []string, name string) (string, error) {
	switch {
	case len(list) == 0:
		return "", fmt.Errorf("%w: all keys of %s", ErrMissing, name)
	case len(list) > maxKeys:
		return "", fmt.Errorf("%w: %s names %d keys, more than %d", ErrInvalidValue, name, len(list), maxKeys)
	case len(list) == 1:
		return list[0], nil
	}
	return "", &several{list}
}
