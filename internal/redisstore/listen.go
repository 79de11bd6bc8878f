package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// The subscription to the channel of this locker, on which scripts tell that its waiters have been granted a lock, that
// others wait for a lock that it holds, and that a lock was taken from it by force, by whom and why. With settings (settings.go) it is for their
// channel, too.

// pulse is how often the subscription is pinged; two silent pulses in a row
// end it. go-redis's own health check writes a PING too, but never misses the
// PONG: a black-holed connection went unnoticed for 20 s.
const pulse = 400 * time.Millisecond

var (
	errSilent           = errors.New("the subscription's connection is silent")
	errSubscriptionOver = errors.New("the subscription's connection has ended")
	errElsewhere        = errors.New("the subscription is at another server than the one that answers commands")
)

// hearing is how a Store hears of grants.
type hearing struct {
	channels   string                         // the beginning of the channels on which lockers hear of grants
	subscribed atomic.Bool                    // Listen hears messages at present
	listener   atomic.Pointer[store.Listener] // who is told of messages since the first Listen

	// What scripts are told of it, of which hears returns one: a letter, and the channels. The locker
	// has no subscription and asks again and again (polls, "p"), it listens where the server cannot see
	// that, in a Cluster (unseen, "u"), or where the server can (visible, "v"). lua/queue.lua reads the letter.
	polls, unseen, visible string
}

// hears says how this locker hears of grants, in the words of queue.lua, and
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
	channels := []string{s.channels + s.locker}
	if _, ok := h.(store.SettingsListener); ok {
		channels = append(channels, s.settingsChannel())
	}
	sub, done, err := s.subscribe(ctx, channels)
	if err != nil {
		return s.dialer.verdict(err)
	}
	defer done()
	var heard atomic.Int64 // messages of any kind
	ended := make(chan error, 1)
	go func() { ended <- s.receive(ctx, sub, h, &heard) }()

	ticker := time.NewTicker(pulse)
	defer ticker.Stop()
	last, silent := int64(0), 0
	anew, unseen := s.dialer.anew.Load(), 0
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
			if is := s.dialer.anew.Load(); (is != anew || unseen > 0) && s.subscribed.Load() {
				anew = is
				if s.seesSubscription(ctx) {
					unseen = 0
				} else if unseen++; unseen >= 2 {
					_ = sub.Close()
					<-ended
					return &store.Error{Err: errElsewhere}
				}
			}
		}
	}
}

// subscribe subscribes over a client of its own, which makes one connection alone. go-redis's PubSub dials again by itself when that
// breaks, and holds its mutex meanwhile: neither a ping nor Close would return while that dial hangs, and Listen begins anew in any
// case. done is for when the subscription is closed.
func (s *Store) subscribe(ctx context.Context, channels []string) (sub *redis.PubSub, done func(), err error) {
	at, err := s.findServer(ctx, time.Now().Add(opTimeout), channels[0])
	if err != nil {
		return nil, nil, err
	}
	o := s.apart(at)
	var again atomic.Bool
	var failed stillborn // the connection, if it could not be set up
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !again.Swap(true) {
			conn, err := s.dialer.dial(ctx, network, addr)
			failed, _ = conn.(stillborn)
			return conn, err
		}
		if failed.err != nil {
			return failed, nil //nolint:nilerr // the connection tells it
		}
		return nil, errSubscriptionOver
	}
	client := redis.NewClient(o)
	return client.Subscribe(ctx, channels...), func() { _ = client.Close() }, nil
}

// seesSubscription reports whether the server that the address leads to now counts this locker among those who listen, or
// cannot tell. Listen asks when a connection for commands was made after another had ended: the address may lead to another
// server since, and the old one, as a replica of that, may keep the subscription for as long as it likes. The new one would pass over who waits here, as
// nobody seems to listen. It asks over a new connection: commands are not to be behind a question that is none of theirs.
func (s *Store) seesSubscription(ctx context.Context) bool {
	c, single := s.client.(*redis.Client)
	if !single || s.cluster {
		return true // a Cluster's node counts its own alone, and is not asked by the scripts, either
	}
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	client := redis.NewClient(s.apart(c.Options()))
	defer client.Close()
	stop := context.AfterFunc(ctx, func() { _ = client.Close() }) // go-redis does not let the end of ctx interrupt a command
	defer stop()
	channel := s.channels + s.locker
	listening, err := client.PubSubNumSub(ctx, channel).Result()
	return err != nil || listening[channel] > 0
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
			if m.Channel == s.settingsChannel() {
				settingsMayDiffer(h)
				continue
			}
			s.subscribed.Store(true)
			h.Listening()
		case *redis.Message:
			if m.Channel == s.settingsChannel() {
				settingsMayDiffer(h)
				continue
			}
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
		if key, token, arrival, ok := readOthersWait(s.ns, rest); ok {
			(*l).OthersWait(key, token, arrival)
		}
	case "revoking":
		if key, token, by, ok := readRevoking(s.ns, rest); ok {
			(*l).Revoking(key, token, by)
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
