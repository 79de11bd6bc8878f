package grpclock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockmw/kit/keyfunc"
)

// A probe is the request by which a key function tells what it reads. It
// answers every question that a call could answer.
type probe struct {
	method string
	paths  []string // of the message's fields
	lists  []listed // repeated fields whose elements were asked for
	absent string   // what was asked last, if no call has it
}

// A listed is what a key function reads of each element of a repeated field.
type listed struct{ list, path string }

// probed calls a key function once, with a probe, and returns the probe, which
// knows the paths of the fields that were read. The error says that it can never find what it
// needs. Whatever else it does, such as panic, says nothing about calls: what
// the probe gives it is made up.
func probed(method string, key keyfunc.Func) (*probe, error) {
	p := &probe{method: method}
	if err := p.ask(key); errors.Is(err, keyfunc.ErrMissing) && p.absent != "" {
		return nil, fmt.Errorf("its Key needs %s, and a gRPC call has none: take a body field or a header (metadata)", p.absent)
	}
	return p, nil
}

func (p *probe) ask(key keyfunc.Func) (err error) {
	defer func() { _ = recover() }()
	_, err = key(p)
	return err
}

// made is a value that every filter of a template takes: a number, and a UUID
// without hyphens.
var made = strings.Repeat("0", 32)

func (p *probe) Context() context.Context {
	p.absent = ""
	return context.Background()
}

func (p *probe) Method() string {
	p.absent = ""
	return p.method
}

// Route is where keyfunc looks for names of parameters, also when one is missing.
func (p *probe) Route() string {
	if p.absent == "" {
		p.absent = "parameters of the route"
	}
	return p.method
}

func (p *probe) Param(name string) (string, bool) {
	p.absent = fmt.Sprintf("the route parameter %q", name)
	return "", false
}

func (p *probe) Query(name string) (string, bool) {
	p.absent = fmt.Sprintf("the query parameter %q", name)
	return "", false
}

// Form and Cookie are for keys that are shared with HTTP.
func (p *probe) Form(name string) (string, bool, error) {
	p.absent = fmt.Sprintf("the form field %q", name)
	return "", false, nil
}

func (p *probe) Cookie(name string) (string, bool, error) {
	p.absent = fmt.Sprintf("the cookie %q", name)
	return "", false, nil
}

func (p *probe) Value(name string) (any, bool) {
	p.absent = fmt.Sprintf("the value %q of earlier middleware", name)
	return nil, false
}

func (p *probe) Header(string) (string, bool) {
	p.absent = ""
	return made, true
}

func (p *probe) Body(path string) (string, bool, error) {
	p.absent = ""
	if !slices.Contains(p.paths, path) {
		p.paths = append(p.paths, path)
	}
	return made, true, nil
}

// Elements answers with one element.
func (p *probe) Elements(list string, _ int) ([]keyfunc.Element, bool, error) {
	p.absent = ""
	return []keyfunc.Element{func(path string) (string, bool, error) {
		p.lists = append(p.lists, listed{list, path})
		return made, true, nil
	}}, true, nil
}
