package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file judges answers that are one for all who ask: those of lockmw.Do, where Redis keeps its word.

// Call is one call of Do.
type Call struct {
	ID        int           `json:"id"` // within its process
	Key       string        `json:"key"`
	Print     string        `json:"print"`               // the fingerprint of its request
	Uncertain bool          `json:"uncertain,omitempty"` // it asks by Crash: Uncertain, and otherwise by RunAgain
	Worker    string        `json:"worker"`
	Asked     time.Duration `json:"asked"`
	Returned  time.Duration `json:"returned"`         // 0: its process ended before
	Ran       int           `json:"ran,omitempty"`    // the ID of the hold under which its own work ran; 0: that did not run
	Came      string        `json:"came,omitempty"`   // what came of it: one of the words below, or an error that has none
	Answer    string        `json:"answer,omitempty"` // the Name of the hold under which it was made, or what a Resolution says
	Shared    bool          `json:"shared,omitempty"` // it was told that the answer is another call's
	Work      int64         `json:"work,omitempty"`   // the work of which it was told that nobody knows, by its id: the fence of the hold
}

// What comes of a call of Do.
const (
	Answered     = "answered"
	Uncertain    = "uncertain"     // nobody knows whether the work was done
	OtherRequest = "other request" // the key was used for another one
	NotKept      = "not kept"      // the work is over, and there is no answer
	Refused      = "refused"       // Acquire's errors
	Failed       = "failed"        // its own work says that nothing was done
	Stopped      = "stopped"       // its own work was told to stop, or may have been, and says no more. Lost is the word if the lock was lost
)

// Resolution is what a worker was about to say of work of which nobody knows. What came of that is not known.
type Resolution struct {
	Key    string `json:"key"`
	Print  string `json:"print"` // of the request that the work was for
	Work   int64  `json:"work"`
	How    string `json:"how"`
	Answer string `json:"answer,omitempty"`
}

// What is said of work, as the console and lockctl call it.
const (
	Undone  = "again"
	Done    = "done"
	Settled = "discard"
)

// Unkept says that Redis may not have the answer that a process has made under a key.
type Unkept struct {
	Key    string `json:"key"` // empty: any key, since the process was killed
	Worker string `json:"worker"`
}

// Answers is what workers told of answers.
type Answers struct {
	Calls       []Call       `json:"calls,omitempty"`
	Resolutions []Resolution `json:"resolutions,omitempty"`
	Unkept      []Unkept     `json:"unkept,omitempty"`
}

// Add puts others behind these.
func (a *Answers) Add(more Answers) {
	a.Calls = append(a.Calls, more.Calls...)
	a.Resolutions = append(a.Resolutions, more.Resolutions...)
	a.Unkept = append(a.Unkept, more.Unkept...)
}

// Count returns how often each thing came of a call.
func (a Answers) Count() map[string]int {
	counts := make(map[string]int)
	for _, c := range a.Calls {
		counts[cmp.Or(c.Came, Killed)]++
	}
	return counts
}

// Keys returns how many keys were asked for.
func (a Answers) Keys() int { return len(byKey(a.Calls, func(c Call) string { return c.Key })) }

// WrongAnswers returns what must not be of answers that are kept for longer than anybody asks. holds are those under which the work was done, and
// calm says whether nothing was done to a key's Redis and its workers between two moments.
func WrongAnswers(holds []Hold, a Answers, calm func(key string, from, to time.Duration) bool) (wrong []string) {
	s := said{
		holds: byKey(holds, func(h Hold) string { return h.Key }), resolved: byKey(a.Resolutions, func(r Resolution) string { return r.Key }),
		made: make(map[string]Hold), ran: make(map[string]Call), unkept: make(map[Unkept]bool), calm: calm,
	}
	for _, h := range holds {
		s.made[h.Name()] = h
	}
	for _, c := range a.Calls {
		if c.Ran != 0 {
			s.ran[Hold{Worker: c.Worker, ID: c.Ran}.Name()] = c
		}
	}
	for _, u := range a.Unkept {
		s.unkept[u] = true
	}
	for key, calls := range byKey(a.Calls, func(c Call) string { return c.Key }) {
		wrong = append(wrong, s.doneAgain(key, calls)...)
		wrong = append(wrong, s.different(calls)...)
		wrong = append(wrong, s.notReplayed(key, calls)...)
		for _, c := range calls {
			if why := s.misjudged(c, calls); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s: %s", why, c))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// said is what was told of all answers.
type said struct {
	holds    map[string][]Hold       // by key
	resolved map[string][]Resolution // by key
	made     map[string]Hold         // by name: whose answer that is
	ran      map[string]Call         // by the name of the hold of its work
	unkept   map[Unkept]bool
	calm     func(key string, from, to time.Duration) bool
}

// doneAgain returns a key whose work was done, or may have been, more often than it was said to be undone, though it asks by Uncertain.
func (s said) doneAgain(key string, calls []Call) []string {
	undone := make(map[int64]bool)
	for _, r := range s.resolved[key] {
		if r.How == Undone {
			undone[r.Work] = true
		}
	}
	var done []string
	for _, h := range s.holds[key] {
		if !h.Fails {
			done = append(done, fmt.Sprintf("under %s from %v to %v (%s)", h.Name(), h.Began, h.Ended, h.How))
		}
	}
	if !calls[0].Uncertain || len(done) <= 1+len(undone) {
		return nil
	}
	return []string{fmt.Sprintf("work done again: %s: %s; of %d it was said that they were not done", key, strings.Join(done, ", "), len(undone))}
}

// isPublic reports whether a call has an answer that Redis has given to it: it was made in another process, or by hand.
func (s said) isPublic(c Call) bool {
	maker, made := s.made[c.Answer]
	return c.Came == Answered && (!made || maker.Worker != c.Worker)
}

// different returns two answers to one key. One that Redis may not have does not count where it is in its own process alone.
func (s said) different(calls []Call) []string {
	var one *Call
	for i, c := range calls {
		switch {
		case c.Came != Answered, !s.isPublic(c) && (s.unkept[Unkept{c.Key, c.Worker}] || s.unkept[Unkept{"", c.Worker}]):
		case one == nil:
			one = &calls[i]
		case c.Answer != one.Answer:
			return []string{fmt.Sprintf("different answers: %s; %s", *one, c)}
		}
	}
	return nil
}

// notReplayed returns what was asked for when the answer was kept for certain, and came to something else.
func (s said) notReplayed(key string, calls []Call) (wrong []string) {
	var first *Call
	for i, c := range calls {
		if s.isPublic(c) && (first == nil || c.Returned < first.Returned) {
			first = &calls[i]
		}
	}
	if first == nil {
		return nil
	}
	for _, h := range s.holds[key] {
		if h.Asked > first.Returned {
			wrong = append(wrong, fmt.Sprintf("answer not given again: %s: asked for at %v, and done under %s; %s", key, h.Asked, h.Name(), first))
		}
	}
	for _, c := range calls {
		if c.Asked > first.Returned && (c.Came == Uncertain || c.Came == NotKept || c.Came == OtherRequest && c.Print == first.Print) {
			wrong = append(wrong, fmt.Sprintf("answer not given again: %s; %s", c, first))
		}
	}
	return wrong
}

// misjudged says what is wrong with what one of the calls for a key was told; "" if nothing is.
func (s said) misjudged(c Call, calls []Call) string {
	if c.Returned == 0 {
		return ""
	}
	switch c.Came {
	case Answered:
		return s.wrongAnswer(c)
	case Failed, Stopped, Lost:
		if c.Ran == 0 {
			return "has no work that could end so"
		}
		return ""
	}
	if c.Ran != 0 {
		return "was refused, and its work had begun"
	}
	switch c.Came {
	case Refused:
	case Uncertain:
		return s.wronglyUncertain(c, calls)
	case OtherRequest:
		if !slices.ContainsFunc(calls, func(other Call) bool { return other.Print != c.Print && other.Asked < c.Returned }) {
			return "there is no other request"
		}
	case NotKept:
		if !slices.ContainsFunc(s.resolved[c.Key], func(r Resolution) bool { return r.How == Settled }) {
			return "nobody has discarded the work"
		}
	default:
		return "came to an end that has no name"
	}
	return ""
}

// wrongAnswer says what is wrong with an answer.
func (s said) wrongAnswer(c Call) string {
	maker, made := s.made[c.Answer]
	switch {
	case !made && !slices.ContainsFunc(s.resolved[c.Key], func(r Resolution) bool { return r.Answer == c.Answer && r.Print == c.Print }):
		return "nobody has made this answer"
	case made && (maker.Key != c.Key || maker.Print != c.Print):
		return fmt.Sprintf("answer to another request, %s %s", maker.Key, maker.Print)
	case made && maker.Fails:
		return "answer of work that has failed"
	case c.Shared == (made && maker.Worker == c.Worker && maker.ID == c.Ran), c.Shared == (c.Ran != 0):
		return "does not know whose answer it is"
	}
	return ""
}

// confirmed is how soon a release has returned that Redis has confirmed: before its first try is given up.
const confirmed = 300 * time.Millisecond

// endsWell reports whether Redis has heard from the holder itself how its work has ended, if nothing is wrong with Redis.
func (h Hold) endsWell() bool {
	return h.How == Released && h.Freed-h.Ended < confirmed && h.Freed <= h.Until
}

// wronglyUncertain says why a call must not have been told that nobody knows.
func (s said) wronglyUncertain(c Call, calls []Call) string {
	if !c.Uncertain {
		return "told that nobody knows, and asks by RunAgain"
	}
	i := slices.IndexFunc(s.holds[c.Key], func(h Hold) bool { return h.Fence == c.Work })
	if i < 0 { // the work did not begin, and either its process was killed right before, or Redis could not be told
		if slices.ContainsFunc(calls, func(other Call) bool {
			return other.Print == c.Print && other.Ran == 0 && (other.Returned == 0 || other.Came == Refused) && other.Asked < c.Returned
		}) {
			return ""
		}
		return "told that nobody knows of work that nobody has begun"
	}
	h := s.holds[c.Key][i]
	ran := s.ran[h.Name()]
	switch {
	case h.Print != c.Print:
		return "told that nobody knows of another request"
	case h.Began < c.Asked && c.Returned < h.Ended:
		return fmt.Sprintf("told that nobody knows of work that was going on, under %s until %v", h.Name(), h.Ended)
	case (ran.Came == Answered || ran.Came == Failed) && h.endsWell() && s.calm(c.Key, h.Began, c.Returned):
		return fmt.Sprintf("told that nobody knows of work that ended well, under %s at %v", h.Name(), h.Ended)
	}
	return ""
}

// String says who has asked for what, when, and what came of it.
func (c Call) String() string {
	text := fmt.Sprintf("%s %s: %s asked from %v to %v, and was %s", c.Key, c.Print, c.Worker, c.Asked, c.Returned, cmp.Or(c.Came, Killed))
	if c.Answer != "" {
		text += " by " + c.Answer
	}
	if c.Work != 0 {
		text += fmt.Sprint(" about ", c.Work)
	}
	return text
}
