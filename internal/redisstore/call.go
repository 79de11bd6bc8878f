package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
)

// once is a command that go-redis must not send a second time by itself: a
// release whose reply was lost would come back as "not held". Whoever asked
// knows about the lost reply and repeats the question with that knowledge.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

const (
	keyCount    = 5
	keyPosition = 3 // EVALSHA sha numkeys key …
)

// question is one script call on one lock, or on several. It must not be copied:
// arguments point into it, since a string would be copied to where an interface
// can point.
type question struct {
	script *script
	args   []any // of the command; the first two, its name and the script, are filled in when it is sent
	common bool  // many.lua may be able to answer it
	onekey       // its form while a Cluster moves the keys

	keys               [keyCount]string
	token, heir, terms string
	room               [keyPosition + keyCount + argsMost]any
}

// argsMost is how many arguments a question on one lock has at most, behind the keys.
const argsMost = 6

// about makes q a question on one lock.
func (s *Store) about(q *question, name string, script *script, args ...any) {
	q.script, q.keys = script, s.keys(name)
	q.args = append(appendKeys(append(q.room[:0], nil, nil, keyCount), &q.keys), args...)
}

func appendKeys(args []any, keys *[keyCount]string) []any {
	for i := range keys {
		args = append(args, &keys[i])
	}
	return args
}

// keyArgs returns the Redis keys that the question is about.
func (q *question) keyArgs() []string {
	n, ok := q.args[keyPosition-1].(int)
	if !ok || len(q.args) < keyPosition+n {
		return nil
	}
	keys := make([]string, n)
	for i, arg := range q.args[keyPosition:][:n] {
		if key, ok := arg.(*string); ok {
			keys[i] = *key
		}
	}
	return keys
}

// command makes q a command by the script's hash, or if that is unknown to the
// server, by its text. The command that was made before is over then.
func (q *question) command(ctx context.Context, byHash bool) once {
	cmd := redis.NewCmd(ctx, q.named(byHash)...)
	cmd.SetFirstKeyPos(keyPosition)
	return once{cmd}
}

// named fills in the command's name and script, and returns its arguments.
func (q *question) named(byHash bool) []any {
	if byHash {
		q.args[0], q.args[1] = "evalsha", &q.script.sha
	} else {
		q.args[0], q.args[1] = "eval", &q.script.text
	}
	return q.args
}

func unknownScript(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") }

// A call is a question on its way.
type call struct {
	question
	late     func(any, error)
	begun    time.Time
	deadline time.Time
	ctx      context.Context // the caller's
	own      *line           // or nil
	turn     uint64          // of own
	carried  bool            // over own, by the caller, who does not look at done
	batch    [1]*call        // the call alone
	done     chan struct{}   // one: there is an answer
	gone     chan struct{}   // closed: nobody waits, and there may be no connection yet

	// Guarded by the sender's mutex.
	before, after *call
	sent          bool // a lane has it
	left          bool // nobody waits for the answer
	leaving       bool // it is carried by somebody whose ctx has ended
	several       bool // it goes together with others
	givenUp       bool // gone is closed

	value any
	err   error
}

// A call is the context of its exchange: the deadline bounds that on the
// connection, without a timer of its own. It ends when nobody waits any more, which
// go-redis heeds only as long as it has no connection: then the question is not
// put. On a connection the deadline alone counts.
var _ context.Context = (*call)(nil)

// Deadline implements context.Context.
func (c *call) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *call) Done() <-chan struct{} { return c.gone }

// Err implements context.Context.
func (c *call) Err() error {
	select {
	case <-c.gone:
		return errNoConnection
	default:
		return nil
	}
}

// giveUp ends the wait for a connection. The caller holds the sender's mutex.
func (c *call) giveUp() {
	if !c.givenUp {
		c.givenUp = true
		close(c.gone)
	}
}

// Value implements context.Context.
func (c *call) Value(key any) any { return c.ctx.Value(key) }

// ask puts c's question, bounded by timeout. go-redis does not let a cancelled
// context interrupt a command on the socket, so when ctx ends first, ask returns
// at once, and late (if not nil) gets what came of the question. c comes from the
// sender and is not used afterwards.
func (s *Store) ask(ctx context.Context, timeout time.Duration, c *call, late func(any, error)) (any, error) {
	if timeout <= 0 || timeout > opTimeout {
		timeout = opTimeout
	}
	c.late, c.begun = late, time.Now()
	c.deadline = c.begun.Add(timeout)
	value, over, err := s.sender.do(ctx, c)
	if over {
		s.sender.put(c)
	}
	return value, err
}

// carry implements a sender's carry.
func (s *Store) carry(own *line, batch []*call) {
	if len(batch) >= s.several {
		s.together(batch)
		return
	}
	client := s.client
	if own != nil {
		client = own.client
	}
	c := batch[0]
	start := time.Now()
	value, err := s.exchange(c, client, &c.question)
	s.sender.quick.Store(time.Since(start) < quick)
	if own != nil {
		own.end(err == nil)
	}
	s.sender.end(outcome{c, value, err})
}

// exchange sends q and waits for the reply, bounded by ctx's deadline.
func (s *Store) exchange(ctx context.Context, client redis.UniversalClient, q *question) (any, error) {
	if !s.suits.Load() {
		if err := s.check(ctx, client, q); err != nil {
			return nil, err
		}
	}
	if s.replicas > 0 && q.script == acquireScript {
		return s.confirmed(ctx, q)
	}
	cmd := q.command(ctx, true)
	err := client.Process(ctx, cmd)
	if unknownScript(err) {
		cmd = q.command(ctx, false)
		err = client.Process(ctx, cmd)
	}
	value := cmd.Val()
	if s.moving(err, q) {
		value, err = s.withOneKey(ctx, q)
	}
	if err != nil {
		return nil, s.failedAt(err, q)
	}
	return value, nil
}

// failedAt is failed, and names the keys of q where the error is about one of them.
func (s *Store) failedAt(err error, q *question) *store.Error {
	e := s.failed(err)
	e.Err = otherData(e.Err, q)
	return e
}

// failed describes a go-redis error to the engine. In a Cluster it has the
// topology read anew where it may have changed: without go-redis's own retries
// nobody else would before its next minute.
func (s *Store) failed(err error) *store.Error {
	e := s.dialer.verdict(err)
	c, cluster := s.client.(*redis.ClusterClient)
	switch {
	case cluster && !e.Permanent:
		c.ReloadState(context.Background())
	case !cluster && (redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ")):
		s.moved.Store(true)
		e.Err, e.Permanent = fmt.Errorf("%w: %w", s.notOneServer(), err), true
	}
	return e
}

// elsewhere is the error of whoever wants a lock of a server that has been found to
// keep some of the keys only. Locks that are held there are renewed and released.
func (s *Store) elsewhere() error {
	if !s.moved.Load() {
		return nil
	}
	return &store.Error{Err: s.notOneServer(), Permanent: true, Reach: store.Answered}
}

// errBusy: too much is asked of Redis, or it does not answer.
var errBusy = errors.New("no answer in time")

// errReply is a reply that no version of the scripts gives.
var errReply = errors.New("unexpected reply to a script")
