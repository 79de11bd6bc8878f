package redisstore

import (
	"context"
	"strconv"
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
	s.onRecord(c, r.Key, recallScript, &c.token, &c.terms, join, s.hears(),
		r.Place.Waited.Microseconds(), r.Place.Behind, c.fenced(r.Ref), &c.next, r.Recall.Waited.Microseconds())
}

// Recall implements store.Store.
func (s *Store) Recall(ctx context.Context, r store.Request) (store.Answer, error) {
	now := time.Now()
	c := s.command()
	if begin := r.Recall.Begin; begin != nil {
		s.recalls(c, r, begins)
		form := strconv.FormatInt(begin.Retain.Microseconds(), 10) + " " + begin.Form
		c.args = append(c.args, begin.Work, millis(begin.Lies), form)
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
	s.onRecord(c, g.Key, script, append(append(args, recordArgs(g.Record)...), workArg(g.Record))...)
}

// recordArgs are the arguments that tell a record.
func recordArgs(r *store.Record) []any {
	text := ""
	if !r.Undone {
		text = r.Fingerprint + " " + r.Data
	}
	return []any{r.Retain.Microseconds(), millis(max(r.Retain, keptLeast)), text}
}

// workArg is the id of a record's work, or empty.
func workArg(r *store.Record) string {
	if r.Work == 0 {
		return ""
	}
	return strconv.FormatInt(r.Work, 10)
}

// Resolve implements store.Store.
func (s *Store) Resolve(ctx context.Context, key string, r store.Record) (store.Resolved, error) {
	until := deadline(ctx)
	s.settle(ctx, key, until)
	c := s.command()
	s.onRecord(c, key, resolveScript, append([]any{workArg(&r)}, recordArgs(&r)...)...)
	reply, err := s.send(ctx, timeToSend(until, time.Now()), key, c, nil)
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
