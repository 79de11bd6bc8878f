package redisstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

// everyCommand has those about a key by which a script writes: p has the token held there, and q waits there with waits.
var everyCommand = map[string]func(p, q *probe, held, waits store.Ref) error{
	"release": func(p, _ *probe, held, _ store.Ref) error {
		_, _, err := p.Release(context.Background(), store.Give{Ref: held})
		return err
	},
	"leave": func(_, q *probe, _, waits store.Ref) error {
		_, err := q.giveBack(context.Background(), waits, true)
		return err
	},
	"release after": func(p, _ *probe, held, _ store.Ref) error {
		_, _, err := p.Release(context.Background(), store.Give{Ref: held, Stay: time.Minute})
		return err
	},
	"release to": func(p, _ *probe, held, _ store.Ref) error {
		_, _, err := p.releaseTo(context.Background(), held, p.ref(time.Minute), store.Place{})
		return err
	},
	"remove": func(p, _ *probe, held, _ store.Ref) error {
		batch := []store.Removal{{Ref: held}}
		p.Remove(context.Background(), batch)
		return batch[0].Err
	},
	"force": func(p, _ *probe, _, _ store.Ref) error {
		return p.ForceRelease(context.Background(), "k", store.Intervention{})
	},
	"renew": func(p, _ *probe, held, _ store.Ref) error {
		batch := []store.Renewal{{Ref: held}}
		p.Renew(context.Background(), batch)
		return batch[0].Err
	},
	"ask again": func(p, _ *probe, held, _ store.Ref) error {
		_, err := p.Acquire(context.Background(), store.Request{Ref: held})
		return err
	},
	"wait again": func(_, q *probe, _, waits store.Ref) error {
		_, err := q.Acquire(context.Background(), store.Request{Ref: waits, Join: store.Wait})
		return err
	},
	"last": func(_, q *probe, _, waits store.Ref) error {
		_, err := q.Acquire(context.Background(), store.Request{Ref: waits, Join: store.Last})
		return err
	},
}

// A damage is what somebody does by hand to the keys of a lock: commands, in which LOCK, QUEUE, ALIVE, FENCE and HOLDERS
// are its keys, HELD and WAITS are tokens, ENTRY is the waiter's place, Q its locker, and SOON a moment of the next hour.
type damage []string

// Whatever stands there that no script writes counts as absent.
var damages = map[string]damage{
	"no damage": nil,

	"a holder's end is gone":                 {"ZREM HOLDERS HELD"},
	"a holder's fence is gone":               {"ZREM HOLDERS =HELD"},
	"no holders":                             {"DEL HOLDERS"},
	"one more has an end":                    {"ZADD HOLDERS SOON p.x", "EXPIRE HOLDERS 60"},
	"one more has a fence":                   {"ZADD HOLDERS -5 =p.x", "EXPIRE HOLDERS 60"},
	"an end without its fence, and no other": {"ZREM HOLDERS =HELD", "SET LOCK *shared EX 60"},
	"a fence without its end, and no other":  {"ZREM HOLDERS HELD", "SET LOCK *shared EX 60"},
	"permits, and nobody has one":            {"DEL HOLDERS", "SET|LOCK|*permits 2 SOON|EX|60"},
	"permits, and a fence without its end":   {"ZREM HOLDERS HELD", "SET|LOCK|*permits 2 SOON|EX|60"},
	"one ends never":                         {"ZADD HOLDERS +inf p.x", "EXPIRE HOLDERS 60"},

	"a place without terms":          {"ZADD QUEUE 1 junk"},
	"a place with no time":           {"ZADD QUEUE 1 Q.x:0"},
	"a place with too long a time":   {"ZADD QUEUE 1 Q.x:1000::99999999999999999999"},
	"a place for permits, how many?": {"ZADD QUEUE 1 Q.x:1000:p:0"},
	"a place of no kind":             {"ZADD QUEUE 1 Q.x:1000:5:0"},
	"a place for no permits":         {"ZADD QUEUE 1 Q.x:1000:p0:0"},
	"a place at the end of time":     {"ZADD QUEUE +inf ENTRY"},
	"a place in front of all time":   {"ZADD QUEUE -inf ENTRY"},

	"a heartbeat of words":     {"HSET ALIVE Q junk"},
	"an empty heartbeat":       {"HSET|ALIVE|Q|"},
	"a heartbeat without time": {"HSET ALIVE Q v1"},
	"a heartbeat for ever":     {"HSET ALIVE Q 99999999999999999999999v1"},

	"a fence of words":          {"SET FENCE junk EX 60"},
	"a fence that is no number": {"SET FENCE nan EX 60"},
	"an infinite fence":         {"SET FENCE inf EX 60"},
	"a fence of nanoseconds":    {"SET FENCE 1790000000000000000 EX 60"},

	"its own fence in nanoseconds":             {"SET LOCK HELD:1790000000000000000 EX 60"},
	"another program's value with nanoseconds": {"SET LOCK web1.prod:1790000000000000000 EX 60"},
	"another program's value in stars":         {"SET LOCK *mine EX 60"},
	"permits of nobody knows how many":         {"SET LOCK *permits EX 60"},
}

// do does the damage to the lock of which p has the token held, and for which q waits with waits.
func (d damage) do(t *testing.T, client *redis.Client, p, q *probe, held, waits store.Ref) {
	t.Helper()
	keys := p.keys("k")
	words := strings.NewReplacer("LOCK", keys[0], "QUEUE", keys[1], "ALIVE", keys[2], "FENCE", keys[3], "HOLDERS", keys[4],
		"HELD", held.Token, "ENTRY", waits.Token+":"+terms(waits), "Q", q.locker, "SOON", fmt.Sprint(time.Now().Add(time.Hour).UnixMicro()))
	for _, command := range d {
		separator := " "
		if strings.Contains(command, "|") {
			separator = "|"
		}
		var args []any
		for arg := range strings.SplitSeq(command, separator) {
			args = append(args, words.Replace(arg))
		}
		do(t, client, args...)
	}
}

// contents are those of a lock's keys, but for the heartbeats.
func contents(p *probe, client *redis.Client) string {
	p.Helper()
	var text strings.Builder
	for i, key := range p.keys("k") {
		var value any
		switch kind := client.Type(context.Background(), key).Val(); kind {
		case "string":
			value = client.Get(context.Background(), key).Val()
		case "zset":
			value = client.ZRangeWithScores(context.Background(), key, 0, -1).Val()
		case "hash":
			continue
		default:
			value = kind
		}
		fmt.Fprintf(&text, "%s %v\n", keyEnds[i], value)
	}
	return text.String()
}

// eachHold calls test with a lock that p has and q waits for, for each kind and for each command.
func eachHold(t *testing.T, client *redis.Client, test func(what string, p, q *probe, held, waits store.Ref, ask func() error)) {
	t.Helper()
	commands := maps.Clone(everyCommand)
	commands["ask"] = func(_, q *probe, _, waits store.Ref) error {
		waits.Token = q.NewToken("")
		_, err := q.Acquire(context.Background(), store.Request{Ref: waits})
		return err
	}
	commands["wait"] = func(_, q *probe, _, waits store.Ref) error {
		waits.Token = q.NewToken("")
		_, err := q.Acquire(context.Background(), store.Request{Ref: waits, Join: store.Wait})
		return err
	}
	commands["ask for several"] = func(_, q *probe, _, waits store.Ref) error {
		first := store.Ref{Key: "j", Token: q.NewToken(""), Kind: waits.Kind}
		waits.Token = q.NewToken("")
		_, err := q.AcquireAll(context.Background(), []store.Ref{first, waits}, time.Time{}, nil)
		return err
	}
	commands["inspect"] = func(p, _ *probe, _, _ store.Ref) error { _, err := p.Inspect(context.Background(), "k"); return err }
	ns := redistest.Prefix(t)
	p, q := open(t, client, ns), open(t, client, ns)
	for name, kinds := range map[string]struct {
		holders []store.Kind
		waiter  store.Kind
	}{
		"a writer":                    {[]store.Kind{{}}, store.Kind{}},
		"a writer, a reader waits":    {[]store.Kind{{}}, store.Kind{Shared: true}},
		"a reader":                    {[]store.Kind{{Shared: true}}, store.Kind{}},
		"two readers":                 {[]store.Kind{{Shared: true}, {Shared: true}}, store.Kind{}},
		"two readers, a permit waits": {[]store.Kind{{Shared: true}, {Shared: true}}, store.Kind{Permits: 1}},
		"two permits":                 {[]store.Kind{{Permits: 2}, {Permits: 2}}, store.Kind{Permits: 2}},
	} {
		for _, command := range slices.Sorted(maps.Keys(commands)) {
			var held store.Ref
			for _, kind := range kinds.holders {
				held = p.ref(time.Minute)
				held.Kind = kind
				noteGrant(&held, p.get(held, store.Try))
			}
			waits := q.ref(time.Minute)
			waits.Kind = kinds.waiter
			q.refused(waits, store.Wait)
			test(command+" of "+name, p, q, held, waits, func() error { return commands[command](p, q, held, waits) })
			for _, key := range client.Keys(t.Context(), ns+"*").Val() {
				if client.PTTL(t.Context(), key).Val() < 0 && client.Type(t.Context(), key).Val() != "list" {
					t.Errorf("%s of %s left %s without a TTL", command, name, key)
				}
				client.Del(t.Context(), key)
			}
		}
	}
}

// Whoever changes the keys of a lock by hand stops no script.
func TestNoScriptFailsOverWhatWasDoneByHand(t *testing.T) {
	for name, d := range damages {
		t.Run(name, func(t *testing.T) {
			client := redistest.Shared(t).Client(t)
			eachHold(t, client, func(what string, p, q *probe, held, waits store.Ref, ask func() error) {
				d.do(t, client, p, q, held, waits)
				before := contents(p, client)
				if err := ask(); err != nil {
					t.Errorf("%s: %v; its keys were\n%s, and are\n%s", what, err, before, contents(p, client))
				}
			})
		})
	}
}

// Inspect tells of who waits whatever somebody has put beside it by hand, and of nothing else.
func TestWhoWaitsIsToldOverWhatWasDoneByHand(t *testing.T) {
	for name, d := range damages {
		client := redistest.Shared(t).Client(t)
		ns := redistest.Prefix(t)
		p, q := open(t, client, ns), open(t, client, ns)
		held, waits := p.take(), q.ref(time.Minute)
		q.refused(waits, store.Wait)
		d.do(t, client, p, q, held, waits)
		info, err := p.Inspect(t.Context(), "k")
		if err != nil || len(info.Queue) != 1 || info.Queue[0].Instance != q.Instance() || info.Queue[0].Waited < 0 || info.Queue[0].Waited > time.Hour {
			t.Errorf("%s: Inspect = %+v, %v, want that %s waits, and for how long if that is known", name, info, err, q.Instance())
		}
	}
}

// A script that other data under one of a lock's keys stop says so, with an error that lasts, and has given the lock to
// nobody.
func TestOtherDataAreNotHalfAGrant(t *testing.T) {
	for i, end := range keyEnds {
		t.Run(end, func(t *testing.T) {
			client := redistest.Shared(t).Client(t)
			eachHold(t, client, func(what string, p, _ *probe, _, _ store.Ref, ask func() error) {
				lock, planted := p.keys("k")[0], p.keys("k")[i]
				client.Del(t.Context(), planted)
				do(t, client, "RPUSH", planted, "data")
				before, _, _ := strings.Cut(client.Get(t.Context(), lock).Val(), ":") // the token
				err := ask()
				if err == nil {
					return
				}
				if e := store.AsError(err); !e.Permanent {
					t.Errorf("%s: %v does not count as lasting", what, err)
				}
				if after, _, _ := strings.Cut(client.Get(t.Context(), lock).Val(), ":"); after != "" && after != before {
					t.Errorf("%s: %v; %q had the lock, and %q has it", what, err, before, after)
				}
			})
		})
	}
}

// Several locks are taken in one step or none of them, also where one of them cannot be because of other data.
func TestOtherDataUnderOneOfSeveralKeysKeepAllFree(t *testing.T) {
	for _, kind := range []store.Kind{{}, {Shared: true}, {Permits: 2}} {
		for i, end := range keyEnds {
			client := redistest.Shared(t).Client(t)
			p := open(t, client, redistest.Prefix(t))
			do(t, client, "RPUSH", p.keys("k")[i], "data")
			first, second := p.ref(time.Minute), p.ref(time.Minute)
			first.Key, first.Kind, second.Kind = "j", kind, kind
			fences, err := p.AcquireAll(t.Context(), []store.Ref{first, second}, time.Time{}, nil)
			if e := store.AsError(err); err != nil && !e.Permanent {
				t.Errorf("%+v: data in the key that ends in %s: %v does not count as lasting", kind, end, err)
			}
			if taken := client.Exists(t.Context(), p.keys("j")[0]).Val() == 1; taken != (fences != nil) {
				t.Errorf("%+v: data in the key that ends in %s: fences %v, %v, and the other key is taken: %v", kind, end, fences, err, taken)
			}
		}
	}
}

// Where the clock is set back while a script runs, Redis 7.0 may take a key for expired that the script has just given a TTL.
// So the script finds no end where it knows of a holder; nothing fails over that.
func TestAScriptThatFindsNoEndGoesOn(t *testing.T) {
	const without = `local real = redis
		local redis = setmetatable({call = function(...)
			local args = {...}
			if args[1] == 'ZRANGE' and args[2] == KEYS[5] and args[#args] == 'WITHSCORES' then return {} end
			return real.call(...)
		end}, {__index = real})
		`
	client := redistest.Shared(t).Client(t)
	p := open(t, client, redistest.Prefix(t))
	keys := p.keys("k")
	permit := func() store.Ref {
		r := p.ref(time.Minute)
		r.Kind.Permits = 2
		return r
	}
	first, second, third := permit(), permit(), permit()
	p.get(first, store.Try)
	p.get(second, store.Try)
	for _, ask := range []struct {
		script *script
		args   []any
	}{
		{acquireScript, []any{third.Token, terms(third), "try", "p" + p.channels}},
		{renewScript, []any{first.Token, terms(first), ""}},
		{releaseScript, []any{first.Token, p.channels, ""}},
	} {
		if err := client.Eval(t.Context(), without+ask.script.text, keys[:], ask.args...).Err(); err != nil {
			t.Errorf("%v: %v", ask.args, err)
		}
	}
	if ttl := client.PTTL(t.Context(), keys[0]).Val(); ttl == -1 {
		t.Error("the lock has no TTL")
	}
}
