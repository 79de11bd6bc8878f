package keyfunc

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// source is a part of the request that a value can come from, by the name that
// templates and errors give it.
type source string

const (
	sourceParam  source = "param"
	sourceQuery  source = "query"
	sourceHeader source = "header"
	sourceBody   source = "body"
	sourceForm   source = "form"
	sourceCookie source = "cookie"
	sourceValue  source = "value"
	sourceMethod source = "method"
	sourceRoute  source = "route"
	sourceParams source = "params" // many values; see params.go
)

// value is one value of a request and what is asked of it.
type value struct {
	source   source
	name     string // empty for method and route
	optional bool   // missing and empty are fine
	fallback string // in the place of such a one, filtered; empty: none
	filters  []filter
}

// text returns the filtered value, or the default if there is none. It is empty only if
// the value is optional.
func (v *value) text(r Request) (string, error) {
	s, err := v.read(r)
	if err != nil {
		return "", err
	}
	if s == "" {
		if !v.optional {
			return "", v.missing(r) // no filter makes a required value out of nothing
		}
		if v.fallback != "" {
			return v.fallback, nil
		}
	}
	if len(v.filters) == 0 && isOddInteger(s) {
		if told, ok := As[oddRequest](r); ok {
			told.OddInteger(string(v.source), v.name)
		}
	}
	s, reason := v.filtered(s)
	if reason != "" {
		return "", v.invalid(reason)
	}
	return s, nil
}

// An oddRequest is told of a value without a filter that is an integer in another
// spelling than that of strconv.Itoa: to a handler that reads an int it is one thing
// with others, which have other keys.
type oddRequest interface {
	Request
	OddInteger(source, name string)
}

// isOddInteger reports whether |int would change s.
func isOddInteger(s string) bool {
	if s == "" || s == "0" || s[0] != '+' && s[0] != '-' && s[0] != '0' || len(s) > 1 && s[0] == '-' && '1' <= s[1] && s[1] <= '9' {
		return false
	}
	_, ok := canonicalInt(s)
	return ok
}

// filtered returns what the filters make of s, or why they refuse it.
func (v *value) filtered(s string) (text, reason string) {
	if len(s) > maxValue {
		return "", tooLong
	}
	for _, f := range v.filters {
		if s == "" {
			s = f.missing
			continue
		}
		var ok bool
		if s, ok = f.apply(s); !ok {
			return "", "is not " + f.wants
		}
	}
	return s, ""
}

// read returns the value as the request has it, empty if it is missing.
func (v *value) read(r Request) (string, error) {
	var s string
	var ok bool
	switch v.source {
	case sourceParam:
		s, ok = r.Param(v.name)
	case sourceQuery:
		s, ok = r.Query(v.name)
	case sourceHeader:
		s, ok = r.Header(v.name)
	case sourceBody:
		var err error
		if s, ok, err = r.Body(v.name); err != nil {
			return "", v.unread(err)
		}
	case sourceForm, sourceCookie:
		var err error
		if s, ok, err = v.ofHTTP(r); err != nil {
			return "", v.unread(err)
		}
	case sourceValue:
		return v.stored(r)
	case sourceMethod:
		return r.Method(), nil
	case sourceRoute:
		return r.Route(), nil
	case sourceParams: // has several values, see appendParams
	}
	if !ok {
		return "", nil
	}
	return s, nil
}

// ofHTTP returns a value that not every kind of call can have.
func (v *value) ofHTTP(r Request) (string, bool, error) {
	if v.source == sourceForm {
		if r, ok := As[FormRequest](r); ok {
			return r.Form(v.name)
		}
	} else if r, ok := As[CookieRequest](r); ok {
		return r.Cookie(v.name)
	}
	return "", false, fmt.Errorf("a %T has no %ss", r, v.source)
}

// label names the value for errors: param "id", method.
func (v *value) label() string {
	if v.name == "" {
		return string(v.source)
	}
	return fmt.Sprintf("%s %q", v.source, v.name)
}

const tooLong = "is longer than 8 KiB"

// missing is the error for a required value that r does not have. If no request to
// its route can have it, that is said in the place of what the request lacks.
func (v *value) missing(r Request) error {
	switch v.source {
	case sourceRoute:
		return noRoute(v.label())
	case sourceParam:
		if err := checkRoute(r, v.name, v.label()); err != nil {
			return err
		}
	default:
	}
	return v.fails("is missing", fmt.Errorf("%w: %s", ErrMissing, v.label()))
}

// unread is the error for a value that the Request does not give, because of err. That may have a
// reason for clients, as those of the middlewares have.
func (v *value) unread(err error) error {
	reason := ""
	if told, ok := errors.AsType[interface {
		error
		Reason() string
	}](err); ok {
		reason = told.Reason()
	}
	return v.fails(reason, fmt.Errorf("keyfunc: %s: %w", v.label(), err))
}

// invalid is the error for a value that is there and cannot be used. Clients may be told why.
func (v *value) invalid(why string) error { return v.fails(why, v.invalidText(why)) }

// unusable is the same, with a reason that is about the program and not for clients.
func (v *value) unusable(why string) error { return v.fails("", v.invalidText(why)) }

func (v *value) invalidText(why string) error {
	return fmt.Errorf("%w: %s %s", ErrInvalidValue, v.label(), why)
}

// Param returns a Func whose key is the route parameter of that name. The errors
// are [ErrMissing], [ErrMisuse] if no route is known or the route has no such
// parameter, and [ErrInvalidValue] for a value over 8 KiB. Param panics if name is
// empty.
func Param(name string) Func { return one(sourceParam, name) }

// Query returns a Func whose key is the query parameter of that name. The errors
// are [ErrMissing], and [ErrInvalidValue] for a value over 8 KiB. Query panics if
// name is empty.
func Query(name string) Func { return one(sourceQuery, name) }

// Header returns a Func whose key is the header of that name; in gRPC, the incoming
// metadata. Of several values it takes the first. The errors are [ErrMissing], and
// [ErrInvalidValue] for a value over 8 KiB. Header panics if name is empty, or
// contains a character that no name of a header has.
func Header(name string) Func { return one(sourceHeader, name) }

// Body returns a Func whose key is the body field at a path such as "customer.id".
// The errors are [ErrMissing], [ErrInvalidValue] for a value over 8 KiB, and
// whatever [Request.Body] returns, wrapped. Body panics if path, or a name in it,
// is empty.
func Body(path string) Func { return one(sourceBody, path) }

// Form returns a Func whose key is the value of that name in a form. The form is
// the body of an HTTP request, URL-encoded or multipart. The errors are
// [ErrMissing], [ErrInvalidValue] for a value over 8 KiB, and whatever
// [FormRequest] returns, wrapped. A Request that is no FormRequest gives another
// error. Form panics if name is empty.
func Form(name string) Func { return one(sourceForm, name) }

// Cookie returns a Func whose key is the value of the cookie of that name. The
// client chooses that value like any other: as a key, a session is only as good as
// the code that has checked it. The errors are [ErrMissing], [ErrInvalidValue] for
// a value over 8 KiB, and whatever [CookieRequest] returns, wrapped. A Request that
// is no CookieRequest gives another error. Cookie panics if name is empty, or
// contains a character that no name of a cookie has.
func Cookie(name string) Func { return one(sourceCookie, name) }

// Value returns a Func whose key is what [Request.Value] returns for name: what
// earlier middleware stored, such as the tenant or the user. It can be a string,
// []byte, integer or bool, or a type made from one of these. It can also be of any
// other type that implements [encoding.TextMarshaler] or [fmt.Stringer]; that text
// must tell two different values apart. Integers, strings and bools are taken as
// they are, even if they have such methods.
//
// Three kinds of types are refused although they have such methods: [time.Time],
// because one instant has many texts; a protobuf message, because its text may
// change with the next build; and a struct whose text is that of an embedded field
// alone.
//
// The errors are [ErrMissing], also for nil; [ErrMisuse] for any other type, which
// the error names; and [ErrInvalidValue] if MarshalText fails or the text is over
// 8 KiB. Value panics if name is empty.
func Value(name string) Func { return one(sourceValue, name) }

func one(s source, name string) Func {
	if name == "" {
		panic(fmt.Sprintf("keyfunc: %s with an empty name: no request has one, all would be refused", s))
	}
	if _, reason := badName(s, name); reason != "" {
		panic(fmt.Sprintf("keyfunc: %s %q: %s", s, name, reason))
	}
	v := value{source: s, name: name}
	return func(r Request) (string, error) {
		text, err := v.text(r)
		if err != nil {
			return "", err
		}
		var buf [bufferSize]byte
		return finish(appendEscaped(buf[:0], text, none, none)), nil
	}
}

// Route returns a Func whose key is the method and the route: "POST /orders/:id".
// Braces are escaped, so the net/http pattern "POST /orders/{id}" becomes
// "POST /orders/%7Bid%7D". A method that would stand there twice is written once.
// This applies to a pattern that begins with its method, and to gRPC, where the
// full method is also the route.
//
// The error is [ErrMisuse] where no route is known, as in a middleware in front of
// the router, and [ErrInvalidValue] for a method or a route over 8 KiB.
func Route() Func { return methodAndRoute }

// methodAndRoute is the one Func that Route returns. It is no closure, so that
// isRoute knows it.
func methodAndRoute(r Request) (string, error) {
	method, route := value{source: sourceMethod}, value{source: sourceRoute}
	m, err := method.text(r)
	if err != nil {
		return "", err
	}
	p, err := route.text(r)
	if err != nil {
		return "", err
	}
	var buf [bufferSize]byte
	key := appendEscaped(buf[:0], m, ' ', none) // the first space ends the method
	if p != m {
		key = append(key, ' ')
		key = appendEscaped(key, withoutMethod(p, m), none, none)
	}
	return finish(key), nil
}

// isRoute reports whether f is what Route returns. Its keys are escaped text, in
// which Join need not escape a '%' again: no two of them become equal by that,
// because ':' is never escaped in them. Functions cannot be compared, but the
// code of a function that is no closure is no other function's.
func isRoute(f Func) bool {
	return reflect.ValueOf(f).Pointer() == reflect.ValueOf(methodAndRoute).Pointer()
}

// withoutMethod removes from a net/http pattern the method that it may begin
// with, and the blanks after that.
func withoutMethod(pattern, method string) string {
	rest, ok := strings.CutPrefix(pattern, method)
	if path := strings.TrimLeft(rest, " \t"); ok && path != rest {
		return path
	}
	return pattern
}
