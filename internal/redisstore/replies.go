package redisstore

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
)

// This file reads whatever Redis says about locks: the replies of the scripts, the replies of the four commands with
// which a free lock is taken, the messages that scripts publish, and the text of INFO. What a script replies is in the
// first lines of its file in lua/, behind "Result". The functions here send nothing and know no Store; where they return
// a *store.Error the reply could not be read, and the command may have been carried out.

// errReply is a reply that no version of the scripts gives.
var errReply = errors.New("a reply that no script of lockmw returns: is there a proxy in front of Redis?")

// malformed returns the error of a command whose reply cannot be read: the command may have been carried out.
func malformed() *store.Error { return &store.Error{Err: errReply, Ambiguous: true} }

// readAnswer reads the reply of acquire.lua, or of onekey.lua to "acquire".
func readAnswer(reply any) (store.Answer, error) {
	if fence, ok := integer(reply); ok {
		return store.Answer{Granted: true, Fence: fence, Server: fence}, nil
	}
	f, ok := reply.([]any)
	if !ok || len(f) < 3 {
		return store.Answer{}, malformed()
	}
	var a store.Answer
	switch f[0] {
	case int64(1):
		a, ok = readGranted(f)
	case int64(0):
		a, ok = readNotGranted(f)
	default:
		ok = false
	}
	if !ok {
		return store.Answer{}, malformed()
	}
	return a, nil
}

// readGranted reads an answer that grants the lock: a list of three values, or of more.
func readGranted(f []any) (a store.Answer, ok bool) {
	fence, ok1 := integer(f[1])
	server, ok2 := integer(f[2])
	a = store.Answer{Granted: true, Fence: fence, Server: server}
	ok3, ok4 := true, true
	if len(f) > 3 {
		a.Siblings, ok3 = f[3].(string)
	}
	if len(f) > 4 {
		a.Contended, ok4 = integer(f[4])
	}
	a.Unqueued = len(f) > 5 // only onekey.lua says so
	return a, ok1 && ok2 && ok3 && ok4
}

// readNotGranted reads an answer that does not grant the lock: a list of five values, or of seven that tell of the
// holder and of those who wait. onekey.lua, which sees the lock alone, tells nothing of these.
func readNotGranted(f []any) (a store.Answer, ok bool) {
	if len(f) < 5 {
		return store.Answer{}, false
	}
	left, ok1 := f[1].(int64)
	server, ok2 := integer(f[2])
	siblings, ok3 := f[3].(string)
	fresh, ok4 := f[4].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return store.Answer{}, false
	}
	a = store.Answer{Left: time.Duration(max(left, 0)) * time.Millisecond, Server: server, Siblings: siblings, Fresh: fresh == 1}
	switch len(f) {
	case 5:
		return a, true
	case 6:
		return store.Answer{}, false
	}
	holder, ok5 := f[5].(string)
	waiting, ok6 := f[6].(int64)
	if !ok5 || !ok6 {
		return store.Answer{}, false
	}
	a.Waiting = int(waiting)
	if holder == "" {
		return a, true
	}
	process, text, _ := strings.Cut(holder, ":")
	fence, ok := integer(text)
	if !ok || process == "" {
		return store.Answer{}, false
	}
	a.Holder, a.HolderFence = store.Holder{Instance: instanceOf(process), Age: age(server, fence), Left: a.Left}, fence
	return a, true
}

// readFences reads the reply of all.lua for n locks: their fences, or nil if none was granted.
func readFences(reply any, n int) ([]int64, error) {
	f, ok := reply.([]any)
	switch {
	case ok && len(f) == 1 && f[0] == int64(0):
		return nil, nil
	case !ok || len(f) != n+2 || f[0] != int64(1):
		return nil, malformed()
	}
	fences := make([]int64, n)
	for i := range fences {
		if fences[i], ok = integer(f[i+2]); !ok {
			return nil, malformed()
		}
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
// releasing process: strings, each as readGrant reads it.
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

// readReleasedTo reads the reply of releaseto.lua: what became of the lock, the answer to the waiter that was named, and
// messages for other waiters of the process.
func readReleasedTo(reply any) (did store.Released, next store.Answer, messages []any, err error) {
	if fence, ok := integer(reply); ok {
		return store.HandedOver, store.Answer{Granted: true, Fence: fence, Server: fence}, nil, nil
	}
	f, ok := reply.([]any)
	if !ok || len(f) < 4 {
		return store.NotHeld, store.Answer{}, nil, malformed()
	}
	did, ok0 := released(f[0])
	ok1 := f[1] == ""
	if !ok1 {
		next.Granted = true
		next.Fence, ok1 = integer(f[1])
	}
	var ok2, ok3 bool
	next.Server, ok2 = integer(f[2])
	next.Contended, ok3 = integer(f[3])
	messages = f[4:]
	if !ok0 || !ok1 || !ok2 || !ok3 || !areStrings(messages) {
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

// readGrant reads the message that a token was granted its lock: token, fence, server µs, first TTL ms, the ticket of
// the first who waits on or 0, lock. namespace is the one of the Store's keys.
func readGrant(namespace, message string) (store.Grant, bool) {
	f := strings.SplitN(message, " ", 6)
	if len(f) != 6 {
		return store.Grant{}, false
	}
	fence, err1 := strconv.ParseInt(f[1], 10, 64)
	server, err2 := strconv.ParseInt(f[2], 10, 64)
	first, err3 := strconv.ParseInt(f[3], 10, 64)
	contended, err4 := strconv.ParseInt(f[4], 10, 64)
	key, ok := lockOf(namespace, f[5])
	if !ok || errors.Join(err1, err2, err3, err4) != nil {
		return store.Grant{}, false
	}
	ref := store.Ref{Key: key, Token: f[0], TTL: time.Duration(first) * time.Millisecond}
	return store.Grant{Ref: ref, Fence: fence, Server: server, Contended: contended}, true
}

// readContended reads what follows the word "contended" in a message to a holder's process: ticket, token, lock.
func readContended(namespace, rest string) (key, token string, ticket int64, ok bool) {
	text, rest, _ := strings.Cut(rest, " ")
	ticket, err := strconv.ParseInt(text, 10, 64)
	key, token, ok = readRevoked(namespace, rest)
	return key, token, ticket, ok && err == nil
}

// readRevoked reads what follows the word "revoked" in a message to a holder's process: token, lock.
func readRevoked(namespace, rest string) (key, token string, ok bool) {
	token, lock, _ := strings.Cut(rest, " ")
	key, ok = lockOf(namespace, lock)
	return key, token, ok
}

// lockOf returns the name of the lock whose first Redis key is given: the inverse of keys.
func lockOf(namespace, key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, namespace+keyOpen)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "}")
}

// readInfo reads the reply of inspect.lua. process is the one that asks, which knows by itself who waits in it.
func readInfo(process string, reply any) (store.Info, error) {
	f, ok := reply.([]any)
	if !ok || len(f) != 6 {
		return store.Info{}, malformed()
	}
	value, ok0 := f[0].(string)
	pttl, ok1 := f[1].(int64)
	now, ok2 := integer(f[2])
	queued, ok3 := f[3].(int64)
	several, ok4 := f[4].([]any)
	heartbeats, ok5 := f[5].([]any)
	if !ok0 || !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return store.Info{}, malformed()
	}
	i := store.Info{Waiting: int(queued) + waitingBehind(process, heartbeats, now)}
	limits, semaphore := strings.CutPrefix(value, "*permits ")
	switch {
	case value == "":
		return i, nil
	case semaphore:
		i.Kind.Permits = smallestLimit(strings.Fields(limits), now)
	case value == "*shared":
		i.Kind.Shared = true
	default:
		i.Holders = []store.Holder{exclusiveHolder(value, pttl, now)}
		return i, nil
	}
	i.Holders = severalHolders(several, now)
	return i, nil
}

// exclusiveHolder reads the holder of a mutex from the lock's value. Another program may have written that.
func exclusiveHolder(value string, pttl, now int64) store.Holder {
	h := store.Holder{Left: time.Duration(pttl) * time.Millisecond}
	token, text, ok := strings.Cut(value, ":")
	if !ok {
		return h
	}
	h.Instance, h.Note = readToken(token)
	if fence, ok := integer(strings.TrimLeft(text, "~!")); ok && h.Instance != "" {
		h.Age = age(now, fence)
	}
	return h
}

// severalHolders reads the holders of a lock that several may hold, those whose lease began first in front. pairs are
// tokens, each followed by the end of its lease, and "=" and a token, each followed by its fence, negated.
func severalHolders(pairs []any, now int64) []store.Holder {
	ends, fences := make(map[string]int64), make(map[string]int64)
	for i := 0; i+1 < len(pairs); i += 2 {
		token, _ := pairs[i].(string)
		text, _ := pairs[i+1].(string)
		score, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		if own, ok := strings.CutPrefix(token, "="); ok {
			fences[own] = int64(-score)
		} else if end := int64(score); end > now {
			ends[token] = end
		}
	}
	var all []store.Holder
	for token, end := range ends {
		instance, note := readToken(token)
		all = append(all, store.Holder{
			Instance: instance, Note: note, Age: age(now, fences[token]),
			Left: time.Duration(end-now) * time.Microsecond,
		})
	}
	slices.SortFunc(all, func(a, b store.Holder) int { return int(b.Age - a.Age) })
	return all
}

// waitingBehind adds up how many wait in other processes without a place in the queue, as the heartbeats of those that
// are alive at now tell: pairs of a process and of what enter.lua writes about it.
func waitingBehind(process string, heartbeats []any, now int64) (n int) {
	for i := 0; i+1 < len(heartbeats); i += 2 {
		other, _ := heartbeats[i].(string)
		heartbeat, _ := heartbeats[i+1].(string)
		how := strings.IndexAny(heartbeat, "vup")
		if other == process || how < 0 {
			continue
		}
		till, ok := integer(heartbeat[:how])
		if count, err := strconv.Atoi(heartbeat[how+1:]); ok && err == nil && till > now {
			n += count
		}
	}
	return n
}

// smallestLimit is the smallest number of permits that binds at now. limits are pairs of a number and until when it
// binds.
func smallestLimit(limits []string, now int64) (n int) {
	for i := 0; i+1 < len(limits); i += 2 {
		limit, err1 := strconv.Atoi(limits[i])
		till, err2 := strconv.ParseInt(limits[i+1], 10, 64)
		if err1 == nil && err2 == nil && till > now && (n == 0 || limit < n) {
			n = limit
		}
	}
	return max(n, 1)
}

// age is how long ago a grant with that fence was made: a fence is the server's time, or a little more after its clock
// was set back.
func age(now, fence int64) time.Duration {
	if fence <= 0 || fence > now {
		return 0
	}
	return time.Duration(now-fence) * time.Microsecond
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

// integer reads a number that a script sent as text, to keep all its digits.
func integer(v any) (int64, bool) {
	text, ok := v.(string)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// areStrings reports whether all values are strings.
func areStrings(values []any) bool {
	return !slices.ContainsFunc(values, func(v any) bool {
		_, ok := v.(string)
		return !ok
	})
}

var (
	tookAlone = []byte("+OK\r\n:0\r\n*2\r\n") // SET took the lock, EXISTS found nothing beside it, and TIME follows
	replyNil  = []byte("$-1\r\n")
)

// readSet reads the replies of the four commands of set.go: SET, EXISTS, TIME and GET. It reads them byte by byte,
// because most locks are taken so, and Parse would allocate for each value. clock is TIME's reply in µs, or 0 where that
// was not looked at; at is how far the four have come, and decided says that the lock is taken, with clock as its fence.
// The error is a wire.Refusal or a *store.Error; with at takenInDoubt SET had taken the lock before it.
func readSet(replies []byte, token string, about int64) (clock int64, at progress, err error) {
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
	off := time.Duration(clock-about) * time.Microsecond
	if off > offMost || off < -offMost || !isSetBy(rest, token, about) {
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
func isSetBy(reply []byte, token string, about int64) bool {
	value, rest, ok := wire.Bulk(reply)
	n := len(token) + len(takenBySet)
	if !ok || len(rest) > 0 || len(value) < n ||
		string(value[:len(token)]) != token || string(value[len(token):n]) != takenBySet {
		return false
	}
	since, err := strconv.ParseInt(string(value[n:]), 10, 64)
	return err == nil && since == about
}
