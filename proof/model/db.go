package model

import (
	"slices"
	"strconv"
	"strings"
)

// This file is the store: as much of Redis as the scripts use, over values that are copied cheaply. What a command
// changes is made anew, and nothing that a value refers to is written to, so that states may share it.

// A Time is what the server's clock shows, in µs.
type Time = int64

// A key is one of those of a lock, by its place in KEYS of the scripts.
type key uint8

const (
	keyLock key = iota
	keyQueue
	keyLockers
	keyFence
	keyHolders
	keyAnswer
	keyCount
)

// keyNames are the names of the keys of each lock.
var keyNames = [mostLocks][keyCount]string{
	{"lock:{k}", "lock:{k}:queue", "lock:{k}:alive", "lock:{k}:fence", "lock:{k}:holders", "lock:{k}:answer"},
	{"lock:{l}", "lock:{l}:queue", "lock:{l}:alive", "lock:{l}:fence", "lock:{l}:holders", "lock:{l}:answer"},
}

// keysOfAll are KEYS of all.lua.
var keysOfAll = slices.Concat(keyNames[0][:keyAnswer], keyNames[1][:keyAnswer])

// A kindOf says what a key holds.
type kindOf uint8

const (
	absent kindOf = iota
	text
	zset
	hash
)

// A member is one of a sorted set (name, score), or a field of a hash (name, value).
type member struct {
	name, value string
	score       float64
}

// An entry is what a key holds.
type entry struct {
	kind    kindOf
	text    string
	members []member // of a sorted set by score and name, of a hash by name; never written to
	ends    Time     // when it expires; 0: never
}

// A db is the keys of one lock.
type db [keyCount]entry

// expire takes out what has expired.
func (d *db) expire(now Time) {
	for i := range d {
		if d[i].ends != 0 && now >= d[i].ends {
			d[i] = entry{}
		}
	}
}

// A server carries out commands at one moment, on the keys of one lock, or two, or on any.
type server struct {
	db        *db               // of one lock, which has the names of the first
	second    *db               // of the second one, in a command about both
	many      map[string]*entry // or else any, by name; what one holds may be absent
	now       Time
	inMillis  bool // keys expire as Redis has it: in the millisecond behind the one that their time ends with
	listens   func(channel string) bool
	published []publication
	saw       func(args []string) // is told of each command; nil: nobody is
}

// ended is the moment by which what ends has expired.
func (s *server) ended() Time {
	if s.inMillis {
		return s.now/1000*1000 - 1
	}
	return s.now
}

// expire takes out what has expired.
func (s *server) expire() {
	for _, d := range [...]*db{s.db, s.second} {
		if d != nil {
			d.expire(s.ended())
		}
	}
}

// entry returns the key by that name, or nil for the name that no key of the lock has.
func (s *server) entry(name string) *entry {
	if s.db != nil {
		for lock, d := range [...]*db{s.db, s.second} {
			if at := slices.Index(keyNames[lock][:], name); at >= 0 && d != nil {
				return &d[at]
			}
		}
		return nil
	}
	e := s.many[name]
	switch {
	case e == nil:
		e = new(entry)
		s.many[name] = e
	case e.ends != 0 && s.ended() >= e.ends:
		*e = entry{}
	}
	return e
}

// in is when what lasts for so many ms from now ends.
func (s *server) in(ms int64) Time {
	if s.inMillis {
		return (s.now/1000 + ms) * 1000
	}
	return s.now + 1000*ms
}

// A publication is a message that a script has sent.
type publication struct{ channel, text string }

// call carries out one command. The reply is nil, an int64, a string, an errReply, or a []any of them.
func (s *server) call(args []string) any {
	if s.saw != nil {
		s.saw(args)
	}
	s.expire()
	switch strings.ToUpper(args[0]) {
	case "TIME":
		return []any{strconv.FormatInt(s.now/1_000_000, 10), strconv.FormatInt(s.now%1_000_000, 10)}
	case "PUBLISH":
		s.published = append(s.published, publication{args[1], args[2]})
		return int64(1)
	case "PUBSUB":
		n := int64(0)
		if s.listens(args[2]) {
			n = 1
		}
		return []any{args[2], n}
	case "EXISTS":
		return s.count(args[1:], func(*entry) {})
	case "DEL":
		return s.count(args[1:], func(e *entry) { *e = entry{} })
	}
	e := s.entry(args[1])
	if e == nil {
		panic("no such key: " + args[1])
	}
	command := strings.ToUpper(args[0])
	if kind := kindFor(command); kind != absent && e.kind != absent && e.kind != kind {
		return wrongType
	}
	switch command {
	case "GET":
		return s.get(e)
	case "SET":
		return s.set(e, args[2], args[3:])
	case "PTTL":
		return s.pttl(e)
	case "PEXPIRE":
		return s.pexpire(e, number(args[2]), len(args) > 3)
	case "ZADD":
		return s.zadd(e, args[2:])
	case "ZREM", "HDEL":
		return e.remove(args[2:])
	case "ZSCORE":
		if i := e.find(args[2]); i >= 0 {
			return score(e.members[i].score)
		}
		return nil
	case "ZCARD":
		return int64(len(e.members))
	case "ZCOUNT":
		return int64(len(e.between(args[2], args[3])))
	case "ZRANGE":
		return e.zrange(args[2], args[3], args[4:])
	case "ZPOPMIN":
		if len(e.members) == 0 {
			return []any{}
		}
		first := e.members[0]
		e.remove([]string{first.name})
		return []any{first.name, score(first.score)}
	case "HGET":
		if i := e.find(args[2]); i >= 0 {
			return e.members[i].value
		}
		return nil
	case "HGETALL":
		reply := []any{}
		for _, m := range e.members {
			reply = append(reply, m.name, m.value)
		}
		return reply
	case "HSET":
		return e.put(hash, member{name: args[2], value: args[3]})
	default:
		panic("no such command: " + command)
	}
}

// kindFor returns what a key must hold for a command about one kind of value; absent: for any.
func kindFor(command string) kindOf {
	switch command[0] {
	case 'Z':
		return zset
	case 'H':
		return hash
	}
	return absent
}

const wrongType = errReply("WRONGTYPE Operation against a key holding the wrong kind of value")

// count counts those of the keys that are there, and does something to each.
func (s *server) count(names []string, do func(*entry)) any {
	n := int64(0)
	for _, name := range names {
		if e := s.entry(name); e != nil && e.kind != absent {
			n++
			do(e)
		}
	}
	return n
}

func (s *server) get(e *entry) any {
	switch e.kind {
	case absent:
		return nil
	case text:
		return e.text
	default:
		return wrongType
	}
}

func (s *server) set(e *entry, value string, options []string) any {
	for i, option := range options {
		if o := strings.ToUpper(option); (o == "PX" || o == "EX") && number(options[i+1]) <= 0 {
			return errReply("ERR invalid expire time in 'set' command")
		}
	}
	was, next := s.get(e), entry{kind: text, text: value}
	_, other := was.(errReply)
	onlyNew, returnsOld := false, false
	for i := 0; i < len(options); i++ {
		switch strings.ToUpper(options[i]) {
		case "NX":
			onlyNew = true
		case "GET":
			returnsOld = true
		case "KEEPTTL":
			next.ends = e.ends
		case "PX":
			i++
			next.ends = s.in(number(options[i]))
		case "EX":
			i++
			next.ends = s.in(1000 * number(options[i]))
		default:
			panic("no such option: " + options[i])
		}
	}
	if returnsOld && other {
		return was
	}
	if !onlyNew || e.kind == absent {
		*e = next
		if !returnsOld {
			return "OK"
		}
	}
	if returnsOld {
		return was
	}
	return nil
}

func (s *server) pttl(e *entry) any {
	switch {
	case e.kind == absent:
		return int64(-2)
	case e.ends == 0:
		return int64(-1)
	}
	if s.inMillis {
		return e.ends/1000 - s.now/1000
	}
	return (e.ends - s.now + 500) / 1000
}

// pexpire sets when the key expires; longer says that it is not to be sooner.
func (s *server) pexpire(e *entry, ms int64, longer bool) any {
	ends := s.in(ms)
	if e.kind == absent || longer && (e.ends == 0 || ends <= e.ends) {
		return int64(0)
	}
	e.ends = ends
	if ms <= 0 || s.ended() >= ends { // at once, and not when this millisecond is over
		*e = entry{}
	}
	return int64(1)
}
