package rpcdoor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// A Door is what an interceptor has made of its arguments. It does not change
// any more.
type Door struct {
	Options
	Locker *lockmw.Locker
	exact  map[string]*MethodRule // by full method
	wild   map[string]*MethodRule // by service, as in "/shop.v1.Orders/"

	// Of doors that are for some methods alone: which a rule for all of a service is for, and what else is made ready of
	// a rule for one. The descriptor is nil if that is not known.
	covers   func(protoreflect.MethodDescriptor) bool
	complete func(name string, ready *MethodRule, m protoreflect.MethodDescriptor) error
}

// A MethodRule is a rule, made ready for one method.
type MethodRule struct {
	Rule
	asked        *door.Sample // what the key is known to be made of
	fields       []field      // of the method's message, as far as known at start-up
	needsMessage bool         // the key is known to be made from the message
	once         *once        // of a door called Idempotent
}

// New makes rules ready. It panics about what cannot work.
func New(o Options, l *lockmw.Locker, rules Rules) *Door {
	d := newDoor(o, l)
	if rules == nil {
		d.panicf("the Rules are nil; no method would run under a lock")
	}
	d.addRules(rules)
	return d
}

// newDoor returns a door without rules.
func newDoor(o Options, l *lockmw.Locker) *Door {
	if l == nil {
		o.panicf("the Locker is nil")
	}
	return &Door{Options: o, Locker: l, exact: make(map[string]*MethodRule), wild: make(map[string]*MethodRule)}
}

// addRules makes rules ready.
func (d *Door) addRules(rules Rules) {
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if err := d.add(name, rules); err != nil {
			d.panicf("rule %q: %v", name, err)
		}
	}
}

// add makes a rule ready for its methods.
func (d *Door) add(name string, rules Rules) error {
	rule := rules[name]
	if err := rule.check(d.Locker, name); err != nil {
		return err
	}
	service, method := Cut(name)
	methods := MethodsOf(service)
	if method == wildcard && methods != nil {
		return d.addAll(service, methods, rules)
	}
	var known protoreflect.MethodDescriptor
	if methods != nil {
		if known = methods.ByName(protoreflect.Name(method)); known == nil {
			return noMethod(service, method, methods)
		}
	}
	ready, err := d.newMethodRule(name, rule, known)
	if err != nil {
		return err
	}
	if known == nil {
		d.warn(name)
	}
	if method == wildcard {
		d.wild[service] = ready
	} else {
		d.exact[name] = ready
	}
	return nil
}

// addAll makes the rule of a service ready for all methods that have none of
// their own.
func (d *Door) addAll(service string, methods protoreflect.MethodDescriptors, rules Rules) error {
	rule := rules[service+wildcard]
	d.wild[service] = &MethodRule{Rule: rule} // for what is served and not in the descriptor
	for i := range methods.Len() {
		m := methods.Get(i)
		name := fullMethod(m)
		if _, has := rules[name]; has || d.covers != nil && !d.covers(m) {
			continue
		}
		ready, err := d.newMethodRule(name, rule, m)
		if err != nil {
			return fmt.Errorf("method %s: %w", name, err)
		}
		d.exact[name] = ready
	}
	return nil
}

// newMethodRule makes a rule ready for a method. m is nil if that is not known.
func (d *Door) newMethodRule(name string, rule Rule, m protoreflect.MethodDescriptor) (*MethodRule, error) {
	ready, err := newMethodRule(d.Words, name, rule, m)
	switch {
	case err != nil:
		return nil, err
	case len(ready.asked.Values) > 0 && d.values == nil:
		return nil, errors.New(d.noValues(ready.asked.Values[0]))
	case d.complete != nil:
		err = d.complete(name, ready, m)
	}
	return ready, err
}

// checkFields returns the mistakes that are found in the rule of a known method before there
// is a Locker.
func checkFields(w Words, rule Rule, m protoreflect.MethodDescriptor) error {
	_, err := newMethodRule(w, fullMethod(m), rule, m)
	return err
}

// newMethodRule asks the key function what it reads, and finds the fields of that in
// the method's message. m is nil if the method is not known.
func newMethodRule(w Words, name string, rule Rule, m protoreflect.MethodDescriptor) (*MethodRule, error) {
	read, err := probed(w, name, rule.Key)
	if err != nil {
		return nil, err
	}
	ready := &MethodRule{Rule: rule, asked: read, needsMessage: len(read.Fields)+len(read.Lists) > 0}
	if m == nil {
		return ready, nil
	}
	for _, of := range read.Lists {
		list, err := newList(m.Input(), of.List)
		if err == nil {
			err = list.checkElement(of.Path)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, path := range read.Fields {
		f, err := newField(m.Input(), path)
		if err != nil {
			return nil, err
		}
		ready.fields = append(ready.fields, f)
	}
	return ready, nil
}

// probed calls a key function once, with a made-up call, and returns what it reads.
// The error says that it can never find what it needs. Whatever else it does, such as
// panic, says nothing about calls.
func probed(w Words, method string, key keyfunc.Func) (*door.Sample, error) {
	call := &door.Sample{CallMethod: method, CallRoute: method, Natives: nativeKeys}
	if err := call.Ask(key); errors.Is(err, keyfunc.ErrMissing) && call.Absent != "" {
		return nil, fmt.Errorf("its Key needs %s, and %s has none: take a body field or a header (metadata)", call.Absent, w.Call)
	}
	return call, nil
}

// MethodsOf returns the methods of a service, or nil if this program does not know it:
// the packages that are generated of .proto files register what they describe.
func MethodsOf(service string) protoreflect.MethodDescriptors {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(serviceName(service))
	if s, is := found.(protoreflect.ServiceDescriptor); err == nil && is {
		return s.Methods()
	}
	return nil
}

// noMethod is the error of a rule for a method that its service does not have. Such a
// rule is for no call at all, and the method that was meant would run without a lock.
func noMethod(service, method string, methods protoreflect.MethodDescriptors) error {
	var all []string
	for i := range methods.Len() {
		name := fullMethod(methods.Get(i))
		if strings.EqualFold(name, service+method) {
			return fmt.Errorf("the service has no such method: did you mean %s?", name)
		}
		all = append(all, name)
	}
	return fmt.Errorf("the service has no such method, but %s", strings.Join(all, ", "))
}

// warned has the names of rules that were reported: rules are often given to
// several interceptors.
var warned sync.Map

// warn reports a rule whose service is not known to this program. It may be one
// without a descriptor, and works all the same; but it may also be a slip of the
// pen, which leaves the method that was meant without a lock.
func (d *Door) warn(name string) {
	if _, again := warned.LoadOrStore(name, true); !again {
		d.Logger.Warn(d.Package+": a rule is for a service that this program does not know: is it spelled right?", "rule", name)
	}
}

// Unknown returns the rules for all methods of a service that this program does not know, sorted.
func (d *Door) Unknown() []string {
	var names []string
	for service := range d.wild {
		if MethodsOf(service) == nil {
			names = append(names, service+wildcard)
		}
	}
	slices.Sort(names)
	return names
}

// Methods returns the methods known to this program that have a rule, sorted.
func (d *Door) Methods() []string { return slices.Sorted(maps.Keys(d.exact)) }
