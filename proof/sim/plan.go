package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// A Plan is all that a run does. It is made of a seed, and can be made smaller by hand or by shrink.
type Plan struct {
	Seed      uint64
	Processes []Process
	Faults    []Fault
	Turns     int           // of each caller
	Gaps      time.Duration // before some commands Redis does something else for up to so long; 0: what comes in one write is carried out at once
	Operator  bool          // somebody says of work that is uncertain that it is to be done again, and releases locks by force in the middle of such work
	Changes   []Change      // of settings, one after the other; nil: there are no settings
}

// A Process is one Locker, and who calls it.
type Process struct {
	Away    time.Duration // each way to Redis
	Slow    time.Duration // what its observer takes for each event; 0: it has none
	Callers []Caller

	Service string // whose settings it has
	Reads   int    // from where
	MayOff  bool   // AllowOff
}

// A Caller calls again and again, each time with one of these wishes.
type Caller struct {
	Name   int // among all of the plan: what it draws is its own
	Turns  int // its own number of them; 0: the plan's
	Pause  time.Duration
	Wishes []Wish
}

// A Wish is what one call is about.
type Wish struct {
	Kind   WishKind
	Keys   []string
	Policy lockmw.Policy
	Work   time.Duration // at most
	GiveUp time.Duration // the caller's deadline; 0: none
	Nested bool          // it acquires the key once more, within its work
	Trails time.Duration // the MinHold of a nested call for the key that its work does not await, as a goroutine's that it leaves behind; 0: it makes none
	Fails  bool          // the work fails, where MinHoldOnError matters
	Lasts  time.Duration // of the tickets that its work issues, at most; 0: it issues none
	Retain time.Duration // of an answer
	Print  string        // the fingerprint of what is asked for
	Panics time.Duration // so long after the call its context panics, as one does that a framework has taken back; 0: it does not
}

// A WishKind says what a call is about, for the table of what was met.
type WishKind string

const (
	mutex     WishKind = "mutex"
	reader    WishKind = "reader"
	permit    WishKind = "permit"
	several   WishKind = "several"
	minHold   WishKind = "MinHold"
	maxHold   WishKind = "MaxHold"
	reentrant WishKind = "reentrant"
	crowd     WishKind = "crowd"
	flight    WishKind = "answer"
	noted     WishKind = "uncertain answer"
	handsOn   WishKind = "hands on"
	goesOn    WishKind = "goes on"
)

// A Fault is one thing that fails for a while.
type Fault struct {
	Kind    FaultKind
	At      time.Duration
	Lasts   time.Duration
	Process int    // whose way to Redis it is
	Key     string // which lock it is about, if it is about one
	Nobody  bool   // listens: where new connections are refused they are so by the system, and are not closed after a moment
}

// A FaultKind says what fails.
type FaultKind uint8

// What fails. A new one comes last: the first ones draw what the first seeds drew.
const (
	Cut          FaultKind = iota // all connections break
	LostToServer                  // what is sent is lost
	LostToClient                  // replies and messages are lost
	LostBoth                      // both
	Stalled                       // nothing arrives for a while, and then all does
	Unread                        // the server reads nothing
	Far                           // everything takes 60 ms more
	Refused                       // new connections are refused, and the present ones break
	Gone                          // the process is cut off for good: to the others it has died
	Forgets                       // Redis forgets everything
	NoScripts                     // Redis forgets its scripts
	Deleted                       // another program deletes a lock
	Forced                        // an operator releases a lock by force
	LostMessages                  // messages of the subscription are lost, and nothing else
	LostReplies                   // single replies are lost, with their connections
	Restarted                     // Redis is started anew, without anything
	NoNewOnes                     // new connections are refused, and the present ones go on
	Jumped                        // the server's clock jumps ahead, and stays there
	faultKinds
)

// firstKinds are how many kinds the first seeds knew.
const firstKinds = Forced + 1

var faultNames = [faultKinds]string{
	"connections break", "requests are lost", "replies are lost", "all is lost", "all waits", "the server does not read", "far away", "refused",
	"cut off for good", "Redis forgets", "scripts are forgotten", "DEL", "release by force", "messages are lost", "single replies are lost", "Redis restarts", "no new connections",
	"the clock jumps ahead",
}

// String names the kind.
func (k FaultKind) String() string { return faultNames[k] }

// onTheWay reports whether it is the way of one process to Redis that fails.
func (k FaultKind) onTheWay() bool {
	return k <= Gone || k == LostMessages || k == LostReplies || k == NoNewOnes
}

// refuses reports whether calls of that process may be refused, and its locks be lost, because of it.
func (k FaultKind) refuses() bool { return k.onTheWay() && k != LostMessages }

// passes reports whether it is over at once; what it leads to shows for a while.
func (k FaultKind) passes() bool {
	return slices.Contains([]FaultKind{Cut, Forgets, NoScripts, Deleted, Forced, Restarted, Jumped}, k)
}

// meets reports whether a process has to do with it: of one that is gone the others have.
func (f Fault) meets(process int) bool {
	if f.Kind == Gone {
		return f.Process != process
	}
	return f.Process == process || !f.Kind.onTheWay()
}

// silences reports whether Redis cannot answer a process, not even over a new connection: then FailOpen may open.
func (k FaultKind) silences() bool {
	return k.refuses() && k != Cut && k != Far && k != LostReplies && k != NoNewOnes
}

// String tells the fault.
func (f Fault) String() string {
	if !f.Kind.onTheWay() {
		return fmt.Sprintf("at %v: %v %s", f.At, f.Kind, f.Key)
	}
	how := ""
	if f.Nobody {
		how = ", nobody listens"
	}
	return fmt.Sprintf("at %v for %v: %v%s, process %d", f.At, f.Lasts, f.Kind, how, f.Process)
}

// String tells the plan.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d turns, up to %v between commands", p.Seed, p.Turns, p.Gaps)
	for i, process := range p.Processes {
		fmt.Fprintf(&b, "\nprocess %d, %v away, observer %v", i, process.Away, process.Slow)
		if p.Changes != nil {
			fmt.Fprintf(&b, ", %s, settings from Redis %t, from the file %t, AllowOff %t", process.Service, process.Reads&readsRedis != 0, process.Reads&readsFile != 0, process.MayOff)
		}
		for _, c := range process.Callers {
			fmt.Fprintf(&b, "\n  caller %d, pause %v", c.Name, c.Pause)
			if c.Turns > 0 {
				fmt.Fprintf(&b, ", %d turns", c.Turns)
			}
			for _, w := range c.Wishes {
				fmt.Fprintf(&b, "\n    %s %v, work %v, deadline %v, %+v", w.Kind, w.Keys, w.Work, w.GiveUp, w.Policy)
				if w.flies() {
					fmt.Fprintf(&b, ", retained for %v, fingerprint %q", w.Retain, w.Print)
				}
				if w.Trails > 0 {
					fmt.Fprintf(&b, ", leaves a nested call behind with a MinHold of %v", w.Trails)
				}
				if w.Lasts > 0 {
					fmt.Fprintf(&b, ", issues a ticket for up to %v, fails %t", w.Lasts, w.Fails)
				}
				if w.Panics > 0 {
					fmt.Fprintf(&b, ", its context panics after %v", w.Panics)
				}
			}
		}
	}
	if p.Operator {
		b.WriteString("\nan operator")
	}
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "\n%s", f)
	}
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "\n%s", c)
	}
	return b.String()
}

// lasts is for how long faults happen; calls go on until all have had their turns.
const lasts = 20 * time.Second

// NewPlan makes the plan of a seed.
func NewPlan(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	p := Plan{Seed: seed, Turns: 20 + r.IntN(60)}
	keys := 1 + r.IntN(3)
	name := 0
	for range 1 + r.IntN(3) {
		process := Process{}
		if r.IntN(3) == 0 {
			process.Away = between(r, 0, 20*time.Millisecond)
		}
		if r.IntN(4) == 0 {
			process.Slow = between(r, 0, 5*time.Millisecond)
		}
		for range 1 + r.IntN(5) {
			c := Caller{Name: name, Pause: between(r, 0, 30*time.Millisecond)}
			name++
			for range 1 + r.IntN(3) {
				c.Wishes = append(c.Wishes, newWish(r, keys))
			}
			process.Callers = append(process.Callers, c)
		}
		p.Processes = append(p.Processes, process)
	}
	for range r.IntN(6) {
		p.Faults = append(p.Faults, newFault(r, p, firstKinds))
	}
	// What came later than the first seeds is drawn behind all else, so that those draw what they drew.
	somebody := func() *Process { return &p.Processes[r.IntN(len(p.Processes))] }
	if r.IntN(2) == 0 {
		for range 1 + r.IntN(10) {
			f := newFault(r, p, faultKinds)
			f.Key = []string{"m0", "m1", "m2", "p0", crowdKey}[r.IntN(5)]
			p.Faults = append(p.Faults, f)
		}
	}
	if r.IntN(2) == 0 {
		crowd := newCrowd(r, name, 6*p.Turns)
		name += len(crowd)
		at := somebody()
		at.Callers = append(at.Callers, crowd...)
	}
	if r.IntN(3) == 0 { // its work takes some TTLs
		w := newWish(r, keys)
		w.Policy.TTL, w.Policy.Wait, w.Policy.Retries = 700*time.Millisecond, between(r, time.Second, 6*time.Second), 0
		w.Work, w.GiveUp = between(r, w.Policy.TTL, 5*w.Policy.TTL), 0
		at := somebody()
		at.Callers = append(at.Callers, Caller{Name: name, Turns: 10, Pause: between(r, 0, time.Second), Wishes: []Wish{w}})
	}
	if r.IntN(5) == 0 { // nearly as far as a server that counts as silent
		somebody().Away = between(r, 50*time.Millisecond, 115*time.Millisecond)
	}
	if r.IntN(4) == 0 {
		c := &somebody().Callers[0]
		w := &c.Wishes[r.IntN(len(c.Wishes))]
		if w.Kind != several { // of which the work may have some
			w.Panics = between(r, time.Microsecond, 2*time.Millisecond)
		}
	}
	if r.IntN(2) == 0 {
		p.leaveReleases(r)
	}
	if r.IntN(2) == 0 {
		p.fly(r, name+20)
	}
	if r.IntN(2) == 0 {
		p.flyOnce(r, name+40)
	}
	if r.IntN(4) == 0 {
		p.trail(r, name+60)
	}
	if r.IntN(4) == 0 && seed%changedSeeds != 1 { // how late a process so far away learns of settings the judge does not know well
		p.hurry(r)
	}
	for i := range p.Faults {
		f := &p.Faults[i]
		f.Nobody = (f.Kind == Refused || f.Kind == Gone || f.Kind == NoNewOnes) && r.IntN(2) == 0
	}
	p.handOn(name + 80)
	later := rand.New(rand.NewPCG(seed, 4))
	p.takeFromFlights(later)
	p.comeApart(later)
	if seed%changedSeeds == 1 {
		p.change(rand.New(rand.NewPCG(seed, 3)))
	}
	return p
}

// comeApart has commands of others come between those of one write, in every third plan.
func (p *Plan) comeApart(r *rand.Rand) {
	if r.IntN(3) == 0 {
		p.Gaps = between(r, time.Microsecond, 3*time.Millisecond)
	}
}

// leaveReleases has some of the calls that may wait not await their releases.
func (p *Plan) leaveReleases(r *rand.Rand) {
	for _, process := range p.Processes {
		for _, c := range process.Callers {
			for i := range c.Wishes {
				w := &c.Wishes[i]
				w.Policy.AsyncRelease = (w.Policy.Wait > 0 || w.Policy.Retries > 0) && r.IntN(2) == 0
			}
		}
	}
}

func newFault(r *rand.Rand, p Plan, kinds FaultKind) Fault {
	f := Fault{Key: "m0", Kind: FaultKind(r.IntN(int(kinds))), At: between(r, 0, lasts), Process: r.IntN(len(p.Processes))}
	f.Lasts = between(r, 0, []time.Duration{200 * time.Millisecond, 2 * time.Second, 8 * time.Second}[r.IntN(3)])
	return f
}

// crowdKey is the lock of crowds.
const crowdKey = "c0"

// newCrowd makes callers of one process who want the same lock, so that it goes from one to the next without a command.
func newCrowd(r *rand.Rand, name, turns int) (all []Caller) {
	w := Wish{Kind: crowd, Keys: []string{crowdKey}, Work: between(r, 0, 3*time.Millisecond)}
	w.Policy.TTL = []time.Duration{700 * time.Millisecond, 3 * time.Second, 0}[r.IntN(3)]
	w.Policy.Wait, w.Policy.FailOpen = between(r, time.Second, 6*time.Second), r.IntN(4) == 0
	for range 3 + r.IntN(8) {
		all = append(all, Caller{Name: name, Turns: turns, Pause: between(r, 0, 5*time.Millisecond), Wishes: []Wish{w}})
		name++
	}
	return all
}

func newWish(r *rand.Rand, keys int) Wish {
	key := func(prefix string) string { return fmt.Sprint(prefix, r.IntN(keys)) }
	w := Wish{Keys: []string{key("m")}, Work: between(r, 0, []time.Duration{time.Microsecond, 3 * time.Millisecond, 400 * time.Millisecond}[r.IntN(3)])}
	w.Policy.TTL = []time.Duration{700 * time.Millisecond, 3 * time.Second, 0}[r.IntN(3)]
	switch r.IntN(4) {
	case 0: // one attempt
	case 1:
		w.Policy.Retries, w.Policy.RetryInterval = 1+r.IntN(5), between(r, 5*time.Millisecond, 200*time.Millisecond)
	default:
		w.Policy.Wait = between(r, 10*time.Millisecond, 6*time.Second)
	}
	switch w.Kind = mutex; r.IntN(9) {
	case 0, 1:
		w.Kind, w.Policy.Mode = reader, lockmw.Shared
	case 2:
		w.Kind, w.Keys, w.Policy.Permits = permit, []string{key("p")}, 2
	case 3:
		if keys > 1 {
			w.Kind, w.Keys = several, []string{"m0", "m1"}
		}
	case 4:
		w.Kind, w.Policy.MinHold, w.Policy.MinHoldOnError, w.Fails = minHold, between(r, time.Millisecond, 300*time.Millisecond), r.IntN(2) == 0, r.IntN(2) == 0
	case 5:
		w.Kind, w.Policy.MaxHold = maxHold, between(r, 5*time.Millisecond, 300*time.Millisecond)
	case 6:
		w.Kind, w.Policy.Reentrant, w.Nested = reentrant, true, true
	}
	if r.IntN(4) == 0 {
		w.Policy.FailOpen = true
	}
	if r.IntN(3) == 0 {
		w.GiveUp = between(r, time.Millisecond, 2*time.Second)
	}
	return w
}

// trailKey is the lock of those whose work leaves nested calls behind.
const trailKey = "t0"

// trail adds callers of one process to the plan who want the same lock, so that it goes from one to the next without a command. The work of some
// leaves a nested call behind that wants the key to stay taken for a while: it may be in the middle of that when the lock goes on to the next.
func (p *Plan) trail(r *rand.Rand, name int) {
	at := &p.Processes[r.IntN(len(p.Processes))]
	w := Wish{Kind: reentrant, Keys: []string{trailKey}, Work: between(r, 0, 3*time.Millisecond)}
	w.Policy.TTL = []time.Duration{3 * time.Second, 0}[r.IntN(2)]
	w.Policy.Wait, w.Policy.Reentrant = between(r, 2*time.Second, 6*time.Second), true
	for i := range 2 + r.IntN(3) {
		next := w
		if i == 0 || r.IntN(3) == 0 {
			next.Trails = between(r, 500*time.Millisecond, 900*time.Millisecond)
		}
		at.Callers = append(at.Callers, Caller{Name: name + i, Pause: between(r, 0, 30*time.Millisecond), Wishes: []Wish{next}})
	}
}

// hurry has a process be far away, some of its callers wait for no longer than a few ways there, and maybe new connections be refused: what is no
// outage must not look like one to those who have little time.
func (p *Plan) hurry(r *rand.Rand) {
	n := r.IntN(len(p.Processes))
	at := &p.Processes[n]
	at.Away = between(r, farAway, 115*time.Millisecond)
	for _, c := range at.Callers {
		for i := range c.Wishes {
			if w := &c.Wishes[i]; !w.flies() && (w.Policy.Wait > 0 || w.Policy.Retries > 0) && r.IntN(2) == 0 {
				w.Policy.Wait, w.Policy.FailOpen = between(r, 10*time.Millisecond, 600*time.Millisecond), r.IntN(2) == 0
			}
		}
	}
	if r.IntN(2) == 0 {
		f := newFault(r, *p, faultKinds)
		f.Kind, f.Process, f.At, f.Lasts = NoNewOnes, n, between(r, 500*time.Millisecond, 6*time.Second), between(r, time.Second, 8*time.Second) // while they call
		p.Faults = append(p.Faults, f)
	}
}

// between draws a time to the nanosecond, so that hardly two things happen at the same instant.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// lasts is for how long it goes on. What passes shows for a second at most.
func (f Fault) lasts() time.Duration {
	if f.Kind.passes() {
		return min(f.Lasts, time.Second)
	}
	return f.Lasts
}
