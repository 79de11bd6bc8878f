package redisstore

import (
	"slices"
	"strconv"
)

// values are those of a list in a reply that are still to be read. A value that is missing, or is of another type than it
// is read as, makes the list bad, and is read as a zero. So whoever reads a list looks at that once, at the end.
type values struct {
	rest []any
	bad  bool
}

// valuesOf returns the values of a reply, which is bad if it is no list.
func valuesOf(reply any) values {
	list, ok := reply.([]any)
	return values{list, !ok}
}

// more reports whether there are further values.
func (v *values) more() bool { return len(v.rest) > 0 }

// read reports whether all values were read, and none was bad.
func (v *values) read() bool { return !v.bad && !v.more() }

// next reads a value of any type.
func (v *values) next() (value any) {
	if !v.more() {
		v.bad = true
		return nil
	}
	value, v.rest = v.rest[0], v.rest[1:]
	return value
}

// nextAs reads a value of one type.
func nextAs[T any](v *values) T {
	value, ok := v.next().(T)
	v.bad = v.bad || !ok
	return value
}

func (v *values) text() string   { return nextAs[string](v) }
func (v *values) list() []any    { return nextAs[[]any](v) }
func (v *values) integer() int64 { return nextAs[int64](v) }

// number reads a number that a script sent as text, see the function of this name.
func (v *values) number() int64 {
	n, ok := number(v.next())
	v.bad = v.bad || !ok
	return n
}

// number reads a number that a script sent as text, to keep all its digits.
func number(value any) (int64, bool) {
	text, ok := value.(string)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// areStrings reports whether all values are strings.
func areStrings(values []any) bool {
	return !slices.ContainsFunc(values, func(v any) bool {
		_, ok := v.(string)
		return !ok
	})
}
