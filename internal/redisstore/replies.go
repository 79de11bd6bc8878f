package redisstore

import (
	"bytes"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// This file reads whatever Redis says about locks: the replies of the four commands with which a free lock is taken, the
// replies of the scripts, the messages that scripts publish, and the text of INFO. What a script replies is in the first
// lines of its file in lua/, behind "Result". The functions here send nothing and know no Store; where they return a
// *store.Error the reply could not be read, and the command may have been carried out.
//
// They stand in the order in which a lock meets them: it is taken, renewed and given back, messages tell of it, operators
// look at it (what the values mean that they see is in holders.go), and the server is checked. They read a list one value after
// the other, by what is in values.go.

// errReply is a reply that no version of the scripts gives.
var errReply = errors.New("a reply that no script of lockmw returns: is there a proxy in front of Redis?")

// malformed returns the error of a command whose reply cannot be read: the command may have been carried out.
func malformed() *store.Error { return &store.Error{Err: errReply, Ambiguous: true} }

var (
	tookAlone = []byte("+OK\r\n:0\r\n*2\r\n") // SET took the lock, EXISTS found nothing beside it, and TIME follows
	replyNil  = []byte("$-1\r\n")
)

// readSet reads the replies of the four commands of set.go: SET, EXISTS, TIME and GET. It reads them byte by byte,
// because most locks are taken so, and Parse would allocate for each value. clock is TIME's reply in µs, or 0 where that
// was not looked at; at is how far the four have come, and decided says that the lock is taken, with clock as its fence.
// The error is a wire.Refusal or a *store.Error; with at takenInDoubt SET had taken the lock before it.
func readSet(replies []byte, token string, estimate int64) (clock int64, at progress, err error) {
	if bytes.HasPrefix(replies, replyNil) {
		return 0, notTaken, nil
	}
	if !bytes.HasPrefix(replies, tookAlone) {
		at, err = readUndecided(replies)
		return 0, at, err
	}
	clock, rest, ok := readTime(replies[len(tookAlone):])
	if !ok {
		return 0, takenInDoubt, malformed()
	}
	off := time.Duration(clock-estimate) * time.Microsecond
	if off > offMost || off < -offMost || !isSetBy(rest, token, estimate) {
		at, err = readUndecided(replies)
		return clock, at, err
	}
	return clock, decided, nil
}

// readUndecided reads the four replies where they do not make the token the holder.
func readUndecided(replies []byte) (at progress, err error) {
	for rest := replies; len(rest) > 0; {
		var value any
		if value, rest, err = wire.Parse(rest); err != nil {
			return at, &store.Error{Err: err, Ambiguous: true}
		}
		if refusal, ok := value.(wire.Refusal); ok {
			return at, refusal
		}
		if value == "OK" {
			at = takenInDoubt
		}
	}
	return at, nil
}

// readSettings reads the reply to HGETALL about settings.
func readSettings(reply any) (texts map[string]string, ok bool) {
	values, ok := reply.([]any)
	if !ok || len(values)%2 != 0 {
		return nil, false
	}
	texts = make(map[string]string, len(values)/2)
	for i := 0; i < len(values); i += 2 {
		name, ok := values[i].(string)
		text, also := values[i+1].(string)
		if !ok || !also {
			return nil, false
		}
		texts[name] = text
	}
	return texts, true
}

// readChanged reads the reply of change.lua.
func readChanged(reply any) (had string, done, ok bool) {
	v := valuesOf(reply)
	done, had = v.integer() == 1, v.text()
	return had, done, v.read()
}

// readClock is readTime of a reply that Parse has read.
func readClock(reply any) (now int64, ok bool) {
	values, ok := reply.([]any)
	if !ok || len(values) != 2 {
		return 0, false
	}
	seconds, ok1 := values[0].(string)
	micros, ok2 := values[1].(string)
	s, err1 := strconv.ParseInt(seconds, 10, 64)
	us, err2 := strconv.ParseInt(micros, 10, 64)
	return s*1_000_000 + us, ok1 && ok2 && err1 == nil && err2 == nil
}

// readTime reads the two values of TIME's reply, in µs, and returns what is behind them.
func readTime(reply []byte) (now int64, rest []byte, ok bool) {
	seconds, rest, ok0 := wire.Bulk(reply)
	micros, rest, ok1 := wire.Bulk(rest)
	if !ok0 || !ok1 {
		return 0, nil, false
	}
	s, err0 := strconv.ParseInt(string(seconds), 10, 64)
	us, err1 := strconv.ParseInt(string(micros), 10, 64)
	return s*1_000_000 + us, rest, err0 == nil && err1 == nil && s > 0
}

// isSetBy reports whether GET's reply is what SET wrote for the token.
func isSetBy(reply []byte, token string, estimate int64) bool {
	value, rest, ok := wire.Bulk(reply)
	n := len(token) + len(takenBySet)
	if !ok || len(rest) > 0 || len(value) < n ||
		string(value[:len(token)]) != token || string(value[len(token):n]) != takenBySet {
		return false
	}
	since, err := strconv.ParseInt(string(value[n:]), 10, 64)
	return err == nil && since == estimate
}

// readAnswer reads the reply of acquire.lua, or of onekey.lua to "acquire".
func readAnswer(reply any) (a store.Answer, err error) {
	if fence, ok := number(reply); ok {
		return store.Answer{Granted: true, Grant: store.Grant{Fence: fence, Clock: fence}}, nil
	}
	v := valuesOf(reply)
	switch v.integer() {
	case 1:
		a = readGranted(&v)
	case 0:
		a = readNotGranted(&v)
	case 2:
		a = readRecalled(&v)
	case 3: // by resume.lua
		a.Spent, a.Clock = true, v.number()
	default:
		v.bad = true
	}
	if v.bad {
		return store.Answer{}, malformed()
	}
	return a, nil
}

// readGranted reads the rest of an answer that grants the lock: two values, or more.
func readGranted(v *values) (a store.Answer) {
	a.Granted, a.Fence, a.Clock = true, v.number(), v.number()
	if v.more() {
		a.Siblings = v.text()
	}
	if v.more() {
		a.NextCame = v.number()
	}
	a.Unqueued = v.more() // only onekey.lua says so
	return a
}

// readNotGranted reads the rest of an answer that does not grant the lock: four values, or seven that tell of the holder,
// of those who wait and of a cool-down, and maybe an eighth that tells of the oldest of several holders. onekey.lua, which sees the lock alone, tells nothing of these.
func readNotGranted(v *values) (a store.Answer) {
	a.Left = inMillis(max(v.integer(), 0))
	a.Clock, a.Siblings, a.Fresh = v.number(), v.text(), v.integer() == 1
	if !v.more() {
		return a
	}
	holder := v.text()
	a.Waiting, a.CoolingDown = int(v.integer()), v.integer() == 1
	several := holder == "" && v.more()
	if several {
		holder = v.text()
	}
	if holder == "" {
		return a
	}
	locker, text, _ := strings.Cut(holder, ":")
	digits, note, _ := strings.Cut(text, ":")
	fence, ok := number(digits)
	locker, handedOn := issuerOf(locker)
	v.bad = v.bad || !ok || locker == ""
	a.Holder = store.Holder{Instance: instanceOf(locker), Note: unescape(note), Age: age(a.Clock, fence), Left: a.Left, HandedOn: handedOn}
	a.HolderFence = fence
	if several {
		a.HolderFence = 0
	}
	return a
}

// readFences reads the reply of all.lua for n locks: their fences, or nil if none was granted.
func readFences(reply any, n int) ([]int64, error) {
	v := valuesOf(reply)
	granted := v.integer()
	if granted == 0 && v.read() {
		return nil, nil
	}
	_ = v.next() // the time
	fences := make([]int64, n)
	for i := range fences {
		fences[i] = v.number()
	}
	if granted != 1 || !v.read() {
		return nil, malformed()
	}
	return fences, nil
}

// readRenewed reads the reply of renew.lua, or of onekey.lua to "renew": whether the token holds the lock.
func readRenewed(reply any) (held bool, err error) {
	n, ok := reply.(int64)
	if !ok {
		return false, malformed()
	}
	return n == 1, nil
}

// readReleased reads the reply of release.lua or give.lua, or of onekey.lua to "release". messages are for waiters of the
// releasing locker: strings, each as readGrant reads it.
func readReleased(reply any) (did store.Released, messages []any, err error) {
	if list, ok := reply.([]any); ok && len(list) > 1 {
		reply, messages = list[0], list[1:]
	}
	did, ok := released(reply)
	if !ok || !areStrings(messages) {
		return store.NotHeld, nil, malformed()
	}
	return did, messages, nil
}

// readReleasedTo reads the reply of releaseto.lua: what became of the lock, the answer to the waiter to which it was
// offered, and messages for other waiters of the locker.
func readReleasedTo(reply any) (did store.Released, next store.Answer, messages []any, err error) {
	if fence, ok := number(reply); ok {
		return store.HandedOver, store.Answer{Granted: true, Grant: store.Grant{Fence: fence, Clock: fence}}, nil, nil
	}
	v := valuesOf(reply)
	did, ok := released(v.next())
	fence := v.text()
	if next.Granted = fence != ""; next.Granted {
		var isNumber bool
		next.Fence, isNumber = number(fence)
		ok = ok && isNumber
	}
	next.Clock, next.NextCame = v.number(), v.number()
	if messages = v.rest; !ok || v.bad || !areStrings(messages) {
		return store.NotHeld, store.Answer{}, nil, malformed()
	}
	return did, next, messages, nil
}

// released reads the number by which a script says what became of a lock that was to be released.
func released(value any) (store.Released, bool) {
	switch value {
	case int64(0):
		return store.NotHeld, true
	case int64(1):
		return store.Freed, true
	case int64(2):
		return store.HandedOver, true
	}
	return store.NotHeld, false
}

// readGrant reads the message that a token was granted its lock: token, fence, server µs, first TTL ms, the arrival of
// the first who waits on or 0, lock. namespace is the one of the Store's keys.
func readGrant(namespace, message string) (store.News, bool) {
	f := strings.SplitN(message, " ", 6)
	if len(f) != 6 {
		return store.News{}, false
	}
	fence, err1 := strconv.ParseInt(f[1], 10, 64)
	clock, err2 := strconv.ParseInt(f[2], 10, 64)
	first, err3 := strconv.ParseInt(f[3], 10, 64)
	nextCame, err4 := strconv.ParseInt(f[4], 10, 64)
	key, ok := lockOf(namespace, f[5])
	if !ok || errors.Join(err1, err2, err3, err4) != nil {
		return store.News{}, false
	}
	ref := store.Ref{Key: key, Token: f[0], TTL: time.Duration(first) * time.Millisecond}
	return store.News{Ref: ref, Grant: store.Grant{Fence: fence, Clock: clock, NextCame: nextCame}}, true
}

// readOthersWait reads what follows the word "contended" in a message to a holder's locker: arrival, token, lock.
func readOthersWait(namespace, rest string) (key, token string, arrival int64, ok bool) {
	text, rest, _ := strings.Cut(rest, " ")
	arrival, err := strconv.ParseInt(text, 10, 64)
	key, token, ok = readRevoked(namespace, rest)
	return key, token, arrival, ok && err == nil
}

// readRevoked reads what follows the word "revoked" in a message to a holder's locker: token, lock.
func readRevoked(namespace, rest string) (key, token string, ok bool) {
	token, lock, _ := strings.Cut(rest, " ")
	key, ok = lockOf(namespace, lock)
	return key, token, ok
}

// readRevoking reads what follows the word "revoking" in a message to a holder's locker: token, author, reason, lock. Texts that
// are longer than any Locker sends are cut, since everybody who may publish can send the message.
func readRevoking(namespace, rest string) (key, token string, by store.Intervention, ok bool) {
	f := strings.SplitN(rest, " ", 4)
	if len(f) != 4 {
		return "", "", store.Intervention{}, false
	}
	key, ok = lockOf(namespace, f[3])
	by.Author, by.Reason = store.Beginning(unescape(f[1]), store.MostOfAuthor), store.Beginning(unescape(f[2]), store.MostOfReason)
	return key, f[0], by, ok
}

// readInfo reads the reply of inspect.lua. locker is the one that asks, which knows by itself who waits in it.
func readInfo(locker string, reply any) (store.Info, error) {
	v := valuesOf(reply)
	value, pttl, now, queued := v.text(), v.integer(), v.number(), v.integer()
	queue, several, heartbeats := v.list(), v.list(), v.list()
	record, bytes := v.text(), v.integer()
	if !v.read() {
		return store.Info{}, malformed()
	}
	i := store.Info{Waiting: int(queued) + waitingBehind(locker, heartbeats, now), Queue: inLine(queue, now), Answer: keptAs(record, int(bytes))}
	limits, semaphore := strings.CutPrefix(value, "*permits ")
	switch {
	case value == "":
		return i, nil
	case semaphore:
		i.Kind.Permits = smallestLimit(strings.Fields(limits), now)
	case value == "*shared":
		i.Kind.Shared = true
	default:
		i.Holders = []store.Holder{exclusiveHolder(value, pttl, now, len(several) > 0)}
		return i, nil
	}
	i.Holders = severalHolders(several, now)
	return i, nil
}

// A suitability is the reply of check.lua.
type suitability struct {
	tooOld      bool
	clusterNode bool // the client takes it for a single server
	forbidden   []string
	unknown     []string
}

// readSuitability reads the reply of check.lua.
func readSuitability(reply any) (suitability, bool) {
	f, ok := reply.([]any)
	if !ok || len(f) != 4 {
		return suitability{}, false
	}
	forbidden, _ := f[2].(string)
	unknown, _ := f[3].(string)
	return suitability{
		tooOld: f[0] == int64(1), clusterNode: f[1] == int64(1),
		forbidden: strings.Fields(forbidden), unknown: strings.Fields(unknown),
	}, true
}

// readRights reads the reply of rights.lua to n commands: the places of those that are forbidden, and of those that the
// server does not know, counted from 0.
func readRights(reply any, n int) (forbidden, unknown []int, ok bool) {
	lists, ok := reply.([]any)
	if !ok || len(lists) != 2 {
		return nil, nil, false
	}
	return placesIn(lists[0], n), placesIn(lists[1], n), true
}

// placesIn reads a list of Lua's places of n values, counted from 1. It leaves out what is no such place.
func placesIn(list any, n int) (places []int) {
	values, _ := list.([]any)
	for _, value := range values {
		if place, ok := value.(int64); ok && 0 < place && place <= int64(n) {
			places = append(places, int(place-1))
		}
	}
	return places
}

// infoField returns the value of a field in the text of INFO, or "" if it is not there.
func infoField(info, field string) string {
	for value := range infoFields(info, field) {
		return value
	}
	return ""
}

// infoFields returns the values of a field in the text of INFO. There are several where a proxy says what all of its
// servers do.
func infoFields(info, field string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(info) {
			if value, ok := strings.CutPrefix(line, field+":"); ok && !yield(strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// readBeside reads the reply of note.lua.
func readBeside(reply any) (store.Beside, error) {
	v := valuesOf(reply)
	b := store.Beside{Noted: v.number(), Overlaps: v.integer() != 0, Locked: v.integer() != 0}
	if !v.read() || b.Noted == 0 {
		return store.Beside{}, malformed()
	}
	return b, nil
}

// A progress is how far the four commands have come. Unless it is decided, acquire.lua is
// sent next.
type progress uint8

const (
	notTaken     progress = iota // SET found the lock taken, or the key is served elsewhere
	takenInDoubt                 // SET took the lock, but somebody else may be first: acquire.lua finds out
	decided                      // the lock is taken, or there is an error
	notSent                      // the four commands were not sent
)
