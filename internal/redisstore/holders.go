package redisstore

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// What the values mean that lie in Redis for a lock: who holds it, since when and for how long, and who waits. Inspect
// reads them as they lie there, and changes nothing. Times are the server's, in µs; what stands behind "~" and "!" is an estimate of them.
//
//	a mutex             the lock's value is "<token>:<fence>", or "<token>:~<µs>" where SET took it without a script:
//	                    about when it did. "!" in place of "~" says that somebody has come to wait since
//	several holders     a sorted set has each token by the end of its lease, and "=<token>" by its fence, negated;
//	                    half a µs in an end says that the work is over, and that the token only stays (MinHold): so
//	                    stands there a mutex's as well;
//	                    of permits, the lock's value has each number that was asked for, and until when it binds
//	who stands in line  a sorted set has each token, a colon and what it asks for (terms, store.go) by when it came
//	who may be waiting  a hash has for each locker until when it counts as alive, a letter for how it hears of
//	                    grants (v, u or p), and how many wait in it without a place in the queue
//
// A token begins with the name of its Locker (token.go), or, where the lock was handed on, with that of a ticket (ticket.go). A program that is not this library may have written any other
// value: then the holder is shown without a name.

// exclusiveHolder reads the holder of a mutex from the lock's value. stays says that its work is over.
func exclusiveHolder(value string, pttl, now int64, stays bool) store.Holder {
	h := store.Holder{Left: inMillis(pttl), CoolingDown: stays}
	token, text, ok := strings.Cut(value, ":")
	if !ok {
		return h
	}
	token, h.HandedOn = issuerOf(token)
	h.Instance, h.Note = readToken(token)
	if fence, ok := number(strings.TrimLeft(text, "~!")); ok && h.Instance != "" {
		h.Age = age(now, fence)
	}
	return h
}

// severalHolders reads the holders of a lock that several may hold, those whose lease began first in front. list is the
// sorted set, with each score behind its member.
func severalHolders(list []any, now int64) []store.Holder {
	ends, fences, stays := make(map[string]int64), make(map[string]int64), make(map[string]bool)
	for token, text := range inPairs(list) {
		score, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		if own, ok := strings.CutPrefix(token, "="); ok {
			fences[own] = int64(-score)
		} else if end := int64(score); end > now {
			ends[token], stays[token] = end, score != float64(end)
		}
	}
	var all []store.Holder
	for token, end := range ends {
		instance, note := readToken(token)
		all = append(all, store.Holder{
			Instance: instance, Note: note, Age: age(now, fences[token]),
			Left: time.Duration(end-now) * time.Microsecond, CoolingDown: stays[token],
		})
	}
	slices.SortFunc(all, func(a, b store.Holder) int { return int(b.Age - a.Age) })
	return all
}

// inLine reads who stands in front of the queue. list is its beginning, with each score behind its member. What no Locker has
// put there is left out.
func inLine(list []any, now int64) (all []store.Queued) {
	for place, text := range inPairs(list) {
		token, terms, _ := strings.Cut(place, ":")
		instance, note := readToken(token)
		kind, ok := kindIn(terms)
		if instance == "" || !ok {
			continue
		}
		came, _ := strconv.ParseFloat(text, 64) // one that is set by hand may be infinite
		all = append(all, store.Queued{Instance: instance, Note: note, Kind: kind, Waited: age(now, int64(came))})
	}
	return all
}

// waitingBehind adds up how many wait without a place in the queue, in lockers other than this one that are alive at
// now. heartbeats is the hash, in pairs.
func waitingBehind(locker string, heartbeats []any, now int64) (n int) {
	for other, heartbeat := range inPairs(heartbeats) {
		how := strings.IndexAny(heartbeat, "vup")
		if other == locker || how < 0 {
			continue
		}
		till, ok := number(heartbeat[:how])
		if count, err := strconv.Atoi(heartbeat[how+1:]); ok && err == nil && till > now {
			n += count
		}
	}
	return n
}

// smallestLimit returns the smallest number of permits that binds at now, of pairs of a number and until when it binds.
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

// longestLeft is what is told of a TTL that is longer: a foreign program's may be longer than a time.Duration can tell (292
// years), and sums with it are made.
const longestLeft = 100 * 365 * 24 * time.Hour

// inMillis is a TTL that the server tells in ms.
func inMillis(ms int64) time.Duration {
	return time.Duration(min(ms, longestLeft.Milliseconds())) * time.Millisecond
}

// age returns how long ago a grant with that fence was made, or 0 where that cannot be told: a fence is the server's time,
// or a little more after its clock was set back.
func age(now, fence int64) time.Duration {
	if fence <= 0 || fence > now {
		return 0
	}
	return time.Duration(now-fence) * time.Microsecond
}

// inPairs yields the strings of a list two by two; another value is an empty one.
func inPairs(list []any) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for ; len(list) > 1; list = list[2:] {
			first, _ := list[0].(string)
			second, _ := list[1].(string)
			if !yield(first, second) {
				return
			}
		}
	}
}

// takenBySet stands between the token and the estimate in the value that SET writes.
const takenBySet = ":~"

// offMost is how far a fence may be from the estimate in the lock's value: OFF_US in lock.lua.
const offMost = time.Second
