package door

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockmw/kit/keyfunc"
)

// A Sample is the made-up request by which a key function tells, when a door is
// made, what it reads. It answers every question that a call could answer, and
// notes what cannot be answered by every door.
type Sample struct {
	CallMethod, CallRoute string
	Natives               []string // the door's native key functions, such as "httplock.Key"
	HTTP                  bool     // a call may have a query, a form and cookies
	Params                bool     // the route has whatever parameter is asked for

	Fields []string      // of the body, by path, each once
	Lists  []ListElement // arrays in the body whose elements were asked for
	Values []string      // of earlier middleware, by name

	Headers []string // that were asked for, in their order, each once
	Asked   bool     // whether anything but headers and fields was asked for that a key is made of
	Absent  string   // what was asked last, if no call has it
}

// A ListElement is what a key function reads of each element of an array: the
// field at Path of the elements of the array at List.
type ListElement struct{ List, Path string }

var (
	_ keyfunc.FormRequest   = (*Sample)(nil)
	_ keyfunc.CookieRequest = (*Sample)(nil)
	_ keyfunc.ArrayRequest  = (*Sample)(nil)
)

// Ask calls a key function once with s. If that panics, the error is nil: what s
// has answered is made up, and says nothing about calls.
func (s *Sample) Ask(key keyfunc.Func) (err error) {
	defer func() { _ = recover() }()
	_, err = key(s)
	return err
}

// alone returns the header or the field of the body that was asked for, in the words of a template, if nothing else was.
func (s *Sample) alone() (called, template string, ok bool) {
	switch {
	case s.Asked || len(s.Headers)+len(s.Fields) != 1:
		return "", "", false
	case len(s.Headers) == 1:
		return "header " + strconv.Quote(s.Headers[0]), "header." + s.Headers[0] + "|idempotency", true
	}
	return "body field " + strconv.Quote(s.Fields[0]), "body." + s.Fields[0], true
}

// made is a value that every filter of a template takes: a number, and a UUID
// without hyphens.
var made = strings.Repeat("0", 32)

// ofHTTP answers a question to which only an HTTP request has an answer.
func (s *Sample) ofHTTP(source, name string) (string, bool) {
	s.Asked = true
	if s.HTTP {
		s.Absent = ""
		return made, true
	}
	s.Absent = called(source, name)
	return "", false
}

// Context returns an empty context.
func (s *Sample) Context() context.Context {
	s.Asked = true
	s.Absent = ""
	return context.Background()
}

// Method returns the method.
func (s *Sample) Method() string {
	s.Absent = ""
	return s.CallMethod
}

// Route returns the route, which is where keyfunc looks for the names of
// parameters, also when one is missing.
func (s *Sample) Route() string {
	if s.Absent == "" && !s.Params {
		s.Absent = "parameters of the route"
	}
	return s.CallRoute
}

// Param returns a made-up value, if the route has it.
func (s *Sample) Param(name string) (string, bool) {
	s.Asked = true
	if s.Params {
		s.Absent = ""
		return made, true
	}
	s.Absent = fmt.Sprintf("the route parameter %q", name)
	return "", false
}

// Query returns a made-up value, if calls have a query.
func (s *Sample) Query(name string) (string, bool) { return s.ofHTTP("query", name) }

// Form returns a made-up value, if calls have a form.
func (s *Sample) Form(name string) (string, bool, error) {
	text, ok := s.ofHTTP("form", name)
	return text, ok, nil
}

// Cookie returns a made-up value, if calls have cookies.
func (s *Sample) Cookie(name string) (string, bool, error) {
	text, ok := s.ofHTTP("cookie", name)
	return text, ok, nil
}

// Value returns a made-up value.
func (s *Sample) Value(name string) (any, bool) {
	s.Asked = true
	s.Absent = ""
	if !slices.Contains(s.Values, name) {
		s.Values = append(s.Values, name)
	}
	return made, true
}

// Header returns a made-up value.
func (s *Sample) Header(name string) (string, bool) {
	s.Absent = ""
	if !slices.Contains(s.Headers, name) {
		s.Headers = append(s.Headers, name)
	}
	return made, true
}

// Body returns a made-up value.
func (s *Sample) Body(path string) (string, bool, error) {
	s.Absent = ""
	if !slices.Contains(s.Fields, path) {
		s.Fields = append(s.Fields, path)
	}
	return made, true, nil
}

// Elements returns one element.
func (s *Sample) Elements(list string, _ int) ([]keyfunc.Element, bool, error) {
	s.Asked = true
	s.Absent = ""
	return []keyfunc.Element{func(path string) (string, bool, error) {
		s.Lists = append(s.Lists, ListElement{list, path})
		return made, true, nil
	}}, true, nil
}
