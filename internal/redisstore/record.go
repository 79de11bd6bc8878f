package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// Records: answers of the work under a lock, which lie beside it (lua/keep.lua). They are looked for by a command that asks for the
// lock as well (lua/recall.lua), and written by the one that gives it back. While a Cluster moves the lock's slot neither has a
// form that concerns one key alone: they are refused, and asked again.

// keptLeast is how long a record lies there at least, also one that answers nobody who comes later: for a waiter whose message
// was lost, and for a caller who asks what became of a command without a reply.
const keptLeast = 10 * time.Second

// The words of recall.lua for those who do not ask for the lock.
const (
	onlyLooks = "look"
	begins    = "begin"
)

// recalls makes c the command that asks for a record, and for the lock as join says.
func (s *Store) recalls(c *command, r store.Request, join string) {
	c.token, c.terms, c.next = r.Token, terms(r.Ref), r.Recall.Fingerprint
	place, known := c.placed(r)
	s.onRecord(c, r.Key, recallScript, &c.token, &c.terms, join, s.hears(),
		place.Waited.Microseconds(), place.Behind, known, &c.next, r.Recall.Waited.Microseconds())
}

// Recall implements store.Store.
func (s *Store) Recall(ctx context.Context, r store.Request) (store.Answer, error) {
	now := time.Now()
	c := s.command()
	if intent := r.Recall.Intent; intent != nil {
		s.recalls(c, r, begins)
		form := strconv.FormatInt(intent.Retain.Microseconds(), 10) + " " + intent.Form
		c.args = append(c.args, intent.Work, millis(intent.Lies), form)
	} else {
		s.recalls(c, r, onlyLooks)
	}
	reply, err := s.send(ctx, timeToSend(notAfter(r.Until, now), now), r.Key, c, nil)
	if err != nil {
		return store.Answer{}, err
	}
	return readAnswer(reply)
}

// keeps makes c the command that ends g's matter by itself and keeps its record.
func (s *Store) keeps(c *command, g store.Give) {
	script, args := keepScript, []any{&c.token, &s.channels, c.fenced(g.Ref), "", "", "", ""}
	if g.Stay > 0 {
		args[4] = strconv.FormatInt(max(millis(g.Stay), 1), 10)
	}
	if next := g.Next; next.Token != "" {
		c.next, c.terms, script = next.Token, terms(next.Ref), keepToScript
		args = []any{&c.token, &c.next, &c.terms, s.hears(), next.Place.Waited.Microseconds(), next.Place.Behind, c.fenced(g.Ref)}
	}
	s.onRecord(c, g.Key, script, append(args, recordArgs(g.Record)...)...)
}

// recordArgs are the arguments that tell a record: the last four of keep.lua, and all of resolve.lua.
func recordArgs(r *store.Record) []any {
	text, work := "", ""
	if !r.Undone {
		text = r.Fingerprint + " " + r.Data
	}
	if r.Work != 0 {
		work = strconv.FormatInt(r.Work, 10)
	}
	return []any{r.Retain.Microseconds(), millis(max(r.Retain, keptLeast)), text, work}
}

// Resolve implements store.Store.
func (s *Store) Resolve(ctx context.Context, key string, r store.Record) (store.Resolved, error) {
	until := s.afterReleases(ctx, key)
	c := s.command()
	s.onRecord(c, key, resolveScript, recordArgs(&r)...)
	reply, err := s.send(ctx, until, key, c, nil)
	if err != nil {
		return store.NoSuchWork, err
	}
	switch reply {
	case int64(0):
		return store.NoSuchWork, nil
	case int64(1):
		return store.IsResolved, nil
	case int64(2):
		return store.StillHeld, nil
	}
	return store.NoSuchWork, malformed()
}

// readRecalled reads the rest of an answer by recall.lua with a record, or with none for one who only looks.
func readRecalled(v *values) (a store.Answer) {
	text := v.text()
	a.Clock = v.number()
	if text == "" {
		return a
	}
	r := &store.Recalled{Clock: a.Clock}
	a.Recalled = r
	if intent, begun := strings.CutPrefix(text, "begun "); begun {
		v.bad = !readIntent(r, intent) || v.bad
		return a
	}
	made, rest, _ := strings.Cut(text, " ")
	until, rest, _ := strings.Cut(rest, " ")
	var ok1, ok2, ok3 bool
	r.Made, ok1 = number(made)
	r.Until, ok2 = number(until)
	r.Fingerprint, r.Data, ok3 = strings.Cut(rest, " ")
	v.bad = v.bad || !ok1 || !ok2 || !ok3
	return a
}

// readIntent reads the intent of work that was begun, behind its first word.
func readIntent(r *store.Recalled, intent string) bool {
	words := strings.SplitN(intent, " ", 5)
	if len(words) < 5 {
		return false
	}
	work, ok1 := number(words[0])
	since, ok2 := number(words[1])
	retain, ok3 := number(words[3])
	r.Work, r.Made, r.Fingerprint, r.Data = work, since, words[2], words[4]
	r.Retain = time.Duration(retain) * time.Microsecond
	return ok1 && ok2 && ok3 && work != 0
}

// keptAs reads the beginning of a record. It is nil for what is none.
func keptAs(record string, bytes int) *store.Kept {
	rest, begun := strings.CutPrefix(record, "begun ")
	first, second, _ := strings.Cut(strings.TrimSuffix(rest, " "), " ")
	a, ok1 := number(first)
	b, ok2 := number(second)
	switch {
	case !ok1 || !ok2:
		return nil
	case begun:
		return &store.Kept{Work: a, Since: b}
	}
	return &store.Kept{Since: a, Until: b, Bytes: bytes}
}
