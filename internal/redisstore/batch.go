package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

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
		r, c := &batch[i], &commands[i]
		c.token, c.terms = r.Token, terms(r.Ref)
		s.onLock(c, r.Key, releaseScript, &c.token, &s.channels, c.fenced(r.Ref), &c.terms)
		c.onekey = oneKeyOf(r.Ref, "release", 0)
		c.entry = entry(r.Ref)
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

// An eachFunc is told what came of the command with index i. It may be called again for an
// index: first with a Cluster's redirection, and then with what go-redis brought. The last
// call counts.
type eachFunc func(i int, reply any, err error)

// batch sends the commands together, each to the server of the lock called name(i), and
// calls each with what came of every command. It is bounded by ctx. Urgent commands go behind as
// few others as may be. What a server does not know by its hash is sent again by its text,
// and what a Cluster's nodes leave open goes the way of go-redis.
func (s *Store) batch(
	ctx context.Context, commands []command, urgent bool, name func(int) string, each eachFunc,
) {
	until := deadline(ctx)
	places := make(map[*wire.Pool][]int)
	for i := range commands {
		pool := s.pool(name(i))
		places[pool] = append(places[pool], i)
	}
	aside := places[nil]
	delete(places, nil)
	for byHash := true; len(places) > 0; byHash = false {
		sent := s.sendAll(ctx, until, commands, places, byHash, urgent)
		clear(places)
		for _, b := range sent {
			for _, i := range b.places {
				value, err := b.next()
				switch {
				case byHash && unknownScript(err):
					places[b.pool] = append(places[b.pool], i)
					continue
				case s.cluster && redirected(err):
					aside = append(aside, i)
				case err == nil && value == nil:
					err = malformed()
				}
				if err != nil {
					value, err = nil, s.failed(err)
				}
				each(i, value, err)
			}
		}
	}
	if len(aside) > 0 {
		bounded, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		s.batchAside(bounded, commands, aside, each)
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

// batchAside sends the commands at the given places in one pipeline of go-redis. One
// whose keys a Cluster moves just now is sent again in the form for that, and each is
// called for it a second time.
func (s *Store) batchAside(ctx context.Context, commands []command, places []int, each eachFunc) {
	sent := make([]*command, len(commands))
	for i := range commands {
		sent[i] = &commands[i]
	}
	moving := s.pipelineKnown(ctx, sent, places, each)
	if len(moving) == 0 {
		return
	}
	for _, i := range moving {
		sent[i] = commands[i].withOneKey()
	}
	s.pipelineKnown(ctx, sent, moving, each)
	s.leaveQueues(ctx, commands, moving, each)
}

// pipelineKnown sends the commands at the given places. A pipeline does not fall
// back from EVALSHA to EVAL by itself, so those that met a server without their
// script are sent once more with its text. It returns those whose keys are being
// moved and that have a form for that.
func (s *Store) pipelineKnown(
	ctx context.Context, commands []*command, places []int, each eachFunc,
) (moving []int) {
	unknown, moving := s.pipelineOnce(ctx, commands, places, true, each)
	if len(unknown) == 0 {
		return moving
	}
	_, more := s.pipelineOnce(ctx, commands, unknown, false, each)
	return append(moving, more...)
}

// pipelineOnce sends the commands at the given places. It returns those whose
// server did not know the script, and those whose keys are being moved.
func (s *Store) pipelineOnce(
	ctx context.Context, commands []*command, places []int, byHash bool, each eachFunc,
) (unknown, moving []int) {
	pipe := s.client.Pipeline()
	cmds := make([]once, len(places))
	for i, place := range places {
		cmds[i] = commands[place].goRedis(ctx, byHash)
		_ = pipe.Process(ctx, cmds[i]) // only queues it
	}
	_, failed := pipe.Exec(ctx)
	for i, place := range places {
		reply, err := cmds[i].Val(), cmds[i].Err()
		switch {
		case byHash && unknownScript(err):
			unknown = append(unknown, place)
		case err != nil:
			each(place, nil, s.failed(err))
			if s.moving(err, commands[place]) {
				moving = append(moving, place)
			}
		case reply == nil && failed != nil: // the pipeline ended before this one's reply
			each(place, nil, s.failed(failed))
		case reply == nil:
			each(place, nil, malformed())
		default:
			each(place, reply, nil)
		}
	}
	return unknown, moving
}

// leaveQueues removes the queue entries of those commands at the given places that
// give one up: the form for keys that are being moved leaves that out.
func (s *Store) leaveQueues(ctx context.Context, commands []command, places []int, each eachFunc) {
	pipe := s.client.Pipeline()
	cmds := make(map[int]once)
	for _, i := range places {
		if c := &commands[i]; c.entry != "" {
			cmds[i] = once{redis.NewCmd(ctx, plain([]any{"zrem", c.args[queueAt], c.entry})...)}
			_ = pipe.Process(ctx, cmds[i]) // only queues it
		}
	}
	if len(cmds) == 0 {
		return
	}
	_, _ = pipe.Exec(ctx) // each command has its error
	for i, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			each(i, nil, s.failed(err))
		}
	}
}
