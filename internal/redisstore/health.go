package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// ofHealth is a name like a lock's, by which a Cluster finds one of its nodes.
const ofHealth = "lockmw.health"

// Health implements store.Store: what keeps locks from working is an error, whatever was
// known before. It asks each master of a Cluster whether it is there, and one about the rest.
func (s *Store) Health(ctx context.Context) (advice []error, err error) {
	if err := s.look(ctx); err != nil {
		return nil, err
	}
	masters, err := s.masters(ctx)
	if err != nil {
		return nil, s.failed(err)
	}
	for _, master := range masters {
		if err := master.Ping(ctx).Err(); err != nil {
			return nil, s.failed(err)
		}
	}
	if err := s.oneServer(ctx); err != nil {
		return nil, err
	}
	fence := s.keys(ofHealth)[3]
	if _, err := s.checked(ctx, ofHealth, []any{"eval", writeScript.text, 1, fence}, deadline(ctx)); err != nil {
		return nil, s.failed(err)
	}
	advice, denied, err := s.rights(ctx)
	if err != nil {
		return nil, err
	}
	advice = append(advice, s.between(ctx, denied)...)
	if policy, err := s.EvictionPolicy(ctx); err == nil && policy != "noeviction" {
		advice = append(advice, fmt.Errorf("the server may evict held locks when its memory is full (maxmemory-policy %s): set noeviction", policy))
	}
	return advice, nil
}

// look checks the server as before a first command.
func (s *Store) look(ctx context.Context) error {
	c := s.command()
	defer s.free(c)
	s.about(c, ofHealth, inspectScript)
	c.call.Deadline = deadline(ctx)
	return s.check(ctx, ofHealth, c)
}

// A right is what some of the library does without, and what that costs.
type right struct{ command, without string }

// What it costs to do without a command.
const (
	withoutSubscribe = "waiters find their turn by polling"
	withoutInfo      = "nobody can tell whether the server evicts locks, or whether it is one server"
	withoutScan      = "nobody can list the locks"
)

// rights tells of what the user may not do, and locks can do without, and which of the
// commands that are.
func (s *Store) rights(ctx context.Context) (advice []error, denied map[string]bool, err error) {
	needs := []right{
		{"SUBSCRIBE " + s.channels + s.process, withoutSubscribe},
		{"PUBSUB NUMSUB " + s.channels + s.process, "a waiter whose process has died is noticed a second later"},
		{"INFO", withoutInfo},
		{"SCAN 0", withoutScan},
	}
	if s.replicas > 0 {
		needs = append(needs, right{"WAIT 1 1", "no replica can confirm a lock, so none is given"})
	}
	args := []any{"eval", rightsScript.text, 1, s.keys(ofHealth)[0]}
	for _, need := range needs {
		args = append(args, need.command)
	}
	reply, err := s.checked(ctx, ofHealth, args, deadline(ctx))
	if err != nil {
		return nil, nil, s.failed(err)
	}
	lists, ok := reply.([]any)
	if !ok || len(lists) != 2 {
		return nil, nil, &store.Error{Err: errReply}
	}
	denied = make(map[string]bool)
	for i, why := range []string{"the Redis user may not run %s, %s: %s", "the server does not know %s (is it renamed? %s): %s"} {
		places, _ := lists[i].([]any)
		for _, at := range places {
			if n, ok := at.(int64); ok && 0 < n && n <= int64(len(needs)) {
				need := needs[n-1]
				command, _, _ := strings.Cut(need.command, " "+s.channels)
				command = strings.TrimRight(command, " 01")
				denied[command] = true
				advice = append(advice, fmt.Errorf(why, command, seeACL, need.without))
			}
		}
	}
	return advice, denied, nil
}

// between tells of commands that do not come through to the server although the user may
// run them, as where a proxy lies in between. Those that are denied are not tried. Only
// scripts can ask the server about rights, and what they ask passes no proxy.
func (s *Store) between(ctx context.Context, denied map[string]bool) (advice []error) {
	for _, one := range []struct {
		right

		try func() error
	}{
		{right{"INFO", withoutInfo}, func() error { return s.client.Info(ctx).Err() }},
		{right{"SCAN", withoutScan}, func() error {
			masters, err := s.masters(ctx)
			if err == nil && len(masters) > 0 {
				err = masters[0].Scan(ctx, 0, "", 1).Err()
			}
			return err
		}},
		{right{"SUBSCRIBE", withoutSubscribe}, func() error { // the last, since it may end with ctx
			sub := s.client.Subscribe(ctx, s.channels+s.process)
			_, err := sub.Receive(ctx)
			return errors.Join(err, sub.Close())
		}},
	} {
		if denied[one.command] || ctx.Err() != nil {
			continue
		}
		if err := one.try(); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			advice = append(advice, fmt.Errorf("%s does not come through to the server (%s): %s; if there is a proxy in between, give locks the server's own address",
				one.command, oneLine(store.AsError(s.failed(err)).Err), one.without))
		}
	}
	return advice
}

// oneServer asks over several new connections which server it is that answers. It returns
// an error if they are several. One that does not tell is taken for one.
func (s *Store) oneServer(ctx context.Context) error {
	single, ok := s.client.(*redis.Client)
	if !ok {
		return nil
	}
	const times = 3
	var first string
	for range times {
		at := singleOptions(single.Options(), s.dialer)
		at.PoolSize = 1
		client := redis.NewClient(at)
		info, err := client.Info(ctx, "server").Result()
		_ = client.Close()
		if err != nil {
			return nil // a user without INFO; rights says so
		}
		for line := range strings.Lines(info) {
			id, ok := strings.CutPrefix(line, "run_id:")
			switch {
			case !ok:
			case first == "":
				first = id
			case first != id:
				return &store.Error{Err: errSeveral, Permanent: true, Reach: store.Answered}
			}
		}
	}
	return nil
}

var errSeveral = errors.New("several servers answer at this address: a proxy or a load balancer lies in between, " +
	"and one lock could have two holders; give locks the address of the one server")
