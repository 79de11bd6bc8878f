// Package recent remembers the last calls that got no lock, and the last locks that were
// lost, failed open or stuck, so that a page for operators can tell of what was before it
// was opened.
package recent

import (
	"slices"
	"sync"
	"time"
)

// mostKept is how many incidents of each sort are kept.
const mostKept = 50

// An Incident is one of those that are kept.
type Incident struct {
	At     time.Time
	Kind   string // what lockmw.EventKind calls it
	Name   string // what the lock is called: the policy's Name, or its Prefix
	Key    string // prefix and key
	Reason string // a refusal's code, or a few words; never a text of Redis's or of the network's
	Holder string // the instance that had the lock, if it is known
	Waited time.Duration
	Held   time.Duration
}

// A Log has the last refusals and the last other incidents, mostKept of each: a flood of refusals
// leaves the others where they are. The zero Log is empty, and safe for concurrent use.
type Log struct {
	mu               sync.Mutex
	refusals, others ring
}

type ring struct {
	all  [mostKept]Incident // without their keys
	keys [mostKept][]byte   // copies: a key may be a small part of a large request, which must not stay
	n    uint64             // how many there were
}

// mostKey is more than a key has that is no mistake.
const mostKey = 1 << 10

func (r *ring) add(i Incident) {
	at := r.n % mostKept
	r.keys[at] = append(r.keys[at][:0], i.Key[:min(len(i.Key), mostKey)]...)
	if len(i.Key) > mostKey {
		r.keys[at] = append(r.keys[at], "\u2026"...)
	}
	i.Key = ""
	r.all[at] = i
	r.n++
}

func (r *ring) at(n uint64) Incident {
	i := r.all[n%mostKept]
	i.Key = string(r.keys[n%mostKept])
	return i
}

// Refused keeps a refusal. It allocates nothing, once as many came as are kept.
func (l *Log) Refused(i Incident) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refusals.add(i)
}

// Happened keeps any other incident.
func (l *Log) Happened(i Incident) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.others.add(i)
}

// Newest returns what is kept, the newest first, and a number that differs where something
// has been added.
func (l *Log) Newest() (incidents []Incident, version uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range []*ring{&l.refusals, &l.others} {
		for back := range min(r.n, mostKept) {
			incidents = append(incidents, r.at(r.n-1-back))
		}
	}
	slices.SortStableFunc(incidents, func(a, b Incident) int { return b.At.Compare(a.At) })
	return incidents, l.refusals.n + l.others.n
}

// Version returns the number that Newest does, and costs less.
func (l *Log) Version() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refusals.n + l.others.n
}
