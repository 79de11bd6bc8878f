package model

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// This file looks at all states that can be reached, those first that take the fewest steps.

// A Result is what was found.
type Result struct {
	States int
	Steps  int // from one state to another
	Depth  int // the longest of the shortest ways
	Took   time.Duration
	Full   bool     // every state was looked at
	Wrong  string   // what was found wrong, or ""
	Trace  []string // the shortest way to it, as calls
}

// A name stands for a state: two with one name are taken for one. 128 bits of a hash whose seed is new with each run
// make a mistake less likely than one of the machine.
type name [2]uint64

// A link is how a state was reached first.
type link struct {
	from name
	step step
}

const parts = 64

// seen has the states that were reached.
type seen struct {
	seeds [2]maphash.Seed
	parts [parts]struct {
		sync.Mutex
		links map[name]link
	}
}

func newSeen() *seen {
	s := &seen{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range s.parts {
		s.parts[i].links = make(map[name]link)
	}
	return s
}

func (s *seen) name(encoded []byte) name {
	return name{maphash.Bytes(s.seeds[0], encoded), maphash.Bytes(s.seeds[1], encoded)}
}

// add reports whether a state is new.
func (s *seen) add(n name, l link) bool {
	p := &s.parts[n[0]%parts]
	p.Lock()
	defer p.Unlock()
	if _, known := p.links[n]; known {
		return false
	}
	p.links[n] = l
	return true
}

func (s *seen) link(n name) link { return s.parts[n[0]%parts].links[n] }

func (s *seen) len() (n int) {
	for i := range s.parts {
		n += len(s.parts[i].links)
	}
	return n
}

// A spot is a state and its name.
type spot struct {
	*state
	name name
}

// An edge leads from one state to another, without a fault.
type edge struct{ from, to name }

// A finding is a step that led to what is wrong.
type finding struct {
	from  name
	step  step
	wrong string
}

// begin is the state in which nothing has happened.
func (z *Size) begin() *state {
	s := &state{real: origin + 4}
	for i := range z.Absent {
		s.claims[z.claims()-1-i].phase = gone
	}
	s.normalise()
	return s
}

// Explore looks at all states of a size, or at most at so many, and for as long as nothing is wrong. With ways it also
// sees that from each state, without further faults and with nobody leaving, all who wait can have the lock. It returns an error for a size whose fields do not
// go together.
func Explore(z Size, most int, ways bool) (Result, error) {
	if err := z.possible(); err != nil {
		return Result{}, fmt.Errorf("size %q: %w", z.Name, err)
	}
	began := time.Now()
	known, first := newSeen(), z.begin()
	root := known.name(first.encode(nil))
	known.add(root, link{})
	frontier := []spot{{first, root}}
	var r Result
	var edges []edge
	goals := make(map[name]struct{})
	workers := make([]worker, runtime.GOMAXPROCS(0))
	for i := range workers {
		workers[i].machine = newMachine(&z)
		defer workers[i].machine.lua.close()
	}
	for len(frontier) > 0 && known.len() < most {
		var running sync.WaitGroup
		for i := range workers {
			w := &workers[i]
			share := frontier[i*len(frontier)/len(workers) : (i+1)*len(frontier)/len(workers)]
			running.Go(func() { w.work(known, share, ways) })
		}
		running.Wait()
		frontier = nil
		var findings []finding
		for i := range workers {
			w := &workers[i]
			frontier = append(frontier, w.next...)
			findings = append(findings, w.found...)
			edges = append(edges, w.edges...)
			for _, g := range w.goals {
				goals[g] = struct{}{}
			}
			r.Steps += w.steps
		}
		r.Depth++
		if len(findings) > 0 {
			f := findings[0]
			r.Trace = z.trace(known, root, f.from, &f.step)
			_, r.Wrong, _ = strings.Cut(r.Trace[len(r.Trace)-1], "  <-- ") // with the names that the processes have there
			break
		}
	}
	r.States, r.Full = known.len(), len(frontier) == 0
	if r.Wrong == "" && r.Full && ways {
		if stuck, found := stuckFrom(known, edges, goals); found {
			r.Wrong = "from here not all who wait can have the lock, although nothing fails any more"
			r.Trace = z.trace(known, root, stuck, nil)
		}
	}
	r.Took = time.Since(began)
	return r, nil
}

// A worker looks at some of the states.
type worker struct {
	*machine
	next  []spot
	found []finding
	edges []edge
	goals []name
	steps int
}

func (w *worker) work(known *seen, share []spot, ways bool) {
	w.next, w.found, w.edges, w.goals, w.steps = nil, nil, nil, nil, 0
	var steps []step
	var encoded []byte
	for _, at := range share {
		steps = w.Size.steps(at.state, steps[:0])
		usual := len(steps)
		steps = w.Size.faults(at.state, steps)
		if ways && at.settled() {
			w.goals = append(w.goals, at.name)
		}
		for i, t := range steps {
			next, wrong := w.take(at.state, t)
			w.steps++
			if wrong != "" {
				w.found = append(w.found, finding{at.name, t, wrong})
				return
			}
			w.rename(next)
			encoded = next.encode(encoded[:0])
			n := known.name(encoded)
			if ways && i < usual && t.op != opLeave && t.op != opAskLast {
				w.edges = append(w.edges, edge{at.name, n})
			}
			if known.add(n, link{at.name, t}) {
				w.next = append(w.next, spot{next, n})
			}
		}
	}
}

// settled reports whether nobody is at anything. Where nobody may leave, all who waited have had the lock then, or a grant that
// came too late to be of use, after which the engine asks anew.
func (s *state) settled() bool {
	return !slices.ContainsFunc(s.claims[:], func(c claim) bool { return c.phase != idle && c.phase != gone })
}

// stuckFrom returns a state from which no way leads to a goal, if there is one. It is one of those that were reached
// with the fewest steps.
func stuckFrom(known *seen, edges []edge, goals map[name]struct{}) (stuck name, found bool) {
	back := make(map[name][]name, known.len())
	for _, e := range edges {
		back[e.to] = append(back[e.to], e.from)
	}
	good := make(map[name]struct{}, known.len())
	var open []name
	for g := range goals {
		good[g] = struct{}{}
		open = append(open, g)
	}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		for _, from := range back[at] {
			if _, known := good[from]; !known {
				good[from] = struct{}{}
				open = append(open, from)
			}
		}
	}
	least := -1
	for i := range known.parts {
		for n := range known.parts[i].links {
			if _, ok := good[n]; ok {
				continue
			}
			if d := known.depth(n); least < 0 || d < least {
				least, stuck, found = d, n, true
			}
		}
	}
	return stuck, found
}

func (s *seen) depth(n name) (d int) {
	for l := s.link(n); l != (link{}); l = s.link(l.from) {
		d++
	}
	return d
}

// trace returns the way to a state, and a step further, as calls.
func (z *Size) trace(known *seen, root, to name, last *step) []string {
	var steps []step
	if last != nil {
		steps = append(steps, *last)
	}
	for n := to; n != root; {
		l := known.link(n)
		steps = append(steps, l.step)
		n = l.from
	}
	slices.Reverse(steps)
	m := newMachine(z)
	defer m.lua.close()
	var lines []string
	s, are := z.begin(), asTheyAre
	for _, t := range steps {
		text := z.tell(s, t)
		next, wrong := m.take(s, t)
		text += z.difference(s, next)
		if wrong != "" {
			text += "  <-- " + wrong
		}
		lines = append(lines, are.in(text))
		are = are.after(m.rename(next))
		s = next
	}
	return lines
}

// tell tells a step as a call.
func (z *Size) tell(s *state, t step) string {
	switch t.op {
	case opPass:
		return "1 s passes"
	case opAsk:
		if s.claims[t.a].phase == idle && z.role(t.a) == Resumes {
			return z.token(t.a) + ": Resume"
		}
		if s.claims[t.a].phase == idle {
			return z.token(t.a) + ": Acquire"
		}
		return z.token(t.a) + ": asks again"
	case opAskLast:
		return z.token(t.a) + ": asks for the last time"
	case opLeave:
		return z.token(t.a) + ": its caller leaves"
	case opRenew:
		return z.token(t.a) + ": renews"
	case opLook:
		if z.Notes {
			return z.token(t.a) + ": notes that its work begins"
		}
		return z.token(t.a) + ": looks for an answer"
	case opWork:
		return z.token(t.a) + ": its work begins"
	case opFail:
		if z.Notes && !s.claims[t.a].began {
			return z.token(t.a) + ": it is not known whether its work is noted, and it gives up"
		}
		return z.token(t.a) + ": its work fails"
	case opResolve:
		return "an operator says that the work of " + z.token(t.a) + " is to be done again"
	case opDoubt:
		return z.token(t.a) + ": does not learn whether it has handed the lock on, and gives up"
	case opClear:
		return "what " + z.token(t.a) + " may have left is removed"
	case opRelease:
		if z.Notes {
			return z.token(t.a) + ": its work is done"
		}
		if next, ok := z.heir(s, t.a); ok {
			return z.token(t.a) + ": Release, and the lock passes on to " + z.token(next)
		}
		return z.token(t.a) + ": Release"
	case opCarryOut:
		return "Redis carries out " + z.describe(&s.net[t.a])
	case opReply:
		return "the reply comes of " + z.describe(&s.net[t.a])
	case opVanish:
		return "never arrives: " + z.describe(&s.net[t.a])
	case opHear:
		switch first := s.lockers[t.a].inbox[0]; {
		case first.contended:
			return fmt.Sprintf("Locker %c hears that others wait", 'A'+t.a)
		case first.revoked:
			return fmt.Sprintf("Locker %c hears that the lock of %s was released by force", 'A'+t.a, z.token(first.claim))
		default:
			return fmt.Sprintf("Locker %c hears that %s has the lock", 'A'+t.a, z.token(first.claim))
		}
	case opListen:
		return fmt.Sprintf("Locker %c subscribes again", 'A'+t.a)
	case opRefuse:
		return "Redis refuses what is left behind " + z.describe(&s.net[t.a])
	case opOneKey:
		return "Redis carries out, by the lock's own key, " + z.describe(&s.net[t.a])
	case opMoved:
		return "the slot has moved"
	case opFault:
	}
	switch f := Fault(t.a); f {
	case LoseReply:
		return fmt.Sprintf("FAULT %v: %s", f, z.describe(&s.net[t.b%alone]))
	case LoseMessage, Crash, Deafen:
		return fmt.Sprintf("FAULT %v: Locker %c", f, 'A'+t.b)
	default:
		if z.locks() > 1 {
			return fmt.Sprintf("FAULT %v: lock %d", f, t.b)
		}
		return fmt.Sprintf("FAULT %v", f)
	}
}

var whatNames = [...]string{"SET", "acquire of all keys", "acquire", "resume", "renew", "look", "note", "look behind the release", "Resolve", "give", "release", "release to another of its process", "hand-on", "removal", "removal of the ticket"}

func (z *Size) describe(c *command) string {
	text := whatNames[c.what]
	if c.what == set {
		text = [...]string{"SET", "EXISTS", "TIME", "GET", "SET, EXISTS, TIME and GET"}[c.step]
	}
	text += " of " + z.token(c.claim)
	if c.lost {
		text += " (nobody waits for it)"
	}
	return text
}

// difference tells what a step has changed at the lock and of the claims.
func (z *Size) difference(before, after *state) string {
	var told []string
	for i := range z.locks() {
		b, a, which := &before.locks[i].db, &after.locks[i].db, ""
		if z.locks() > 1 {
			which = fmt.Sprintf(" %d", i)
		}
		if was, is := strings.Join(holders(b), " "), strings.Join(holders(a), " "); was != is {
			told = append(told, fmt.Sprintf("lock%s %s", which, orElse(is, "free")))
		}
		if was, is := names(b[keyQueue]), names(a[keyQueue]); was != is {
			told = append(told, fmt.Sprintf("queue%s %s", which, orElse(is, "empty")))
		}
	}
	if was, is := z.tellRecord(before), z.tellRecord(after); was != is {
		told = append(told, is)
	}
	for i := range z.claims() {
		if before.claims[i].lost != after.claims[i].lost && after.claims[i].lost {
			told = append(told, z.token(uint8(i))+" has lost the lock")
		}
		if was, is := before.claims[i].phase, after.claims[i].phase; was != is {
			told = append(told, fmt.Sprintf("%s %s", z.token(uint8(i)), phaseNames[is]))
		}
	}
	if told == nil {
		return ""
	}
	return "   [" + strings.Join(told, "; ") + "]"
}

var phaseNames = [...]string{"idle", "rests", "asks", "waits", "holds", "gives back", "is removed", "has gone"}

func names(e entry) string {
	var all []string
	for _, m := range e.members {
		token, _, _ := strings.Cut(m.name, ":")
		all = append(all, token)
	}
	return strings.Join(all, " ")
}

func orElse(text, empty string) string {
	if text == "" {
		return empty
	}
	return text
}
