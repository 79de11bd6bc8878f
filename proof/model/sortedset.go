package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

func (s *server) zadd(e *entry, args []string) any {
	onlyNew := args[0] == "NX"
	if onlyNew {
		args = args[1:]
	}
	added := int64(0)
	for i := 0; i < len(args); i += 2 {
		if onlyNew && e.find(args[i+1]) >= 0 {
			continue
		}
		value, err := strconv.ParseFloat(args[i], 64)
		if err != nil {
			return errReply("ERR value is not a valid float")
		}
		added += e.put(zset, member{name: args[i+1], score: value})
	}
	return added
}

// compare puts the members of a sorted set in order.
func (m member) compare(other member) int {
	return cmp.Or(cmp.Compare(m.score, other.score), cmp.Compare(m.name, other.name))
}

// find returns where a member is, or -1.
func (e *entry) find(name string) int {
	return slices.IndexFunc(e.members, func(m member) bool { return m.name == name })
}

// put has the entry have a member, and returns 1 if that is new.
func (e *entry) put(kind kindOf, m member) int64 {
	at := e.find(m.name)
	members := make([]member, 0, len(e.members)+1)
	for i, other := range e.members {
		if i != at {
			members = append(members, other)
		}
	}
	members = append(members, m)
	slices.SortFunc(members, member.compare)
	e.kind, e.members = kind, members
	if at < 0 {
		return 1
	}
	return 0
}

// remove takes members out; the key ends with the last.
func (e *entry) remove(names []string) any {
	members := make([]member, 0, len(e.members))
	for _, m := range e.members {
		if !slices.Contains(names, m.name) {
			members = append(members, m)
		}
	}
	removed := len(e.members) - len(members)
	if removed > 0 {
		e.members = members
	}
	if len(e.members) == 0 && e.kind != text {
		*e = entry{}
	}
	return int64(removed)
}

// between returns the members with a score in the interval.
func (e *entry) between(from, to string) []member {
	least, without := bound(from)
	most, withoutEnd := bound(to)
	var found []member
	for _, m := range e.members {
		if m.score < least || m.score > most || without && m.score == least || withoutEnd && m.score == most {
			continue
		}
		found = append(found, m)
	}
	return found
}

func bound(at string) (score float64, exclusive bool) {
	at, exclusive = strings.CutPrefix(at, "(")
	switch at {
	case "+inf":
		return math.Inf(1), exclusive
	case "-inf":
		return math.Inf(-1), exclusive
	}
	score, err := strconv.ParseFloat(at, 64)
	if err != nil {
		panic(err)
	}
	return score, exclusive
}

// zrange is ZRANGE by places, or with BYSCORE by scores, then also from the highest with REV.
func (e *entry) zrange(from, to string, options []string) any {
	var members []member
	withScores := slices.Contains(options, "WITHSCORES")
	if slices.Contains(options, "BYSCORE") {
		if slices.Contains(options, "REV") {
			members = slices.Clone(e.between(to, from))
			slices.Reverse(members)
		} else {
			members = e.between(from, to)
		}
		if i := slices.Index(options, "LIMIT"); i >= 0 {
			members = members[min(int(number(options[i+1])), len(members)):]
			members = members[:min(int(number(options[i+2])), len(members))]
		}
	} else {
		first, last := int(number(from)), int(number(to))
		if first < 0 {
			first = max(0, first+len(e.members))
		}
		if last < 0 {
			last += len(e.members)
		}
		if last = min(last, len(e.members)-1); first <= last {
			members = e.members[first : last+1]
		}
	}
	reply := []any{}
	for _, m := range members {
		reply = append(reply, m.name)
		if withScores {
			reply = append(reply, score(m.score))
		}
	}
	return reply
}

// score writes a score as Redis does.
func score(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("no number: %q", text))
	}
	return n
}
