package model

import (
	"fmt"
	"slices"
	"strings"
)

// This file has the work under a lock, with Notes: that it begins is noted beside the lock, and it ends with an answer, or fails, or is lost sight of. What
// is asked for of it is here, too.

// Works are what became of the claims' work. Sets of claims have a bit for each.
type works struct {
	begun  uint8 // those whose work has begun
	done   uint8 // those whose work has made an answer
	left   uint8 // those whose work failed when they had lost the lock: nobody knows more of it
	runs   uint8 // how many have begun
	undone uint8 // how many have failed with the lock
	again  uint8 // how often Redis has taken an operator's word that work is to be done again
	told   uint8 // one more than the claim whose answer was told
}

func (w *works) encode(b []byte) []byte {
	return append(b, w.begun, w.done, w.left, w.runs, w.undone, w.again, w.told)
}

// A recordKind is what lies beside the lock.
type recordKind uint8

const (
	noRecord recordKind = iota
	aNote
	anAnswer
)

// recordOf says what a record is, and of which claim.
func (z *Size) recordOf(text string) (claim uint8, is recordKind) {
	words := strings.Fields(text)
	switch {
	case text == "":
		return 0, noRecord
	case words[0] == "begun":
		return z.claimBy(words[5]), aNote
	default:
		return z.claimBy(words[3]), anAnswer
	}
}

// noted returns the claim whose work is noted as begun.
func (z *Size) noted(d *db) (claim uint8, noted bool) {
	claim, is := z.recordOf(d[keyAnswer].text)
	return claim, is == aNote
}

// work is the id of the work that is noted.
func (d *db) work() Time { return number(strings.Fields(d[keyAnswer].text)[1]) }

// outlasts has a record be there for as long as anything is looked at: when it was made and when it ends does not matter.
func (e *entry) outlasts(now Time) {
	if e.kind == absent {
		return
	}
	e.ends = now - now%unit + 90*second
	words := strings.Fields(e.text)
	if words[0] == "begun" {
		words[2] = words[1]
	} else {
		words[0], words[1] = fmt.Sprint(e.ends), fmt.Sprint(e.ends)
	}
	e.text = strings.Join(words, " ")
}

// tellRecord tells what lies beside the lock.
func (z *Size) tellRecord(s *state) string {
	if !z.Notes {
		return ""
	}
	switch claim, is := z.recordOf(s.locks[0].db[keyAnswer].text); is {
	case aNote:
		return "the work of " + z.token(claim) + " is noted"
	case anAnswer:
		return "the answer of " + z.token(claim) + " is kept"
	default:
		return "nothing is noted"
	}
}

// stepsOfWork appends what one who has had the lock may do with its work.
func (z *Size) stepsOfWork(c *claim, n uint8, asks bool, all []step) []step {
	switch {
	case c.began:
		all = append(all, step{opRelease, n, 0})
		if z.Fails {
			all = append(all, step{opFail, n, 0})
		}
	case c.looked:
		all = append(all, step{opWork, n, 0})
	case !asks:
		all = append(all, step{opLook, n, 0})
		if c.unsure {
			all = append(all, step{opFail, n, 0})
		}
	}
	if z.Hole == NoConfirming && asks && !c.began {
		all = append(all, step{opWork, n, 0})
	}
	return all
}

// look looks for an answer, or notes that the work of one who has the lock begins.
func (m *machine) look(s *state, n uint8) {
	what := look
	if m.Notes {
		what = note
	}
	s.send(command{what: what, claim: n, fence: s.claims[n].fence})
}

// mayBegin takes in the reply to the question whether work may be noted.
func (m *machine) mayBegin(s *state, o command) (wrong string) {
	c, r := &s.claims[o.claim], o.reply
	switch {
	case c.phase != holding || c.looked || c.began:
	case r.answer > 0, r.begun > 0:
		wrong = m.told(s, r.answer)
		m.serve(s, o.claim)
	case r.yes:
		c.looked = true
	default: // it does not have the lock any more
		m.fail(s, o.claim)
	}
	return wrong
}

// beginWork has a claim's work begin.
func (m *machine) beginWork(s *state, n uint8) (wrong string) {
	s.claims[n].began = true
	s.work.begun |= 1 << n
	s.work.runs++
	if most := 1 + s.work.again + s.work.undone; s.work.runs > most {
		return fmt.Sprintf("work has begun %d times, want %d at most", s.work.runs, most)
	}
	for i := range m.claims() {
		if c := &s.claims[i]; i != int(n) && c.began && c.phase == holding && s.work.again == 0 {
			return fmt.Sprintf("the work of %s begins while %s is at it", m.token(n), m.token(uint8(i)))
		}
	}
	return ""
}

// fail has a claim's work fail, or not begin. Where the lock was lost in the middle of it, nobody knows more.
func (m *machine) fail(s *state, n uint8) {
	c := &s.claims[n]
	switch {
	case c.lost:
		s.work.left |= 1 << n
		m.abandon(s, n)
		return
	case c.began:
		s.work.undone++
	}
	c.undone = true
	m.giveBack(s, n)
}

// lose has a claim learn that it has lost the lock. Work that has begun goes on, and so does that which was noted.
func (m *machine) lose(s *state, n uint8) {
	c := &s.claims[n]
	asks := slices.ContainsFunc(s.net, func(o command) bool { return o.claim == n && o.what == note })
	switch {
	case c.looked, c.began:
		c.lost, c.trusted = true, 0
	case m.Notes && (asks || c.unsure) && m.Hole != IntentStays:
		c.undone = true
		m.giveBack(s, n)
	default:
		m.abandon(s, n)
	}
}

// kept takes in the reply to a release with an answer, or with the word that there is none.
func (m *machine) kept(s *state, o command) (wrong string) {
	switch {
	case o.undone && o.reply.yes, o.undone && s.claims[o.claim].released:
		m.over(s, o)
	case o.undone:
		m.abandon(s, o.claim)
	case o.reply.yes:
		wrong = m.told(s, o.claim+1)
		m.over(s, o)
	default: // an earlier one may have kept it, or this one although the lock was lost
		s.send(command{what: find, claim: o.claim, fence: o.fence})
	}
	return wrong
}

// found takes in what lies there behind a release that has found nothing to give back.
func (m *machine) found(s *state, o command) (wrong string) {
	if s.claims[o.claim].phase != giving {
		return ""
	}
	if found := o.reply.answer; found == o.claim+1 || found > 0 && m.Hole == AnyAnswer {
		wrong = m.told(s, o.claim+1)
	}
	m.abandon(s, o.claim)
	return wrong
}

// told has a caller be told the answer of a claim, which is given as one more; 0: it is told that nobody knows more. No two are told different ones.
func (m *machine) told(s *state, answer uint8) (wrong string) {
	if answer == 0 || s.work.told == answer {
		return ""
	}
	if s.work.told > 0 {
		return fmt.Sprintf("the answer of %s is told, and that of %s was told before", m.token(answer-1), m.token(s.work.told-1))
	}
	s.work.told = answer
	return ""
}

// notes returns what is wrong with a record that a command has found, or written.
func (m *machine) notes(s *state, o *command, before *db) string {
	if maker := o.reply.answer; maker > 0 && s.work.done>>(maker-1)&1 == 0 {
		return fmt.Sprintf("%s has an answer of %s, whose work has made none", m.token(o.claim), m.token(maker-1))
	}
	owner, was := m.recordOf(before[keyAnswer].text)
	now, is := m.recordOf(s.locks[0].db[keyAnswer].text)
	has, token := holders(before), m.token(o.claim)
	switch {
	case o.what == resolve:
		if o.reply.yes {
			s.work.again++
		}
		if o.reply.yes && has != nil {
			return fmt.Sprintf("the work of %s is to be done again, and %s has the lock", token, has[0])
		}
		if o.reply.yes && owner != o.claim {
			return fmt.Sprintf("the work of %s is to be done again, and that was said of %s", m.token(owner), token)
		}
	case was == is && owner == now:
	case was == anAnswer:
		return fmt.Sprintf("the answer of %s was kept, and has gone", m.token(owner))
	case was == aNote && owner != o.claim:
		return fmt.Sprintf("the work of %s was noted, and %s has taken that for its own", m.token(owner), token)
	case is == aNote && !slices.Contains(holders(&s.locks[0].db), m.token(now)):
		return fmt.Sprintf("the work of %s is noted, and it does not have the lock", m.token(now))
	case is == anAnswer && was == noRecord && !slices.Contains(has, token):
		return token + " has kept an answer without the lock and without an intent"
	}
	return ""
}

// uncertain returns what is wrong with what is left when all have gone: nobody is to be refused because of work that did not
// begin, or of which its process knew what became of it. A process that has died knows nothing.
func (m *machine) uncertain(s *state) string {
	owner, noted := m.noted(&s.locks[0].db)
	switch {
	case !noted || s.lockers[m.of(owner)].dead || s.work.left>>owner&1 == 1:
		return ""
	case s.work.begun>>owner&1 == 0:
		return fmt.Sprintf("all have gone, and the work of %s is noted, which never began", m.token(owner))
	default:
		return fmt.Sprintf("all have gone, and the work of %s is noted, of which its caller knows more", m.token(owner))
	}
}
