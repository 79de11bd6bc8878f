package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// Two checks of the server: check, before the first command, which finds what keeps locks from working, and Health, for
// operators, which also finds what locks can do without.

// oldest is the first version of Redis whose commands the scripts can use.
const oldest = "7.0"

// check asks the server, before the first command c about the lock called name is
// sent, whether all kinds of locks can work there. Without it three mistakes would show
// late, at one lock among many: a missing right that only waiters need, a server too
// old for some of the scripts, and a client of one Cluster node that happens to have the
// first keys. It costs one exchange; each caller that comes before the first reply sends
// its own. Its error is the error of c, which is not sent then.
//
// Until all is well it comes before each command, so as soon as the mistake is mended
// locks work without a restart of the program.
func (s *Store) check(ctx context.Context, name string, c *command) error {
	args := []any{"eval", checkScript.text, 1, c.args[keyPosition], s.channels}
	if !s.cluster {
		args = append(args, s.keys("a")[0], s.keys("b")[0]) // in slots 15495 and 3300
	}
	reply, err := s.ask(ctx, c.call.Deadline, name, args...)
	if err != nil {
		e := s.failed(err)
		if e.Ambiguous && e.Evidence == store.Answered {
			s.suits.Store(true) // the check itself does not run on this server, so locks are tried without it
			return nil
		}
		e.Ambiguous, e.Pending = false, false
		return e
	}
	bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), c.call.Deadline)
	defer cancel()
	if err := s.obstacle(bounded, reply); err != nil {
		return &store.Error{Err: err, Permanent: true, Evidence: store.Answered}
	}
	s.suits.Store(true)
	return nil
}

// obstacle returns what check.lua found that keeps locks from working, or nil.
func (s *Store) obstacle(ctx context.Context, reply any) error {
	found, ok := readSuitability(reply)
	switch {
	case !ok:
		return errReply
	case found.tooOld:
		return fmt.Errorf("%s is too old: locks need Redis %s or newer, or Valkey", s.version(ctx), oldest)
	case found.clusterNode:
		return s.notOneServer()
	case len(found.unknown) > 0:
		return fmt.Errorf("the server does not know %s, which locks need (is it renamed?)", strings.Join(found.unknown, ", "))
	case len(found.forbidden) > 0:
		return fmt.Errorf("NOPERM: the Redis user may not run %s, %s", strings.Join(found.forbidden, ", "), seeACL)
	}
	return nil
}

// version names the server's version, if it tells.
func (s *Store) version(ctx context.Context) string {
	info, _ := s.section(ctx, "server") // empty if that is refused
	if version := infoField(info, "redis_version"); version != "" {
		return "Redis " + version
	}
	return "the Redis server"
}

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
	var clocks []clock
	for _, master := range masters {
		one, told, err := s.greet(ctx, master)
		if err != nil {
			return nil, s.failed(err)
		}
		if told {
			clocks = append(clocks, one)
		}
	}
	if err := s.oneServer(ctx); err != nil {
		return nil, err
	}
	fence := s.keys(ofHealth)[3]
	if _, err := s.ask(ctx, deadline(ctx), ofHealth, "eval", writeScript.text, 1, fence); err != nil {
		return nil, s.failed(err)
	}
	if err := s.enoughReplicas(ctx); err != nil {
		return nil, err
	}
	advice, denied, err := s.rights(ctx)
	if err != nil {
		return nil, err
	}
	advice = append(advice, s.unreachedCommands(ctx, denied)...)
	advice = append(advice, clocksAdvice(clocks)...)
	if policy, err := s.EvictionPolicy(ctx); err == nil && policy != "noeviction" {
		advice = append(advice, fmt.Errorf("the server may evict held locks, and answers that are kept, when its memory is full (maxmemory-policy %s): set noeviction", policy))
	}
	return advice, nil
}

// look checks the server as before a first command.
func (s *Store) look(ctx context.Context) error {
	c := s.command()
	defer s.free(c)
	s.onRecord(c, ofHealth, inspectScript)
	c.call.Deadline = deadline(ctx)
	return s.check(ctx, ofHealth, c)
}

// A right is what some of the library does without, and what that costs.
type right struct{ command, without string }

// waitRight is what a Store with replicas cannot do without, and others can.
const waitRight = "WAIT 1 1"

// What it costs to do without a command.
const (
	withoutSubscribe = "waiters find their turn by polling"
	withoutInfo      = "nobody can tell whether the server evicts locks, whether it is one server, or whether answers are safe there"
	withoutScan      = "nobody can list the locks, or tell whether answers are kept"
)

// rights tells of what the user may not do, and locks can do without, and which of the
// commands that are.
func (s *Store) rights(ctx context.Context) (advice []error, denied map[string]bool, err error) {
	needs := []right{
		{"SUBSCRIBE " + s.channels + s.locker, withoutSubscribe},
		{"PUBSUB NUMSUB " + s.channels + s.locker, "a waiter whose process has died is noticed a second later"},
		{"INFO", withoutInfo},
		{"SCAN 0", withoutScan},
	}
	if s.replicas > 0 {
		needs = append(needs, right{waitRight, "no replica can confirm a lock, so none is given"})
	}
	args := []any{"eval", rightsScript.text, 1, s.keys(ofHealth)[0]}
	for _, need := range needs {
		args = append(args, need.command)
	}
	reply, err := s.ask(ctx, deadline(ctx), ofHealth, args...)
	if err != nil {
		return nil, nil, s.failed(err)
	}
	forbidden, unknown, ok := readRights(reply, len(needs))
	if !ok {
		return nil, nil, malformed()
	}
	denied = make(map[string]bool)
	for _, found := range []struct {
		places []int
		text   string
	}{
		{forbidden, "the Redis user may not run %s, %s: %s"},
		{unknown, "the server does not know %s (is it renamed? %s): %s"},
	} {
		for _, at := range found.places {
			command, _, _ := strings.Cut(needs[at].command, " "+s.channels)
			command = strings.TrimRight(command, " 01")
			denied[command] = true
			one := fmt.Errorf(found.text, command, rightOf(command), needs[at].without)
			if needs[at].command == waitRight {
				return nil, nil, &store.Error{Err: one, Permanent: true, Evidence: store.Answered}
			}
			advice = append(advice, one)
		}
	}
	return advice, denied, nil
}

// unreachedCommands tells of commands that do not come through to the server although the user may
// run them, as where a proxy lies in between. Those that are denied are not tried. Only
// scripts can ask the server about rights, and what they ask passes no proxy.
func (s *Store) unreachedCommands(ctx context.Context, denied map[string]bool) (advice []error) {
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
			sub := s.client.Subscribe(ctx, s.channels+s.locker)
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
	first := ""
	for range times {
		client := redis.NewClient(s.apart(single.Options()))
		info, err := client.Info(ctx, "server").Result()
		_ = client.Close()
		if err != nil {
			return nil // a user without INFO; rights says so
		}
		for id := range infoFields(info, "run_id") {
			if first == "" {
				first = id
			}
			if first != id {
				return &store.Error{Err: errSeveral, Permanent: true, Evidence: store.Answered}
			}
		}
	}
	return nil
}

// enoughReplicas returns an error if the server has fewer replicas than are to confirm each lock. A server that does not tell
// is taken for one that has them.
func (s *Store) enoughReplicas(ctx context.Context) error {
	if s.replicas == 0 {
		return nil
	}
	info, _ := s.section(ctx, "replication") // empty if that is refused: rights says so
	if n, err := strconv.Atoi(infoField(info, "connected_slaves")); err == nil && n < s.replicas {
		return &store.Error{
			Err:      fmt.Errorf("the server has %d replicas, and WithReplicaAcks wants %d to confirm each lock: none is given until they are there", n, s.replicas),
			Evidence: store.Answered,
		}
	}
	return nil
}

var errSeveral = errors.New("several servers answer at this address: a proxy or a load balancer lies in between, " +
	"and one lock could have two holders; give locks the address of the one server")

// EvictionPolicy implements store.Store: it returns the server's maxmemory-policy, which decides whether
// it may throw away a held lock to make room. ctx bounds the command.
func (s *Store) EvictionPolicy(ctx context.Context) (string, error) {
	info, err := s.section(ctx, "memory")
	if err != nil {
		return "", err
	}
	if policy := infoField(info, "maxmemory_policy"); policy != "" {
		return policy, nil
	}
	return "", fmt.Errorf("INFO memory names no maxmemory_policy")
}

// section returns a section of INFO. A Cluster's nodes are configured alike: one tells.
func (s *Store) section(ctx context.Context, name string) (string, error) {
	value, err := s.ask(ctx, deadline(ctx), ofHealth, "info", name)
	text, _ := value.(string)
	return text, err
}
