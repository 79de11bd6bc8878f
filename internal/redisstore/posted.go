package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/shards"
	"github.com/lockmw/kit/internal/store"
)

// A release whose caller does not wait for the reply (ReleaseAsync) is posted: one script, which ends the matter by itself, is
// handed to a connection, and what comes of it is told later. It is never give.lua, which would need release.lua behind it
// if it does nothing: the process may have ended by then.
//
// Connections do not keep the order: what could not be written goes over another one, and a Cluster's redirections overtake. So
// a later command about the same lock waits until the release is over (settle). Whoever waits reads the reply by
// itself, and so sooner than anybody else would. Only who asks for a free lock need not wait: its four commands go behind the release
// over the same connection, or nowhere (setBehind).
//
// Only what goes well is seen to here. Where the server refuses the script, does not know it or names another server, a
// goroutine releases as Release does.

// posts are the releases that were posted, or announced, and are not over.
type posts struct {
	n     atomic.Int64
	parts shards.Of[postsOf]
}

// postsOf has those of some locks.
type postsOf struct {
	mu    sync.Mutex
	last  map[string]*command // by the lock's name: the one that was posted last
	count uint64              // how many were posted
}

// A posted is the part of a command that concerns a release that is posted. The mutex of its part of posts guards what follows late.
type posted struct {
	give  store.Give
	told  func(store.Released, store.Answer, error) <-chan struct{}
	until time.Time                       // how long the first try may take
	pool  *wire.Pool                      // where it was posted; nil: releaseAside sends it, or it was only announced
	late  func(replies []byte, err error) // calls answered; made once

	before *command      // the one about the same lock that was posted before it and is not over, or nil
	number uint64        // grows with each that is posted
	known  int           // how many know the command: those in settle, and a connection over which its reply may yet come
	over   bool          // nothing of the release is under way any more
	done   chan struct{} // closed when it is over; nil: nobody waits for that
}

// ReleaseAsync implements store.Store.
func (s *Store) ReleaseAsync(g store.Give, soon bool, told func(store.Released, store.Answer, error) <-chan struct{}) {
	now := time.Now()
	c := s.command()
	s.releases(c, g)
	c.tellsValue(g)
	c.posted.give, c.posted.told, c.posted.until = g, told, timeToSend(notAfter(g.Until, now), now)
	c.call.Deadline = c.posted.until
	if s.suits.Load() {
		c.posted.pool = s.pool(g.Key)
	}
	s.posts.add(c)
	if c.posted.pool == nil {
		s.releaseAside(c)
		return
	}
	if c.posted.late == nil {
		c.posted.late = func(replies []byte, err error) { s.answered(c, replies, err) }
	}
	c.call.Commands, c.call.Replies, c.call.Late = c.appendTo(c.call.Commands[:0], true), 1, c.posted.late
	c.posted.pool.Post(&c.call, soon)
}

// Announce implements store.Store.
func (s *Store) Announce(key string) (over func()) {
	c := s.command()
	c.posted.give.Key = key
	s.posts.add(c)
	return func() { s.end(c) }
}

// answered takes in what came of a release that was posted.
func (s *Store) answered(c *command, replies []byte, err error) {
	reply, err := s.reply(context.Background(), replies, err)
	if refusal, refused := errors.AsType[wire.Refusal](err); refused && !s.dialer.verdict(refusal).Ambiguous { // nothing was done
		s.releaseAside(c)
		return
	}
	if err != nil {
		s.posts.know(c) // for good: its reply may yet come
		s.conclude(c, store.NotHeld, store.Answer{}, s.failedAt(err, c))
		return
	}
	did, a, err := s.released(c.posted.give, reply)
	s.conclude(c, did, a, err)
}

// releaseAside has a goroutine release as Release does.
func (s *Store) releaseAside(c *command) {
	s.running.Go(func() {
		did, a, err := s.release(context.Background(), timeToSend(c.posted.until, time.Now()), c.posted.give)
		s.conclude(c, did, a, err)
	})
}

// conclude tells what came of a release that was posted.
func (s *Store) conclude(c *command, did store.Released, a store.Answer, err error) {
	s.running.Add(1) // before the caller knows, and may close the Store
	settled := c.posted.told(did, a, err)
	if settled == nil {
		s.end(c)
		s.running.Done()
		return
	}
	go func() { // the caller sends it again
		defer s.running.Done()
		<-settled
		s.end(c)
	}()
}

// end has nobody wait for c's release any more.
func (s *Store) end(c *command) {
	if s.posts.remove(c) {
		s.free(c)
	}
}

// toTell is how long an Acquire waits at most, when it has its grant, until the release that it went behind is told of.
const toTell = 50 * time.Millisecond

// setBehind asks for a lock by the four commands of set.go where one release of it is under way: behind that, over its connection, so that nobody waits
// for the release first. It is as set otherwise, and has not sent them where there is no such release, or more than one.
func (s *Store) setBehind(ctx context.Context, r store.Request, now, until time.Time) (a store.Answer, at progress, err error) {
	if s.posts.n.Load() == 0 {
		return store.Answer{}, notSent, nil
	}
	first := s.posts.knowOnly(r.Key)
	if first == nil {
		return store.Answer{}, notSent, nil
	}
	defer s.forget(first) // also where ctx panics
	if a, at, err = s.set(ctx, r, now, until, first); at == decided && err == nil {
		s.posts.awaitEnd(ctx, first, time.Now().Add(toTell)) // its reply has mostly come, and whoever read it is about to say so
	}
	return a, at, err
}

// settle waits until the releases of the lock called name are over that were posted before: until then, or until ctx ends.
func (s *Store) settle(ctx context.Context, name string, until time.Time) (waited bool) {
	var most uint64 // those that are posted from now on are not waited for
	for s.posts.n.Load() > 0 {
		c := s.posts.knowLast(name, &most)
		if c == nil {
			return waited
		}
		waited = true
		if !s.settleOne(ctx, c, until) {
			return true
		}
	}
	return waited
}

// settleOne waits until the release of c is over, which knowLast has returned: until then, or until ctx ends. It reports whether it
// is, and forgets c also where ctx panics.
func (s *Store) settleOne(ctx context.Context, c *command, until time.Time) (over bool) {
	defer s.forget(c)
	if c.posted.pool != nil {
		s.takePart(ctx, c, until)
	}
	return s.posts.awaitEnd(ctx, c, until)
}

// forget undoes what made c known to its caller.
func (s *Store) forget(c *command) {
	if s.posts.forget(c) {
		s.free(c)
	}
}

// takePart reads the reply to the release of c, as long as settleOne waits.
func (s *Store) takePart(ctx context.Context, c *command, until time.Time) {
	if until.Before(c.posted.until) { // not under ctx, which may panic when a timer ends it
		own, end := context.WithDeadline(context.Background(), until)
		defer end()
		stop := context.AfterFunc(ctx, end)
		defer stop()
		ctx = own
	}
	c.posted.pool.Await(ctx, &c.call)
}

func (p *posts) add(c *command) {
	p.n.Add(1)
	name := c.posted.give.Key
	of := p.parts.Part(name)
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.last == nil {
		of.last = make(map[string]*command)
	}
	of.count++
	c.posted.number, c.posted.before = of.count, of.last[name]
	of.last[name] = c
}

// remove takes out a release that is over, and tells those who wait for that. unknown says that nobody knows the command any more, so
// that it can be used again.
func (p *posts) remove(c *command) (unknown bool) {
	name := c.posted.give.Key
	of := p.parts.Part(name)
	of.mu.Lock()
	defer of.mu.Unlock()
	switch last := of.last[name]; {
	case last != c:
		for last.posted.before != c {
			last = last.posted.before
		}
		last.posted.before = c.posted.before
	case c.posted.before == nil:
		delete(of.last, name)
	default:
		of.last[name] = c.posted.before
	}
	p.n.Add(-1)
	c.posted.over = true
	if c.posted.done != nil {
		close(c.posted.done)
	}
	return c.posted.known == 0
}

// know keeps the command from being used again.
func (p *posts) know(c *command) {
	of := p.parts.Part(c.posted.give.Key)
	of.mu.Lock()
	defer of.mu.Unlock()
	c.posted.known++
}

// knowLast returns the release of the lock called name that was posted last, as number most or before, and is not over; or nil. A
// most of zero becomes the number of the last one of all. forget must follow.
func (p *posts) knowLast(name string, most *uint64) *command {
	of := p.parts.Part(name)
	of.mu.Lock()
	defer of.mu.Unlock()
	if *most == 0 {
		*most = of.count
	}
	c := of.last[name]
	for c != nil && c.posted.number > *most {
		c = c.posted.before
	}
	if c != nil {
		c.posted.known++
	}
	return c
}

// knowOnly returns the release of the lock called name that is not over, or nil if there is none, or more than one. forget must follow.
func (p *posts) knowOnly(name string) *command {
	of := p.parts.Part(name)
	of.mu.Lock()
	defer of.mu.Unlock()
	c := of.last[name]
	if c == nil || c.posted.before != nil {
		return nil
	}
	c.posted.known++
	return c
}

// forget undoes that of knowLast, or knowOnly. unknown is as in remove.
func (p *posts) forget(c *command) (unknown bool) {
	of := p.parts.Part(c.posted.give.Key)
	of.mu.Lock()
	defer of.mu.Unlock()
	c.posted.known--
	return c.posted.over && c.posted.known == 0
}

// awaitEnd waits until a release is over: until then, or until ctx ends. It reports whether it is.
func (p *posts) awaitEnd(ctx context.Context, c *command, until time.Time) (over bool) {
	of := p.parts.Part(c.posted.give.Key)
	of.mu.Lock()
	over = c.posted.over
	if !over && c.posted.done == nil {
		c.posted.done = make(chan struct{})
	}
	done := c.posted.done
	of.mu.Unlock()
	if over {
		return true
	}
	timeout := time.NewTimer(time.Until(until))
	defer timeout.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-timeout.C:
	}
	return false
}
