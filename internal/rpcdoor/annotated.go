package rpcdoor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockmw/kit/grpclock/lockmwv1"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// Annotated returns the rules that stand in .proto files, beside the methods of services
// with these names, or of all.
func Annotated(w Words, services ...string) (Rules, error) {
	found, err := servicesOf(w, services)
	errs := []error{err}
	rules := make(Rules)
	for _, service := range found {
		before := len(rules) + len(errs)
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			rule, annotated, err := annotation(w, m)
			switch {
			case err != nil:
				errs = append(errs, fmt.Errorf("%s: annotation of %s: %w", w.Package, m.FullName(), err))
			case annotated:
				rules[fullMethod(m)] = rule
			}
		}
		if len(services) > 0 && len(rules)+len(errs) == before {
			errs = append(errs, fmt.Errorf("%s: no method of %s has the option (lockmw.v1.lock): all would run without a lock; is its generated code up to date?", w.Package, service.FullName()))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(rules) == 0 {
		return nil, errors.New(w.Package + ": Annotated: no method that this program knows has the option (lockmw.v1.lock): all would run without a lock; import the package generated of its .proto file")
	}
	return rules, nil
}

// servicesOf returns the services of these names, or all.
func servicesOf(w Words, names []string) ([]protoreflect.ServiceDescriptor, error) {
	if len(names) == 0 {
		return allServices(), nil
	}
	var services []protoreflect.ServiceDescriptor
	var errs []error
	for _, name := range names {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if s, is := found.(protoreflect.ServiceDescriptor); err == nil && is {
			services = append(services, s)
			continue
		}
		errs = append(errs, fmt.Errorf("%s: Annotated: no service %q is known; import the package generated of its .proto file", w.Package, name))
	}
	return services, errors.Join(errs...)
}

// allServices returns the services that the program knows, by name.
func allServices() []protoreflect.ServiceDescriptor {
	var services []protoreflect.ServiceDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			services = append(services, file.Services().Get(i))
		}
		return true
	})
	slices.SortFunc(services, func(a, b protoreflect.ServiceDescriptor) int { return cmp.Compare(a.FullName(), b.FullName()) })
	return services
}

// annotation returns the rule that stands beside a method, if one does.
func annotation(w Words, m protoreflect.MethodDescriptor) (rule Rule, annotated bool, err error) {
	options, err := readable(m.Options())
	if err != nil || !proto.HasExtension(options, lockmwv1.E_Lock) {
		return Rule{}, false, err
	}
	lock, _ := proto.GetExtension(options, lockmwv1.E_Lock).(*lockmwv1.Lock)
	if rule, err = ruleOf(lock); err == nil {
		err = checkFields(w, rule, m) // the fields, which the interceptors look for again
	}
	return rule, true, err
}

// readable returns the options of a method as if they had been read with the
// annotation known. Those of a descriptor that was not made by generated code
// may have been read without it, and have it as unknown bytes; it would be
// overlooked, and the method not locked.
func readable(options protoreflect.ProtoMessage) (*descriptorpb.MethodOptions, error) {
	bytes, err := proto.Marshal(options)
	if err != nil {
		return nil, err
	}
	known := new(protoregistry.Types)
	if err := known.RegisterExtension(lockmwv1.E_Lock); err != nil {
		return nil, err
	}
	var read descriptorpb.MethodOptions
	err = proto.UnmarshalOptions{Resolver: known, AllowPartial: true}.Unmarshal(bytes, &read)
	return &read, err
}

// ruleOf makes a rule of an annotation.
func ruleOf(a *lockmwv1.Lock) (Rule, error) {
	if a.GetKey() == "" {
		return Rule{}, errors.New("it has no key: all calls would wait for the same lock; write {method} if that is meant")
	}
	key, err := keyfunc.Parse(a.GetKey())
	if err != nil {
		return Rule{}, err
	}
	policy, err := policyOf(a)
	if err == nil {
		err = policy.Validate()
	}
	return Rule{Key: key, Policy: policy}, err
}

func policyOf(a *lockmwv1.Lock) (lockmw.Policy, error) {
	p := lockmw.Policy{
		Name: a.GetName(), Prefix: a.GetPrefix(), Retries: int(a.GetRetries()), Permits: int(a.GetPermits()),
		Reentrant: a.GetReentrant(), FailOpen: a.GetFailOpen(), MinHoldOnError: a.GetMinHoldOnError(), AsyncRelease: a.GetAsyncRelease(),
		Shadow: a.GetShadow(),
	}
	switch a.GetMode() {
	case lockmwv1.Lock_EXCLUSIVE:
	case lockmwv1.Lock_SHARED:
		p.Mode = lockmw.Shared
	default:
		return p, fmt.Errorf("mode: %d is neither EXCLUSIVE nor SHARED", a.GetMode())
	}
	for _, d := range []struct {
		name string
		from *durationpb.Duration
		to   *time.Duration
	}{
		{"ttl", a.GetTtl(), &p.TTL},
		{"wait", a.GetWait(), &p.Wait},
		{"retry_interval", a.GetRetryInterval(), &p.RetryInterval},
		{"max_hold", a.GetMaxHold(), &p.MaxHold},
		{"min_hold", a.GetMinHold(), &p.MinHold},
		{"retry_after", a.GetRetryAfter(), &p.RetryAfter},
	} {
		if d.from == nil {
			continue
		}
		if err := d.from.CheckValid(); err != nil {
			return p, fmt.Errorf("%s: %w", d.name, err)
		}
		if *d.to = d.from.AsDuration(); !proto.Equal(durationpb.New(*d.to), d.from) {
			return p, fmt.Errorf("%s: %d seconds are more than the 292 years that a time.Duration holds", d.name, d.from.GetSeconds())
		}
	}
	if a.GetRetryForever() {
		if p.Retries != 0 {
			return p, fmt.Errorf("it has both retries (%d) and retry_forever", p.Retries)
		}
		p.Retries = lockmw.Forever
	}
	return p, nil
}
