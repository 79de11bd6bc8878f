package lockgen

import (
	"fmt"
	"go/types"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// A setting is an option that was read: the field of lockmw.Policy and its value as Go.
type setting struct {
	field string
	code  func(*imports) string
}

// A policy is what the options of a directive say.
type policy struct {
	base     *option // policy=, the variable that the others override
	settings []setting
}

// A knownOption is one that a directive can have.
type knownOption struct {
	name    string
	field   string // of lockmw.Policy
	example string // a value, for an error to name
	read    func(p *lockmw.Policy, value string) (code func(*imports) string, wrong string)
	// without is a value that says something only behind policy=, whose field it sets
	// back, and what to do about it elsewhere.
	without struct{ value, reason string }
}

// only returns the option with a value that is refused without policy=.
func (o knownOption) only(value, reason string) knownOption {
	o.without.value, o.without.reason = value, reason
	return o
}

func durationOption(name, field string, at func(*lockmw.Policy) *time.Duration) knownOption {
	return knownOption{name: name, field: field, example: "3s", read: func(p *lockmw.Policy, value string) (func(*imports) string, string) {
		d, err := time.ParseDuration(value)
		if err != nil {
			wrong := fmt.Sprintf("%q is no duration: write 200ms, 3s or 1m30s", value)
			if _, err := strconv.Atoi(value); err == nil {
				wrong = fmt.Sprintf("%s has no unit: write %sms or %ss", value, value, value)
			}
			return nil, wrong
		}
		*at(p) = d
		return func(i *imports) string { return durationCode(i, d) }, ""
	}}
}

func textOption(name, field string, at func(*lockmw.Policy) *string) knownOption {
	return knownOption{name: name, field: field, example: "order:", read: func(p *lockmw.Policy, value string) (func(*imports) string, string) {
		*at(p) = value
		return func(*imports) string { return strconv.Quote(value) }, ""
	}}.only("", "it is empty: leave it out")
}

func numberOption(name, field string, at func(*lockmw.Policy) *int) knownOption {
	return knownOption{name: name, field: field, example: "3", read: func(p *lockmw.Policy, value string) (func(*imports) string, string) {
		n, err := strconv.Atoi(value)
		switch {
		case err != nil && name == "retries" && strings.EqualFold(value, "forever"):
			return nil, "write retry_forever=true"
		case err != nil:
			return nil, fmt.Sprintf("%q is no number", value)
		case n < 0 && name == "retries":
			return nil, fmt.Sprintf("%d is negative; without a limit it is retry_forever=true", n)
		}
		*at(p) = n
		return func(*imports) string { return strconv.Itoa(n) }, ""
	}}
}

func boolOption(name, field string, at func(*lockmw.Policy) *bool) knownOption {
	return knownOption{name: name, field: field, example: "true", read: func(p *lockmw.Policy, value string) (func(*imports) string, string) {
		b, err := strconv.ParseBool(value)
		if err != nil {
			return nil, notBool(value)
		}
		*at(p) = b
		return func(*imports) string { return strconv.FormatBool(b) }, ""
	}}
}

func notBool(value string) string { return fmt.Sprintf("%q is neither true nor false", value) }

// foreverOption reads retry_forever, whose field is the number of retries.
func foreverOption(p *lockmw.Policy, value string) (code func(*imports) string, wrong string) {
	forever, err := strconv.ParseBool(value)
	if err != nil {
		return nil, notBool(value)
	}
	if !forever {
		return func(*imports) string { return "0" }, ""
	}
	p.Retries = lockmw.Forever
	return func(i *imports) string { return i.name(lockmwPath) + ".Forever" }, ""
}

// knownOptions are those of the option in .proto files, see grpclock/lockmwv1. A new one
// needs a line here and, for tests, one in testdata/golden/policies and its mistakes in
// testdata/bad/options; docs/annotations.md lists it. What others call it goes into
// foreignOptions.
var knownOptions = []knownOption{
	textOption("prefix", "Prefix", func(p *lockmw.Policy) *string { return &p.Prefix }),
	durationOption("ttl", "TTL", func(p *lockmw.Policy) *time.Duration { return &p.TTL }),
	durationOption("wait", "Wait", func(p *lockmw.Policy) *time.Duration { return &p.Wait }),
	numberOption("retries", "Retries", func(p *lockmw.Policy) *int { return &p.Retries }).
		only("0", "0 is one attempt, which is also what leaving it out means; retry_forever=true sets no limit"),
	knownOption{name: "retry_forever", field: "Retries", example: "true", read: foreverOption}.
		only("false", "leave it out: without retries and wait there is one attempt"),
	durationOption("retry_interval", "RetryInterval", func(p *lockmw.Policy) *time.Duration { return &p.RetryInterval }),
	durationOption("max_hold", "MaxHold", func(p *lockmw.Policy) *time.Duration { return &p.MaxHold }),
	durationOption("min_hold", "MinHold", func(p *lockmw.Policy) *time.Duration { return &p.MinHold }),
	boolOption("min_hold_on_error", "MinHoldOnError", func(p *lockmw.Policy) *bool { return &p.MinHoldOnError }),
	{name: "mode", field: "Mode", example: "shared", read: func(p *lockmw.Policy, value string) (func(*imports) string, string) {
		if err := p.Mode.UnmarshalText([]byte(value)); err != nil {
			return nil, fmt.Sprintf("%q is neither shared nor exclusive", value)
		}
		mode := map[lockmw.Mode]string{lockmw.Exclusive: ".Exclusive", lockmw.Shared: ".Shared"}[p.Mode]
		return func(i *imports) string { return i.name(lockmwPath) + mode }, ""
	}},
	numberOption("permits", "Permits", func(p *lockmw.Policy) *int { return &p.Permits }),
	boolOption("reentrant", "Reentrant", func(p *lockmw.Policy) *bool { return &p.Reentrant }),
	boolOption("fail_open", "FailOpen", func(p *lockmw.Policy) *bool { return &p.FailOpen }),
	textOption("name", "Name", func(p *lockmw.Policy) *string { return &p.Name }),
	boolOption("async_release", "AsyncRelease", func(p *lockmw.Policy) *bool { return &p.AsyncRelease }),
	boolOption("shadow", "Shadow", func(p *lockmw.Policy) *bool { return &p.Shadow }),
	durationOption("retry_after", "RetryAfter", func(p *lockmw.Policy) *time.Duration { return &p.RetryAfter }),
}

// foreignOptions are what other systems call an option, in lower case and without '_'
// and '-', and what it is here.
var foreignOptions = map[string]string{
	"keytimeout": "ttl", "expire": "ttl", "expiry": "ttl", "expiration": "ttl", "lease": "ttl", "leasetime": "ttl", "lockatmostfor": "ttl", "timeout": "wait",
	"acquiretimeout": "wait", "waittime": "wait", "waittimeout": "wait", "locktimeout": "wait", "trylocktimeout": "wait",
	"retrycount": "retries", "maxretries": "retries", "retry": "retries", "tries": "retries",
	"retrydelay": "retry_interval", "retrybackoff": "retry_interval", "backoff": "retry_interval", "interval": "retry_interval",
	"lockatleastfor": "min_hold", "maxholdtime": "max_hold", "readonly": "mode=shared", "shared": "mode=shared", "type": "mode", "locktype": "mode",
	"semaphore": "permits", "limit": "permits", "forever": "retry_forever", "failopen": "fail_open", "namespace": "prefix", "keyprefix": "prefix",
}

// foreignWords are options elsewhere that are no options here, and what to do.
var foreignWords = map[string]string{
	"key": "the key has no name in front: " + usage, "keys": "keys have no name in front: " + usage, "value": "the key has no name in front: " + usage,
	"spel": "the key has no name in front: " + usage, "paramlock": "write {params} as the key",
	"autorelease": "a lock is always released; min_hold keeps it taken for longer",
	"executor":    "there is one Locker, which the decorator is given", "client": "there is one Locker, which the decorator is given",
	"usewatchdog": "running work is always renewed; max_hold ends it", "fair": "waiters are always served in the order in which they came",
}

// readOptions reads the options of a directive, and has the policy that they describe
// checked.
func (d *directive) readOptions() (policy, []issue) {
	var read policy
	var issues []issue
	var values lockmw.Policy
	fields := make(map[string]string) // the option that has set each
	for i := range d.options {
		switch o := &d.options[i]; {
		case o.name != "policy":
		case read.base != nil:
			issues = append(issues, issue{o.namePos, "policy= stands here twice"})
		default:
			read.base = o
		}
	}
	for i := range d.options {
		o := &d.options[i]
		if o.name == "policy" {
			continue
		}
		known, wrong := optionCalled(o.name)
		if wrong != "" {
			issues = append(issues, issue{o.namePos, wrong})
			continue
		}
		if other := fields[known.field]; other != "" {
			reason := fmt.Sprintf("%s= stands here twice", o.name)
			if other != o.name {
				reason = fmt.Sprintf("it has both %s and %s", other, o.name)
			}
			issues = append(issues, issue{o.namePos, reason})
			continue
		}
		fields[known.field] = o.name
		code, wrong := known.read(&values, o.value)
		if without := known.without; read.base == nil && o.value == without.value && without.reason != "" {
			wrong = without.reason
		}
		if wrong != "" {
			issues = append(issues, issue{o.valuePos, wrong})
			continue
		}
		read.settings = append(read.settings, setting{known.field, code})
	}
	if len(issues) == 0 {
		issues = d.validate(values, fields)
	}
	return read, issues
}

// validate has lockmw check the policy that the options describe. The complaint stands
// at the option of the field that it names.
func (d *directive) validate(values lockmw.Policy, fields map[string]string) []issue {
	err := values.Validate()
	if err == nil {
		return nil
	}
	reason := strings.TrimPrefix(err.Error(), lockmw.ErrInvalidPolicy.Error()+": ")
	pos := d.pos
	if field, rest, ok := strings.Cut(reason, ": "); ok {
		for i := range d.options {
			if o := &d.options[i]; o.name == fields[field] {
				pos, reason = o.valuePos, o.name+": "+rest
			}
		}
	}
	return []issue{{pos, reason}}
}

// optionCalled returns the option of that name, or what to write instead.
func optionCalled(name string) (*knownOption, string) {
	names := make([]string, len(knownOptions), len(knownOptions)+1)
	for i := range knownOptions {
		if knownOptions[i].name == name {
			return &knownOptions[i], ""
		}
		names[i] = knownOptions[i].name
	}
	plain := plainName(name)
	if here := foreignOptions[plain]; here != "" {
		return nil, fmt.Sprintf("unknown option %q; it is %s here", name, here)
	}
	if here := foreignWords[plain]; here != "" {
		return nil, fmt.Sprintf("unknown option %q; %s", name, here)
	}
	return nil, fmt.Sprintf("unknown option %q; %s", name, oneOf(name, append(names, "policy")))
}

// isOption reports whether there is an option of that name.
func isOption(name string) bool {
	known, _ := optionCalled(name)
	return known != nil || name == "policy"
}

// looksLikeOption returns the option that a key may have been meant as, such as
// reentrant without "=true" or "ttl:3s".
func looksLikeOption(key string) (reason string) {
	m := regexp.MustCompile(`^([A-Za-z_-]+)(?:$|:([^{}]*)$)`).FindStringSubmatch(key)
	if m == nil {
		return ""
	}
	if o, _ := optionCalled(m[1]); o != nil {
		value := m[2]
		if value == "" {
			value = o.example
		}
		return fmt.Sprintf("%q is read as a key; as an option it is written %s=%s", key, o.name, value)
	}
	return ""
}

// checkPolicy complains of an option policy= that names no lockmw.Policy.
func (b *builder) checkPolicy(o *option) {
	if o == nil {
		return
	}
	var names []string
	for _, name := range b.types.Scope().Names() {
		if v, ok := b.types.Scope().Lookup(name).(*types.Var); ok && isNamed(v.Type(), lockmwPath, "Policy") {
			names = append(names, name)
		}
	}
	found := b.types.Scope().Lookup(o.value)
	v, isVar := found.(*types.Var)
	switch {
	case isVar && isNamed(v.Type(), lockmwPath, "Policy"):
	case found == nil && len(names) > 0:
		b.complainf(o.valuePos, "the package has no variable %q; %s", o.value, oneOf(o.value, names))
	case found == nil:
		b.complainf(o.valuePos, "the package has no variable %q; declare one of the type lockmw.Policy", o.value)
	case isVar && broken(v.Type()):
		b.complainf(o.valuePos, "the type of %s is not known: %s", o.value, b.firstError(v.Pos()))
	default:
		b.complainf(o.valuePos, "%s is no variable of the type lockmw.Policy", o.value)
	}
}

// durationCode writes a duration as a person would: 200 * time.Millisecond.
func durationCode(i *imports, d time.Duration) string {
	if d == 0 {
		return "0"
	}
	pkg := i.name("time")
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"}, {time.Millisecond, "Millisecond"}, {time.Microsecond, "Microsecond"}} {
		if d%unit.size == 0 {
			if d == unit.size {
				return pkg + "." + unit.name
			}
			return fmt.Sprintf("%d * %s.%s", d/unit.size, pkg, unit.name)
		}
	}
	return fmt.Sprintf("%d * %s.Nanosecond", d, pkg)
}
