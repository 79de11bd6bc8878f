package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// Renew and Remove, which send one command for each of many locks in one write to each server.

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, batch []store.Renewal) {
	commands := make([]command, len(batch))
	for i := range batch {
		r, c := &batch[i], &commands[i]
		c.token, c.terms = r.Token, terms(r.Ref)
		s.onLock(c, r.Key, renewScript, &c.token, &c.terms)
		if r.Fence > 0 {
			c.args = append(c.args, c.fenced(r.Ref))
		}
		c.onekey = oneKeyOf(r.Ref, "renew", millis(r.TTL))
	}
	s.batch(ctx, commands, true, func(i int) string { return batch[i].Key }, func(i int, reply any, err error) {
		held := false
		if err == nil {
			held, err = readRenewed(reply)
		}
		batch[i].Held, batch[i].Err = held, err
	})
}

// Remove implements store.Store.
func (s *Store) Remove(ctx context.Context, batch []store.Removal) {
	commands := make([]command, len(batch))
	for i := range batch {
		s.removal(&commands[i], batch[i])
	}
	s.batch(ctx, commands, false, func(i int) string { return batch[i].Key }, func(i int, reply any, err error) {
		if err == nil {
			var messages []any
			_, messages, err = readReleased(reply)
			s.tellAll(messages)
		}
		batch[i].Err = err
	})
}

// removal makes c give back what r's token has, and its place in the queue.
func (s *Store) removal(c *command, r store.Removal) {
	c.token, c.terms = r.Token, terms(r.Ref)
	s.onLock(c, r.Key, releaseScript, &c.token, &s.channels, c.fenced(r.Ref), &c.terms)
	c.onekey = oneKeyOf(r.Ref, "release", c.stays(r.Stay))
	c.entry = entry(r.Ref)
}

// An eachFunc is told what came of the command with index i, once.
type eachFunc func(i int, reply any, err error)

// batch sends the commands together, each to the server of the lock called name(i), and
// calls each with what came of every command. It is bounded by ctx. Urgent commands go behind as
// few others as may be. What a server does not know by its hash is sent again by its text,
// and what a Cluster's nodes leave to others is sent by itself.
func (s *Store) batch(
	ctx context.Context, commands []command, urgent bool, name func(int) string, each eachFunc,
) {
	until := deadline(ctx)
	var alone []int
	places := make(map[*wire.Pool][]int)
	for i := range commands {
		if pool := s.pool(name(i)); pool != nil {
			places[pool] = append(places[pool], i)
		} else {
			alone = append(alone, i)
		}
	}
	for byHash, left := true, false; len(places) > 0; byHash = false {
		eras, leaves := s.dialer.eras.Load(), false
		sent := s.sendAll(ctx, until, commands, places, byHash, urgent)
		clear(places)
		for _, b := range sent {
			for _, i := range b.places {
				value, err := b.next()
				switch {
				case byHash && unknownScript(err):
					places[b.pool] = append(places[b.pool], i)
					continue
				case !left && s.mayBeElsewhere(err, eras):
					places[b.pool], leaves = append(places[b.pool], i), true
					continue
				case s.cluster && redirected(err):
					alone = append(alone, i)
					continue
				case err == nil && value == nil:
					err = malformed()
				}
				if err != nil {
					value, err = nil, s.failed(err)
				}
				each(i, value, err)
			}
		}
		left = left || leaves
	}
	s.byThemselves(ctx, until, commands, alone, urgent, name, each)
}

// byThemselves sends the commands at the given places, at the same time, each by itself.
func (s *Store) byThemselves(
	ctx context.Context, until time.Time, commands []command, places []int, urgent bool, name func(int) string, each eachFunc,
) {
	values, errs := make([]any, len(places)), make([]error, len(places))
	var running sync.WaitGroup
	for at, i := range places {
		c := &commands[i]
		c.call.Deadline, c.call.Urgent = until, urgent
		running.Go(func() {
			values[at], _, errs[at] = s.carry(ctx, name(i), c, nil)
			if values[at] == nil && errs[at] == nil {
				errs[at] = malformed()
			}
		})
	}
	running.Wait()
	for at, i := range places {
		each(i, values[at], errs[at])
	}
}

// A sentBatch is what was sent to one server.
type sentBatch struct {
	wire.Call
	pool   *wire.Pool
	places []int
	err    error
	rest   []byte // replies that are not read
}

// sendAll sends the commands at the given places, to all servers at once.
func (s *Store) sendAll(
	ctx context.Context, until time.Time, commands []command, places map[*wire.Pool][]int, byHash, urgent bool,
) []*sentBatch {
	var all []*sentBatch
	var running sync.WaitGroup
	for pool, at := range places {
		b := &sentBatch{pool: pool, places: at}
		b.Replies, b.Deadline, b.Urgent = len(at), until, urgent
		for _, i := range at {
			b.Commands = commands[i].appendTo(b.Commands, byHash)
		}
		all = append(all, b)
		send := func() { _, b.err = pool.Do(ctx, &b.Call) }
		if len(places) == 1 {
			send()
		} else {
			running.Go(send)
		}
	}
	running.Wait()
	for _, b := range all {
		if b.err != nil {
			e := s.unanswered(ctx, b.err)
			b.err = e
			if e.Pending {
				continue // replies may arrive just now
			}
		}
		b.rest = b.Reply
	}
	return all
}

// next reads the next reply. Behind the last that has come it returns the error of all.
func (b *sentBatch) next() (value any, err error) {
	if len(b.rest) == 0 {
		return nil, b.err
	}
	at := b.rest
	if value, b.rest, err = wire.Parse(at); err != nil {
		b.rest, b.err = nil, &store.Error{Err: err, Ambiguous: true}
		return nil, b.err
	}
	if refusal, ok := value.(wire.Refusal); ok {
		return nil, refusal
	}
	return value, nil
}
