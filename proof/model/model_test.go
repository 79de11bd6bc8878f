package model

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/older"
)

// compile compiles scripts.
func compile(tb testing.TB, texts map[string]string) Scripts {
	tb.Helper()
	all, err := Compile(texts)
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// current are the scripts of today.
func current(tb testing.TB) Scripts {
	tb.Helper()
	return compile(tb, redisstore.Scripts())
}

// explore looks at all states of a size.
func explore(tb testing.TB, z Size, ways bool) Result {
	tb.Helper()
	r, err := Explore(z, 5_000_000, ways)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Logf("%d states, %d steps, the furthest %d steps away, %v", r.States, r.Steps, r.Depth, r.Took)
	return r
}

// quick leaves out most sizes under the race detector: it sees in the smallest one how goroutines work together, and makes all
// of them many times slower. make test looks at the others without it.
func quick(sizes []Size) []Size {
	if racing {
		return sizes[:1]
	}
	return sizes
}

// All properties hold in all states of the smallest sizes; `make model` looks at larger ones.
func TestProperties(t *testing.T) {
	for _, z := range quick(Smallest) {
		t.Run(z.Name, func(t *testing.T) {
			t.Parallel()
			z.Scripts = []Scripts{current(t)}
			r := explore(t, z, true)
			if r.Wrong != "" {
				t.Errorf("%s\n%s", r.Wrong, strings.Join(r.Trace, "\n"))
			}
			if !r.Full {
				t.Errorf("only %d states were looked at", r.States)
			}
		})
	}
}

// An edit puts a mistake into all scripts that have a text.
type edit struct{ old, with string }

// Each mistake is found, with the shortest way to it.
func TestMistakesAreFound(t *testing.T) {
	two, three := Size{Lockers: 2, Claims: 1, Waits: true}, Size{Lockers: 3, Claims: 1, Prompt: true, Alike: true, Waits: true}
	loses := Size{Lockers: 2, Claims: 1, Waits: true, Faults: 1, May: []Fault{LoseReply}}
	threeDeleted := Size{Lockers: 3, Claims: 1, Prompt: true, Alike: true, Waits: true, Faults: 1, May: []Fault{Delete}}
	forced := Size{Lockers: 2, Claims: 1, Waits: true, Faults: 1, May: []Fault{Force}}
	leaves := Size{Lockers: 2, Claims: 1, Waits: true, Leaves: 1}
	notes := func(z Size) Size {
		z.Lockers, z.Claims, z.Waits, z.Do, z.Notes = 2, 1, true, true, true
		return z
	}
	ticket := Size{Lockers: 2, Claims: 1, Waits: true, Roles: []Role{Issues, Resumes}}
	besides := Size{Lockers: 3, Claims: 1, Waits: true, Fails: true, Roles: []Role{Issues, Resumes, Plain}}
	losesTicket := Size{Lockers: 2, Claims: 1, Waits: true, Roles: []Role{Issues, Resumes}, Faults: 1, May: []Fault{LoseReply}}
	stays := Size{Lockers: 2, Claims: 1, Waits: true, Stays: true}
	losesStay := Size{Lockers: 2, Claims: 1, Waits: true, Renews: true, Stays: true, Faults: 1, May: []Fault{LoseReply}}
	keys := Size{Lockers: 2, Claims: 2, Keys: 2, Prompt: true, Waits: true}
	keysLeave := Size{Lockers: 2, Claims: 2, Keys: 2, Prompt: true, Waits: true, Leaves: 1}
	keysAtOnceLeave := Size{Lockers: 2, Claims: 2, Keys: 2, AtOnce: true, Prompt: true, Waits: true, Leaves: 1}
	keysAtOnce := Size{Lockers: 2, Claims: 2, Keys: 2, AtOnce: true, Prompt: true, Faults: 1, May: []Fault{LoseReply}}
	rest := Size{Lockers: 2, Claims: 2, Absent: 1, Rests: true, NoSet: true, Prompt: true, Waits: true}
	restBoth := Size{Lockers: 2, Claims: 2, Rests: true, NoSet: true, Prompt: true, Waits: true}
	restLeaves := Size{Lockers: 2, Claims: 2, Rests: true, NoSet: true, Prompt: true, Waits: true, Leaves: 1}
	restRenew := Size{Lockers: 2, Claims: 2, Absent: 1, Rests: true, NoSet: true, Prompt: true, Waits: true, Renews: true}
	dies, again := notes(Size{Faults: 1, May: []Fault{Crash}}), notes(Size{Again: 1})
	for name, tc := range map[string]struct {
		size Size
		hole Hole
		edit edit
		says string
	}{
		"the fence comes from the client's clock":                    {size: two, hole: LocalFence, says: "not higher"},
		"validity counts from the reply":                             {size: two, hole: FromReply, says: "relies on the lock"},
		"a call that gives up leaves what it has":                    {size: leaves, hole: NoCleanUp, says: "is left"},
		"what was not answered is removed once":                      {size: leaves, hole: EarlyCleanUp, says: "is left"},
		"SET does not look at the queue":                             {size: three, hole: NoLook, says: "overtaken"},
		"who is granted the lock while a slot moves keeps its place": {size: Size{Lockers: 2, Claims: 1, Waits: true, Async: true, Faults: 1, May: []Fault{MoveSlot}}, hole: KeepsPlace, says: "its process may end now"},
		"SET alone takes the lock":                                   {size: Size{Lockers: 2, Claims: 1, Waits: true, Faults: 1, May: []Fault{MoveSlot}}, hole: HalfSet, says: "not higher"},
		"a waiter never asks again":                                  {size: Size{Lockers: 2, Claims: 1, Waits: true, Faults: 1, May: []Fault{LoseMessage}}, hole: NoAsking, says: "not all who wait"},
		"a release that is not awaited has a second step":            {size: Size{Lockers: 2, Claims: 1, Waits: true, Async: true}, hole: GiveFirst, says: "its process may end now"},
		"a call does not wait for a release of its own process":      {size: Size{Lockers: 1, Claims: 2, Waits: true, Async: true}, hole: NoSettling, says: "and meets it"},
		"a grant is told and not stored": {size: two, says: "was not handed the lock", edit: edit{
			"local fence = grant(state, now, token, first_ttl, kind)",
			"local fence = next_fence(now, state) state.holder = token redis.call('DEL', KEYS[1])",
		}},
		"a key without TTL": {size: two, says: "no TTL", edit: edit{
			"redis.call('SET', KEYS[1], token .. ':' .. fence, 'PX', ms)", "redis.call('SET', KEYS[1], token .. ':' .. fence)",
		}},
		"a release without compare": {size: loses, says: "relies on the lock", edit: edit{
			"local own = value and (value == token or string.sub(value, 1, #token + 1) == token .. ':')\nlocal last_fence = own and tonumber(string.sub(value, #token + 2))",
			"local own = value\nlocal last_fence = own and tonumber(string.sub(value, #token + 2))",
		}},
		"who waits does not mark a lock that SET took": {size: two, says: "was not handed the lock", edit: edit{
			"redis.call('SET', KEYS[1], token .. ':!' .. since, 'KEEPTTL')", "",
		}},
		"give deletes without compare": {size: loses, says: "was not handed the lock", edit: edit{
			"if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end", "",
		}},
		"a release that is not awaited deletes without compare": {size: Size{Lockers: 2, Claims: 1, Waits: true, Async: true}, says: "was not handed the lock", edit: edit{
			"if set and value == set and now >", "if set and now >",
		}},
		"a release that is not awaited does not look at the clock": {size: Size{Lockers: 2, Claims: 1, Waits: true, Async: true, Faults: 1, May: []Fault{SetBack}}, says: "not higher", edit: edit{
			"value == set and now > tonumber(ARGV[3]) then", "value == set then",
		}},
		"a newcomer does not look at the queue": {size: three, says: "overtaken", edit: edit{
			"local empty = not queue_or_fence or redis.call('EXISTS', KEYS[2]) == 0", "local empty = true",
		}},
		"who finds a queue is put half a second further in front of it": {size: threeDeleted, says: "which stood in the queue when it came", edit: edit{
			"local arrival = waited and digits(now - waited) or now_text", "local arrival = waited and digits(now - waited - (queue_or_fence and 500000 or 0)) or now_text",
		}},
		"the form of a command that concerns one key ends with an error": {size: Size{Lockers: 2, Claims: 1, Waits: true, Faults: 1, May: []Fault{MoveSlot}}, says: "global variable nothing", edit: edit{
			"if ms > 0 then\n  redis.call('PEXPIRE', KEYS[1], ms)", "if nothing > 0 then\n  redis.call('PEXPIRE', KEYS[1], ms)",
		}},
		"a renewal that its release has overtaken takes the lock": {size: Size{Lockers: 2, Claims: 1, Waits: true, Async: true, Renews: true}, says: "is left", edit: edit{
			"local last_fence = own and tonumber(string.sub(value, #token + 2))\nlocal caller_fence = own and tonumber(ARGV[3])\nif caller_fence and caller_fence > ",
			"if not value and ARGV[3] ~= '' and now - ARGV[3] < 1000000 then redis.call('SET', KEYS[1], token .. ':' .. ARGV[3], 'PX', ARGV[2]) return 1 end local last_fence = own and tonumber(string.sub(value, #token + 2))\nlocal caller_fence = own and tonumber(ARGV[3])\nif caller_fence and caller_fence > ",
		}},
		"who is next behind a release by force has the lock for less time than it was told": {size: forced, says: "relies on the lock", edit: edit{
			"state = {last_fence = last_fence}\ngrant_next(state, now, nil, nil, ARGV[1])", "state = {last_fence = last_fence}\ngrant_next(state, now, nil, nil, ARGV[1]) redis.call('PEXPIRE', KEYS[1], 1000)",
		}},
		"a release by force leaves the lock to whoever comes": {size: forced, says: "that was released by force", edit: edit{
			"state = {last_fence = last_fence}\ngrant_next(state, now, nil, nil, ARGV[1])", "state = {last_fence = last_fence}",
		}},
		"an answer is kept without the lock": {size: Size{Lockers: 2, Claims: 1, Waits: true, Do: true, Faults: 1, May: []Fault{LoseReply}}, says: "kept an answer without the lock", edit: edit{
			"local keeps = ARGV[10] ~= '' and (own or begun)", "local keeps = ARGV[10] ~= ''",
		}},
		"an answer is for whoever comes": {size: Size{Lockers: 2, Claims: 1, Waits: true, Do: true}, says: "made before it came", edit: edit{
			"and now - waited < tonumber(made))", ")",
		}},
		"work begins before its intent is confirmed":         {size: dies, hole: NoConfirming, says: "work has begun 2 times"},
		"a lock is given back, and an intent in doubt stays": {size: notes(Size{Faults: 1, May: []Fault{LoseReply}}), hole: NoTakingBack, says: "which never began"},
		"a lock is lost, and an intent in doubt stays":       {size: notes(Size{}), hole: IntentStays, says: "which never began"},
		"whoever finds an answer takes it for its own":       {size: again, hole: AnyAnswer, says: "was told before"},
		"a completion does not see whose work is noted": {size: again, says: "has taken that for its own", edit: edit{
			"^begun (%d+) ') == ARGV[11]", "^begun (%d+) ') ~= nil",
		}},
		"an answer is kept behind the word that work is to be done again": {size: again, says: "without an intent", edit: edit{
			"local keeps = ARGV[10] ~= '' and (own or begun)", "local keeps = ARGV[10] ~= '' and (own or ARGV[11] ~= '')",
		}},
		"the lock is granted over an intent": {size: dies, says: "has taken that for its own", edit: edit{
			" or begun and (own or free or join == 'look')", "",
		}},
		"an intent is written with the grant": {size: notes(Size{Leaves: 1}), says: "which never began", edit: edit{
			"local fence = grant(state, now, token, first_ttl, kind)",
			"local fence = grant(state, now, token, first_ttl, kind) redis.call('SET', KEYS[6], 'begun ' .. fence .. ' ' .. fence .. ' f 90000000 ' .. token, 'PX', 90000)",
		}},
		"an intent is written without the lock": {size: notes(Size{}), says: "does not have the lock", edit: edit{
			"if not own or fence and known and fence > known then return {2, '', now_text} end", "",
		}},
		"an operator is believed while somebody has the lock": {size: again, says: "and A.0 has the lock", edit: edit{
			"if redis.call('EXISTS', KEYS[1]) == 1 then return 2 end", "",
		}},
		"an operator is believed about other work": {size: notes(Size{Again: 2}), says: "and that was said of", edit: edit{
			"^begun (%d+) ') ~= ARGV[4] then return 0 end", "^begun (%d+) ') == nil then return 0 end",
		}},
		"a lock that is to stay is removed behind a release in doubt": {size: losesStay, hole: StayCutShort, says: "is to stay"},
		"a late message has a lock removed that is to stay":           {size: stays, hole: StayForgotten, says: "is to stay"},
		"a lock that is to stay is given back": {size: stays, says: "is to stay", edit: edit{
			"extend(now, state, stay)", "redis.call('DEL', KEYS[1])",
		}},
		"a release in doubt leaves the ticket": {size: losesTicket, hole: TicketStays, says: "is left"},
		"whoever has a ticket takes the lock": {size: ticket, says: "by the ticket, and A.0 had it", edit: edit{
			"if state.holder == ticket then", "if state.holder then",
		}},
		"whoever asks while a ticket has the lock takes it": {size: besides, says: "the ticket had the lock, and a command of C.0 has taken it: C.0", edit: edit{
			"-- A lock that one other holds is waited for.", "if value and string.sub(value, 1, 2) == 't.' then redis.call('DEL', KEYS[1]) value = nil end",
		}},
		"a ticket that comes early is spent": {size: ticket, says: "is left", edit: edit{
			"if type(stays) ~= 'string' and string.match(value or '', ':[~!]?(%d+)$') == ARGV[4] then", "if false then",
		}},
		"work that is resumed has the fence of its issuer": {size: ticket, says: "not higher", edit: edit{
			"grant(state, now, token, ttl, '')", "grant(state, now, token, ttl, '', digits(state.last_fence))",
		}},
		"a Resume that is sent again finds its ticket spent": {size: losesTicket, says: "is told that the ticket is spent", edit: edit{
			"extend(now, state, ttl)\n  return {1, digits(state.last_fence), digits(now)}", "return {3, digits(now)}",
		}},
		"a lock is handed on that another has": {size: Size{Lockers: 2, Claims: 1, Waits: true, Roles: []Role{Issues, Plain}, Faults: 1, May: []Fault{LoseReply}}, says: "and B.0 had it", edit: edit{
			"if string.sub(value, 1, #token + 1) ~= token .. ':' or string.match(value, ':[~!]?(%d+)$') ~= ARGV[5] then return 0 end", "if value == '' then return 0 end",
		}},
		"a writer is let in beside a reader": {size: Size{Lockers: 2, Claims: 1, Waits: true, Kinds: []Kind{Exclusive, Shared}}, says: "relies on the lock", edit: edit{
			"if not state.count then return true end", "if not state.count or kind == '' then return true end",
		}},
		"one permit too many": {size: Size{Lockers: 3, Claims: 1, Waits: true, Kinds: []Kind{Permit}}, says: "at the same time", edit: edit{
			"return state.count < n", "return state.count <= n",
		}},
		"the fence is the clock's, also where that was set back": {size: Size{Lockers: 2, Claims: 1, Waits: true, Faults: 1, May: []Fault{SetBack}}, says: "not higher", edit: edit{
			"if last_fence < now then return digits(now) end", "if true then return digits(now) end",
		}},
		"two take their keys in different orders":                                       {size: keys, hole: OwnOrder, says: "stands behind that one"},
		"two take their keys in different orders, and nobody looks at that":             {size: keys, hole: Circle, says: "not all who wait"},
		"a call for two keys gives up, and keeps one":                                   {size: keysLeave, hole: PartStays, says: "is over, and has the lock"},
		"what a command for two keys may have left stays":                               {size: keysAtOnce, hole: AllStays, says: "is over, and has the lock"},
		"who leaves behind a command for two keys thinks of one":                        {size: keysAtOnceLeave, hole: LeavesInAll, says: "is over, and has the lock"},
		"who asks for the last time leaves the next one of its process without a place": {size: restLeaves, hole: BringsNobody, says: "which has no place"},
		"a process takes no note of who waits elsewhere":                                {size: rest, hole: OthersUnseen, says: "has told of"},
		"a lock passes on for as long as anybody of the process waits":                  {size: restRenew, hole: PassesOn, says: "more than a second after"},
		"a lease whose lock passes on is released in Redis as well":                     {size: rest, hole: EachReleases, says: "its tenure goes on"},
		"Redis does not tell who waits": {size: restBoth, says: "has told of", edit: edit{
			"return head[1] and arrival_of(head[2]) or '0'", "return '0'",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && tc.size.Rests && tc.size.Absent == 0 {
				return // half a million states: make model looks for it
			}
			if racing && (tc.size.Notes || tc.size.Keys > 0 || tc.size.Rests || tc.size.Faults > 0 || tc.size.Leaves > 0) {
				return // see quick
			}
			texts := redisstore.Scripts()
			edited := false
			for script, text := range texts {
				if tc.edit.old != "" && strings.Contains(text, tc.edit.old) {
					texts[script], edited = strings.Replace(text, tc.edit.old, tc.edit.with, 1), true
				}
			}
			if tc.edit.old != "" && !edited {
				t.Fatal("no script has that text")
			}
			tc.size.Scripts, tc.size.Hole = []Scripts{compile(t, texts)}, tc.hole
			r := explore(t, tc.size, true)
			if r.Wrong == "" || !strings.Contains(r.Wrong, tc.says) {
				t.Errorf("found %q, want %q", r.Wrong, tc.says)
			}
			t.Logf("%s\n%s", r.Wrong, strings.Join(r.Trace, "\n"))
		})
	}
}

// Lockers with the scripts before a cool-down was noted, and with those of today, hold the same properties beside each other.
func TestTwoVersions(t *testing.T) {
	texts := redisstore.Scripts()
	maps.Copy(texts, older.BeforeCoolDown())
	before := compile(t, texts)
	for _, z := range quick(Smallest) {
		if z.Lockers == 1 || testing.Short() && (z.Faults > 0 || z.Rests || z.Lockers == 3 && z.Roles == nil) { // make model looks at those, too
			continue
		}
		t.Run(z.Name, func(t *testing.T) {
			t.Parallel()
			for _, order := range [][]Scripts{{before, current(t)}, {current(t), before}} {
				z.Scripts = slices.Clone(order)
				if r := explore(t, z, true); r.Wrong != "" || !r.Full {
					t.Errorf("%s\n%s", r.Wrong, strings.Join(r.Trace, "\n"))
				}
			}
		})
	}
}
