package redisstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// A command is a call of a script, with its arguments, and how its bytes are made.

const (
	keyCount    = 5
	keyPosition = 3 // EVALSHA sha numkeys key …

	// Where a command on one lock has what onekey.go wants to know.
	lockAt  = keyPosition + 0
	queueAt = keyPosition + 1
	fenceAt = keyPosition + 3
	tokenAt = keyPosition + keyCount

	// spareMost is how many bytes of a command's memory are kept for the next one.
	spareMost = 16 << 10

	// argsMost is how many arguments a command on one lock has at most, behind its keys: that of a record, and twelve.
	argsMost = 1 + 12
)

// A command is one script call on one lock, or on several. Without a script, args is
// a plain command. For set.go, which sends four of those, it only lends its keys, call and late.
//
// It must not be copied: arguments point into it, since putting a string into an any
// allocates, and a pointer does not.
type command struct {
	script *script
	args   []any // of the command; the first two, its name and the script, are filled in when it is sent
	onekey       // its form while a Cluster moves the keys

	keys               [keyCount]redisKey
	record             redisKey
	value              setValue
	token, next, terms string
	fence              int64
	room               [keyPosition + keyCount + argsMost]any

	call   wire.Call
	late   lateSet // for the four plain commands of set.go
	posted posted  // for a release that is posted
}

// A redisKey is one of a lock's keys: a command has it in its parts, so that nobody
// has to put them together before they are sent.
type redisKey struct{ namespace, lock, end string }

// The parts of a key between and behind the namespace and the lock's name. The braces
// make the name the hash tag, so a Cluster keeps a lock's keys together.
const keyOpen = ":{"

const recordEnd = "}:answer"

var keyEnds = [keyCount]string{"}", "}:queue", "}:alive", "}:fence", "}:holders"}

// redisKeys returns the keys of the lock called name: lock, queue, lockers, fence and
// holders.
func (s *Store) redisKeys(name string) (keys [keyCount]redisKey) {
	for i, end := range keyEnds {
		keys[i] = redisKey{s.ns, name, end}
	}
	return keys
}

// keys is redisKeys, put together.
func (s *Store) keys(name string) (keys [keyCount]string) {
	for i, key := range s.redisKeys(name) {
		keys[i] = key.String()
	}
	return keys
}

// String returns the key.
func (k redisKey) String() string { return k.namespace + keyOpen + k.lock + k.end }

// LockKey returns the Redis key of the lock called name, in a namespace.
func LockKey(namespace, name string) string {
	return redisKey{namespace, name, keyEnds[0]}.String()
}

// appendTo appends the key as an argument.
func (k redisKey) appendTo(b []byte) []byte {
	return wire.AppendParts(b, k.namespace, keyOpen, k.lock, k.end)
}

// A setValue is the value of a lock that SET has taken. go-redis sends none.
type setValue struct {
	token    string
	estimate int64
}

// appendTo appends the value as an argument.
func (v setValue) appendTo(b []byte) []byte {
	var digits [20]byte
	return wire.AppendParts(b, v.token, takenBySet, string(strconv.AppendInt(digits[:0], v.estimate, 10)))
}

// lockOf returns the name of the lock whose first Redis key is given: the inverse of keys.
func lockOf(namespace, key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, namespace+keyOpen)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "}")
}

// command returns one to fill in.
func (s *Store) command() *command {
	if c, ok := s.spare.Get().(*command); ok {
		return c
	}
	return new(command)
}

// free takes back a command that nobody uses any more.
func (s *Store) free(c *command) {
	c.script, c.args, c.onekey = nil, nil, onekey{}
	c.keys, c.record, c.value, c.token, c.next, c.terms, c.fence = [keyCount]redisKey{}, redisKey{}, setValue{}, "", "", "", 0
	clear(c.room[:])
	c.call.Patient, c.call.Behind, c.call.Late, c.late.ctx, c.late.tell = false, nil, nil, nil, nil
	c.posted = posted{late: c.posted.late}
	if cap(c.call.Commands) > spareMost { // it had an answer in it
		c.call.Commands = nil
	}
	s.spare.Put(c)
}

// onLock makes c a call of script about the lock called name.
func (s *Store) onLock(c *command, name string, script *script, args ...any) {
	c.script, c.keys = script, s.redisKeys(name)
	c.args = append(appendKeys(append(c.room[:0], nil, nil, keyCount), &c.keys), args...)
}

// onRecord makes c a call of script about the lock called name and the record beside it.
func (s *Store) onRecord(c *command, name string, script *script, args ...any) {
	c.script, c.keys, c.record = script, s.redisKeys(name), redisKey{s.ns, name, recordEnd}
	c.args = append(append(appendKeys(append(c.room[:0], nil, nil, keyCount+1), &c.keys), &c.record), args...)
}

// fenced is the argument that tells r's fence, if it is known.
func (c *command) fenced(r store.Ref) any {
	if r.Fence == 0 {
		return ""
	}
	c.fence = r.Fence
	return &c.fence
}

func appendKeys(args []any, keys *[keyCount]redisKey) []any {
	for i := range keys {
		args = append(args, &keys[i])
	}
	return args
}

// keyArgs returns the Redis keys that the command is about.
func (c *command) keyArgs() []string {
	n, ok := c.args[keyPosition-1].(int)
	if !ok || len(c.args) < keyPosition+n {
		return nil
	}
	keys := make([]string, n)
	for i, arg := range c.args[keyPosition:][:n] {
		if key, ok := arg.(*redisKey); ok {
			keys[i] = key.String()
		}
	}
	return keys
}

// named fills in the command's name and script, and returns its arguments.
func (c *command) named(byHash bool) []any {
	if byHash {
		c.args[0], c.args[1] = "evalsha", &c.script.sha
	} else {
		c.args[0], c.args[1] = "eval", &c.script.text
	}
	return c.args
}

// appendTo appends the command as it is sent.
func (c *command) appendTo(b []byte, byHash bool) []byte {
	if c.script == nil {
		return appendArgs(b, c.args)
	}
	return appendArgs(b, c.named(byHash))
}

// appendArgs appends a command with arguments of these types.
func appendArgs(b []byte, args []any) []byte {
	b = wire.AppendCommand(b, len(args))
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			b = wire.AppendString(b, v)
		case *string:
			b = wire.AppendString(b, *v)
		case int:
			b = wire.AppendInt(b, int64(v))
		case int64:
			b = wire.AppendInt(b, v)
		case *int64:
			b = wire.AppendInt(b, *v)
		case *redisKey:
			b = v.appendTo(b)
		case *setValue:
			b = v.appendTo(b)
		default:
			panic("redisstore: an argument of another type")
		}
	}
	return b
}

// once is a command that go-redis must not send a second time by itself: a
// release whose reply was lost would come back as "not held". Whoever sent it
// knows about the lost reply and sends it again with that knowledge.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// plain returns arguments as go-redis takes them.
func plain(args []any) []any {
	values := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case *string:
			values[i] = *v
		case *int64:
			values[i] = *v
		case *redisKey:
			values[i] = v.String()
		default:
			values[i] = v
		}
	}
	return values
}

// goRedis is the command for a client of go-redis's.
func (c *command) goRedis(ctx context.Context, byHash bool) once {
	cmd := redis.NewCmd(ctx, plain(c.named(byHash))...)
	cmd.SetFirstKeyPos(keyPosition)
	return once{cmd}
}

func unknownScript(err error) bool { return codeOfReply(err) == "NOSCRIPT" }

// A lateSet is what setLate needs when the replies come after their caller has left. It is a
// part of the command, so that nobody needs more memory for the case that a caller leaves.
type lateSet struct {
	ctx      context.Context
	token    string
	estimate int64
	tell     func(store.Answer, error)
	call     func(replies []byte, err error) // calls setLate with the fields above; made once
}

// A onekey is the form of a command about a mutex that concerns the lock's own key
// alone. While a Cluster moves a slot, a command on several of its keys is refused,
// and one on a single key is not. onekey.lua carries it out.
type onekey struct {
	do    string // acquire, renew or release; empty: the command has no such form
	ms    int64
	entry string // the place in the queue that is given up as well, or empty
	keeps bool   // of acquire: it is given up only with a grant
}

// oneKeyOf returns the form of a command about r, if that is a mutex.
func oneKeyOf(r store.Ref, do string, ms int64) onekey {
	if r.Kind != (store.Kind{}) {
		return onekey{}
	}
	return onekey{do: do, ms: ms}
}

// entry is a token's member of the queue's sorted set, as queue.lua writes it.
func entry(r store.Ref) string { return r.Token + ":" + terms(r) }
