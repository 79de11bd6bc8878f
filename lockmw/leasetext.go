package lockmw

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// What is said of a lease in texts and in logs.

var stateNames = [...]string{held: "held", overHeld: "held for longer than MaxHold", lost: "lost", released: "released"}

// What is said of a lease that is held, and has no lock.
const (
	failedOpen  = "failed open, there is no lock"
	switchedOff = "switched off by a setting, there is no lock"
	inShadow    = "in shadow, there is no lock"
)

// String describes the lease for people: what it locks, whether it is held, for how long it
// was held, and how long it can be relied on without a renewal. It does not show the token,
// with which the lock could be released.
func (l *Lease) String() string {
	if l == nil {
		return "no lease"
	}
	s, age, left := l.facts()
	var text strings.Builder
	text.WriteString("lease of " + strconv.Quote(l.ref.Key))
	if name := l.policy.Name; !strings.HasPrefix(l.ref.Key, name) {
		text.WriteString(" for " + strconv.Quote(name))
	}
	fmt.Fprintf(&text, ": %s", s)
	if s == stateNames[held] {
		fmt.Fprintf(&text, " for %v", age.Round(time.Millisecond))
		if left > 0 {
			fmt.Fprintf(&text, ", valid for %v", left.Round(time.Millisecond))
		}
	}
	if l.fence > 0 {
		fmt.Fprintf(&text, ", fence %d", l.fence)
	}
	return text.String()
}

// Format implements fmt.Formatter: whatever the verb, it prints String. Without it, fmt
// would print the fields for %d or %#v, and one of them is the token.
func (l *Lease) Format(f fmt.State, verb rune) {
	switch verb {
	case 'q', 'x', 'X': // of a string
	default:
		verb = 's'
	}
	fmt.Fprintf(f, fmt.FormatString(f, verb), l.String())
}

// LogValue implements slog.LogValuer. It has what String says in the attributes name, key,
// state, held, valid and fence. Of a nil Lease it is String.
func (l *Lease) LogValue() slog.Value {
	if l == nil {
		return slog.StringValue(l.String())
	}
	s, age, left := l.facts()
	attrs := []slog.Attr{slog.String("name", l.policy.Name), slog.String("key", l.ref.Key), slog.String("state", s)}
	if s == stateNames[held] {
		attrs = append(attrs, slog.Duration("held", age))
		if left > 0 {
			attrs = append(attrs, slog.Duration("valid", left))
		}
	}
	if l.fence > 0 {
		attrs = append(attrs, slog.Int64("fence", l.fence))
	}
	return slog.GroupValue(attrs...)
}

// facts returns the lease's state in words, its age, and how long it can be relied on; that
// is 0 for a lease without a lock of its own in Redis. One that has joined another, or
// that has several keys, has ended when one of those has whose locks it relies on.
func (l *Lease) facts() (state string, age, left time.Duration) {
	state, left = l.ownFacts()
	age = time.Since(l.start)
	if state != stateNames[held] {
		return state, age, left
	}
	for _, other := range l.has.reliesOn() {
		if s, _, _ := other.facts(); s != state && s != failedOpen && s != switchedOff {
			return s, age, 0
		}
	}
	return state, age, left
}

// ownFacts is facts, but for the locks of other leases.
func (l *Lease) ownFacts() (state string, left time.Duration) {
	if l.tenure() != nil {
		left, _ = l.has.remains(l)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if has, ok := l.has.(nothing); ok && l.state == held {
		if has.off {
			return switchedOff, 0
		}
		return failedOpen, 0
	}
	if l.Shadow() && l.state == held {
		return inShadow, 0
	}
	return stateNames[l.state], max(left, 0)
}
