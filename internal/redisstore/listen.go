package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// pulse is how often the subscription is pinged; two silent pulses in a row
// end it. go-redis's own health check writes a PING too, but never misses the
// PONG: a black-holed connection went unnoticed for 20 s.
const pulse = 400 * time.Millisecond

var errSilent = errors.New("the subscription's connection is silent")

// hears says how this process hears of grants, in the words of queue.lua, and
// where.
func (s *Store) hears() *string {
	switch {
	case !s.subscribed.Load():
		return &s.polls
	case s.cluster:
		return &s.unseen
	default:
		return &s.visible
	}
}

// Listen implements store.Store over one subscription to one channel.
func (s *Store) Listen(ctx context.Context, h store.Listener) error {
	defer s.subscribed.Store(false)
	s.listener.Store(&h)
	sub := s.client.Subscribe(ctx, s.channels+s.process)
	var heard atomic.Int64 // messages of any kind
	ended := make(chan error, 1)
	go func() { ended <- s.receive(ctx, sub, h, &heard) }()

	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	last, silent := int64(0), 0
	for {
		select {
		case err := <-ended:
			_ = sub.Close()
			return err
		case <-ctx.Done():
			_ = sub.Close() // ends receive
			<-ended
			return context.Cause(ctx)
		case <-ticker.C:
			now := heard.Load()
			if now != last {
				last, silent = now, 0
			} else if silent++; silent >= 2 {
				_ = sub.Close()
				<-ended
				return &store.Error{Err: errSilent}
			}
			_ = sub.Ping(ctx) // a failed ping shows as silence
		}
	}
}

// receive reports what arrives until the subscription fails or is closed.
func (s *Store) receive(ctx context.Context, sub *redis.PubSub, h store.Listener, heard *atomic.Int64) error {
	for {
		msg, err := sub.Receive(ctx)
		if err != nil {
			return s.dialer.verdict(err)
		}
		heard.Add(1)
		switch m := msg.(type) {
		case *redis.Subscription:
			s.subscribed.Store(true)
			h.Listening()
		case *redis.Message:
			s.tell(m.Payload)
		}
	}
}

// tell passes on what a script says in a message, or in the answer to a release.
func (s *Store) tell(news string) {
	l := s.listener.Load()
	if l == nil {
		return
	}
	what, about, _ := strings.Cut(news, " ")
	switch what {
	case "contended":
		ticket, about, _ := strings.Cut(about, " ")
		came, err := strconv.ParseInt(ticket, 10, 64)
		token, lock, _ := strings.Cut(about, " ")
		if name, ok := s.name(lock); ok && err == nil {
			(*l).Contended(name, token, came)
		}
	case "revoked":
		token, lock, _ := strings.Cut(about, " ")
		if name, ok := s.name(lock); ok {
			(*l).Revoked(name, token)
		}
	default:
		if g, ok := s.grant(news); ok {
			(*l).Granted(g)
		}
	}
}

// grant reads queue.lua's news: token, fence, server µs, first TTL ms, ticket of the first
// who waits on or 0, lock.
func (s *Store) grant(news string) (store.Grant, bool) {
	f := strings.SplitN(news, " ", 6)
	if len(f) != 6 {
		return store.Grant{}, false
	}
	fence, err1 := strconv.ParseInt(f[1], 10, 64)
	server, err2 := strconv.ParseInt(f[2], 10, 64)
	first, err3 := strconv.ParseInt(f[3], 10, 64)
	contended, err4 := strconv.ParseInt(f[4], 10, 64)
	name, ok := s.name(f[5])
	if !ok || errors.Join(err1, err2, err3, err4) != nil {
		return store.Grant{}, false
	}
	ref := store.Ref{Key: name, Token: f[0], TTL: time.Duration(first) * time.Millisecond}
	return store.Grant{Ref: ref, Fence: fence, Server: server, Contended: contended}, true
}
