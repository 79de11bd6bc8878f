package redisstore

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// The subscription to the channel of this process, on which scripts tell that its waiters have been granted a lock, that
// others wait for a lock that it holds, and that a lock was taken from it by force.

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

// tell hands the listener what a script says in a message, or in the reply to a release.
func (s *Store) tell(message string) {
	l := s.listener.Load()
	if l == nil {
		return
	}
	what, rest, _ := strings.Cut(message, " ")
	switch what {
	case "contended":
		if key, token, ticket, ok := readContended(s.ns, rest); ok {
			(*l).Contended(key, token, ticket)
		}
	case "revoked":
		if key, token, ok := readRevoked(s.ns, rest); ok {
			(*l).Revoked(key, token)
		}
	default:
		if g, ok := readGrant(s.ns, message); ok {
			(*l).Granted(g)
		}
	}
}

// tellAll hands the listener the messages in a script's reply, which are strings.
func (s *Store) tellAll(messages []any) {
	for _, message := range messages {
		if text, ok := message.(string); ok {
			s.tell(text)
		}
	}
}
