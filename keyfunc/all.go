package keyfunc

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
)

// All returns a Func that names several locks, one for each of fs: a transfer
// locks both accounts, {from} and {to}. A door takes all of them or none, in
// the same order whichever way round a request names them, see
// lockmw.Locker.AcquireAll. Two that are equal are one.
//
//	keyfunc.All(
//		keyfunc.MustParse("account:{body.from}"),
//		keyfunc.MustParse("account:{body.to}"))
//
// What it returns is no key but a list of keys, for a door: All goes around
// Join, Hash and Secret, not into them, where it is [ErrInvalidValue]. An All
// in an All is one list. [Keys] takes the list apart. It holds 16 keys at most;
// more are ErrInvalidValue, and so is a key with a line break.
//
// The first error of one, [Skip] among them, is returned as it is. An empty key
// is [ErrMissing]. All panics without fs, with more than 16, and if one is nil.
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
		var list []string
		for i, f := range fs {
			key, err := f(r)
			if err != nil {
				return "", err
			}
			if key == "" {
				return "", fmt.Errorf("%w: key %d of All", ErrMissing, i+1)
			}
			if !Several(key) && strings.Contains(key, separatorOfKeys) {
				return "", fmt.Errorf("%w: key %d of All has a line break", ErrInvalidValue, i+1)
			}
			list = append(list, Keys(key)...)
		}
		switch {
		case len(list) > maxKeys:
			return "", fmt.Errorf("%w: All names %d keys, more than %d", ErrInvalidValue, len(list), maxKeys)
		case len(list) == 1:
			return list[0], nil
		}
		return listMark + strings.Join(list, separatorOfKeys), nil
	}
}

const (
	maxKeys         = 16
	separatorOfKeys = "\n"
)

// listMark begins a list. It is random, so that nothing that comes with a
// request is ever taken for one.
var listMark = "\n" + rand.Text() + "\n"

// Keys returns the keys that a Func named: those of [All], or the one key
// alone.
func Keys(key string) []string {
	list, several := strings.CutPrefix(key, listMark)
	if !several {
		return []string{key}
	}
	return strings.Split(list, separatorOfKeys)
}

// Several reports whether a Func named more than one key.
func Several(key string) bool { return strings.HasPrefix(key, listMark) }
