package keyfunc

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Const returns a Func whose key is always s. In it, '%', braces, control
// characters and bytes that are not UTF-8 are escaped. The Func never fails. Const
// panics if s is empty, because an empty key would lock all requests against each
// other. It also panics if s is a template with a placeholder, such as
// "{param.id}", because Const does not fill it in.
func Const(s string) Func {
	if s == "" {
		panic("keyfunc: Const of an empty string: an empty key would lock all requests against each other")
	}
	if _, err := parse(s); err == nil { // without a placeholder it would not parse
		panic(fmt.Sprintf("keyfunc: Const of %q: it fills in no placeholder, so all requests would take one lock; use keyfunc.MustParse", s))
	}
	key := finish(appendEscaped(nil, s, none, none))
	return func(Request) (string, error) { return key, nil }
}

// Join returns a Func whose key is made of the keys of parts, joined with ':'. In
// each part, '%', ':' and what no key may contain are escaped. So different parts
// never give the same key, whatever Funcs they come from: ("a:b", "c") gives
// "a%3Ab:c" and ("a", "b:c") gives "a:b%3Ac".
//
// If a part has already escaped something, the '%' of that escape is escaped again,
// except in [Route]: "POST /orders/{id}" and 42 give "POST /orders/%7Bid%7D:42".
// Join and a template that looks like it give the same key only for values without
// such characters, and keys of up to 200 bytes. So do not lock one thing by both of
// them.
//
// An empty part, which Funcs of your own may return, is [ErrMissing]. Otherwise all
// requests without a tenant, for example, would share one lock. Only an [Optional]
// part may be empty, and not all parts of one key. A part over 8 KiB is
// [ErrInvalidValue], and one that names several keys is [ErrMisuse]. The parts are
// asked in order, and the first error of one, including [Skip], is returned as it
// is.
//
// Join panics without parts, and if one is nil.
func Join(parts ...Func) Func {
	if len(parts) == 0 {
		panic("keyfunc: Join without parts: an empty key would lock all requests against each other")
	}
	parts = slices.Clone(parts)
	escaped := make([]bool, len(parts))
	for i, part := range parts {
		if part == nil {
			panic(fmt.Sprintf("keyfunc: Join: part %d is nil", i+1))
		}
		escaped[i] = isRoute(part)
	}
	return func(r Request) (string, error) {
		var buf [bufferSize]byte
		key := buf[:0]
		for i, part := range parts {
			s, err := part(r)
			switch {
			case isAbsent(err):
				s = ""
			case err != nil:
				return "", inside(err, "part %d of Join", i+1)
			case s == "":
				return "", fmt.Errorf("%w: part %d of Join; if that is meant, make it keyfunc.Optional(part)", ErrMissing, i+1)
			case len(s) > maxValue:
				return "", fmt.Errorf("%w: part %d of Join %s", ErrInvalidValue, i+1, tooLong)
			}
			if i > 0 {
				key = append(key, separator)
			}
			if escaped[i] {
				key = append(key, strings.ReplaceAll(s, ":", "%3A")...)
			} else {
				key = appendEscaped(key, s, separator, none)
			}
		}
		if len(key) == len(parts)-1 { // nothing but separators
			return "", fmt.Errorf("%w: all parts of Join", ErrMissing)
		}
		return finish(key), nil
	}
}

// Optional returns a Func for a value that may be missing or empty. Without the
// value, it is an empty part in [Join], and names no key in [All] and [Each]. With
// it, the key is that of f. Only [ErrMissing] of f counts as missing; other errors
// are returned as they are.
//
//	keyfunc.Join(keyfunc.Const("stock"), keyfunc.Query("sku"), keyfunc.Optional(keyfunc.Query("shelf")))
//
// On its own, an Optional that has no value is ErrMissing like any other Func. In a
// template, "?" says the same of one value. Optional panics if f is nil.
func Optional(f Func) Func {
	if f == nil {
		panic("keyfunc: Optional of a nil Func")
	}
	return func(r Request) (string, error) {
		key, err := f(r)
		switch {
		case err == nil && key == "":
			return "", &absent{fmt.Errorf("%w: key to Optional", ErrMissing)}
		case errors.Is(err, ErrMissing) && !errors.Is(err, Skip):
			return "", &absent{err}
		}
		return key, err
	}
}

// absent is the error of an Optional that has no value.
type absent struct{ cause error } // Is ErrMissing

func (a *absent) Error() string { return a.cause.Error() + " (Optional allows that in Join and All)" }

// Unwrap returns the error for which there is no value.
func (a *absent) Unwrap() error { return a.cause }

func isAbsent(err error) bool {
	_, is := errors.AsType[*absent](err)
	return is
}

// Hash returns a Func whose key is the SHA-256 of f's key, as 64 lower-case
// hexadecimal digits. It shortens a key, and hides it from a casual look. A value
// that can be guessed, such as an e-mail address, can still be found by trying. Use
// [Secret] for such values.
//
// Hash hashes the key, in which some characters are escaped. The filter |hash
// hashes the value itself. An error of f, including [Skip], is returned as it is.
// An empty key is [ErrMissing], one over 8 KiB is [ErrInvalidValue], and several
// keys are [ErrMisuse]. Hash panics if f is nil.
func Hash(f Func) Func {
	if f == nil {
		panic("keyfunc: Hash of a nil Func")
	}
	return digest("Hash", f, hexSHA256)
}

// Secret returns a Func whose key is the HMAC-SHA-256 of f's key under a secret
// key, as 64 lower-case hexadecimal digits. Without the secret, nobody can tell
// which value it was. All instances of a service must use the same secret, or they
// will not lock each other out. This also applies to old and new instances that run
// side by side during an update.
//
// Secret keeps a copy of key. The errors are those of [Hash]. Secret panics if key
// is empty, because it would then hide no more than Hash does, and if f is nil.
func Secret(key []byte, f Func) Func {
	if len(key) == 0 {
		panic("keyfunc: Secret with an empty key: it would hide nothing")
	}
	if f == nil {
		panic("keyfunc: Secret of a nil Func")
	}
	key = slices.Clone(key)
	return digest("Secret", f, func(s string) string {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(s))
		return hexOf([sha256.Size]byte(mac.Sum(nil)))
	})
}

// inside returns the error of a Func that another one has called for one key.
// It is the same error, unless that names several keys, which is a mistake of the
// program.
func inside(err error, format string, args ...any) error {
	if keys, ok := severalIn(err); ok {
		return misused(fmt.Errorf("%w: "+format+" names %d keys; All goes around other Funcs, or one lock would stand for all its keys",
			append(append([]any{ErrInvalidValue}, args...), len(keys))...))
	}
	return err
}

// digest returns a Func whose key is the sum of f's key.
func digest(name string, f Func, sum func(string) string) Func {
	return func(r Request) (string, error) {
		key, err := f(r)
		switch {
		case err != nil:
			return "", inside(err, "key to %s", name)
		case key == "":
			return "", fmt.Errorf("%w: key to %s", ErrMissing, name)
		case len(key) > maxValue:
			return "", fmt.Errorf("%w: key to %s %s", ErrInvalidValue, name, tooLong)
		}
		return sum(key), nil
	}
}
