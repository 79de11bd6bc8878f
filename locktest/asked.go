package locktest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lockmw/kit/lockmw"
)

// mostNamed is how many keys a failing test's message names.
const mostNamed = 10

// An account says which keys the code under test has asked for.
type account struct {
	mu      sync.Mutex
	keys    map[string]bool
	keyless error // the last refusal of a call for which there was no key
	asked   bool  // a lock was asked for since forget
	mistake error // why none was, if that is a mistake of the program
}

// observe is told of what happens to calls of Acquire.
func (a *account) observe(_ context.Context, e lockmw.Event) {
	switch e.Kind {
	case lockmw.EventAcquired, lockmw.EventContended, lockmw.EventRefused, lockmw.EventFailedOpen, lockmw.EventSwitchedOff:
	default:
		return // about a lease that there is already, or about no lock
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ask(e.Err)
	if e.Key == e.Prefix { // a middleware found no key in the request
		a.keyless = e.Err
		return
	}
	if a.keys == nil {
		a.keys = make(map[string]bool)
	}
	a.keys[e.Key] = true
}

// has reports whether a key was asked for.
func (a *account) has(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys[key]
}

// others tells which other keys were asked for, for who has mistaken one. It continues a
// sentence.
func (a *account) others(key string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, other := range slices.Sorted(maps.Keys(a.keys)) {
		if other != key {
			names = append(names, strconv.Quote(other))
		}
	}
	text := ""
	switch more := len(names) - mostNamed; {
	case more > 0:
		text = fmt.Sprintf("; asked for were: %s and %d more", strings.Join(names[:mostNamed], ", "), more)
	case len(names) > 0:
		text = "; asked for were: " + strings.Join(names, ", ")
	case a.keyless == nil:
		return "; no other key was asked for"
	}
	if a.keyless != nil {
		text += fmt.Sprintf("; refused without a key: %v", a.keyless)
	}
	return text
}
