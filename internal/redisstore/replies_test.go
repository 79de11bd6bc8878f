package redisstore

import (
	"errors"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/kit/internal/redisstore/wire"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestAnswersAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		reply any
		want  store.Answer
	}{
		"granted":     {[]any{int64(1), "1763726400123457", "1763726400123458"}, store.Answer{Granted: true, Grant: store.Grant{Fence: 1763726400123457, Clock: 1763726400123458}}},
		"at once":     {"1763726400123457", store.Answer{Granted: true, Grant: store.Grant{Fence: 1763726400123457, Clock: 1763726400123457}}},
		"siblings":    {[]any{int64(1), "5", "7", "p.t p.u"}, store.Answer{Granted: true, Grant: store.Grant{Fence: 5, Clock: 7}, Siblings: "p.t p.u"}},
		"others wait": {[]any{int64(1), "5", "7", "", "3"}, store.Answer{Granted: true, Grant: store.Grant{Fence: 5, Clock: 7, NextCame: 3}}},
		"by one key":  {[]any{int64(1), "5", "7", "", "0", int64(1)}, store.Answer{Granted: true, Grant: store.Grant{Fence: 5, Clock: 7, Unqueued: true}}},
		"the highest": {[]any{int64(1), "9223372036854775807", "0"}, store.Answer{Granted: true, Grant: store.Grant{Fence: math.MaxInt64}}},
		"not granted": {[]any{int64(0), int64(1500), "7", "", int64(0)}, store.Answer{Grant: store.Grant{Clock: 7}, Left: 1500 * time.Millisecond}},
		"a sibling":   {[]any{int64(0), int64(1), "7", "p.t", int64(0)}, store.Answer{Grant: store.Grant{Clock: 7}, Left: time.Millisecond, Siblings: "p.t"}},
		"fresh":       {[]any{int64(0), int64(1), "7", "", int64(1)}, store.Answer{Grant: store.Grant{Clock: 7}, Left: time.Millisecond, Fresh: true}},
		"a holder": {[]any{int64(0), int64(1500), "1000007", "", int64(0), "p-0123456789:7", int64(3), int64(0)}, store.Answer{
			Left: 1500 * time.Millisecond, Grant: store.Grant{Clock: 1000007}, Waiting: 3, HolderFence: 7,
			Holder: store.Holder{Instance: "p-0123456789", Age: time.Second, Left: 1500 * time.Millisecond},
		}},
		"a holder with a note": {[]any{int64(0), int64(1500), "1000007", "", int64(0), "p-0123456789:7:id%2E1", int64(3), int64(0)}, store.Answer{
			Left: 1500 * time.Millisecond, Grant: store.Grant{Clock: 1000007}, Waiting: 3, HolderFence: 7,
			Holder: store.Holder{Instance: "p-0123456789", Note: "id.1", Age: time.Second, Left: 1500 * time.Millisecond},
		}},
		"several holders": {[]any{int64(0), int64(1500), "7", "", int64(0), "", int64(3), int64(0)}, store.Answer{Grant: store.Grant{Clock: 7}, Left: 1500 * time.Millisecond, Waiting: 3}},
		"cooling down":    {[]any{int64(0), int64(1500), "7", "", int64(0), "", int64(3), int64(1)}, store.Answer{Grant: store.Grant{Clock: 7}, Left: 1500 * time.Millisecond, Waiting: 3, CoolingDown: true}},
		"without TTL":     {[]any{int64(0), int64(-1), "7", "", int64(0)}, store.Answer{Grant: store.Grant{Clock: 7}}},
		"just expired":    {[]any{int64(0), int64(-2), "7", "", int64(0)}, store.Answer{Grant: store.Grant{Clock: 7}}},
	} {
		if got, err := readAnswer(c.reply); got != c.want || err != nil {
			t.Errorf("%s: answer = %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestRepliesToAllAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		reply any
		want  []int64
	}{
		"none":    {[]any{int64(0)}, nil},
		"granted": {[]any{int64(1), "7", "5", "6"}, []int64{5, 6}},
	} {
		if got, err := readFences(c.reply, 2); !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) || err != nil {
			t.Errorf("%s: fences = %v, %v, want %v", name, got, err, c.want)
		}
	}
}

func TestRepliesToRenewalsAreRead(t *testing.T) {
	for reply, want := range map[any]bool{int64(1): true, int64(0): false} {
		if held, err := readRenewed(reply); held != want || err != nil {
			t.Errorf("renewed(%v) = %v, %v, want %v", reply, held, err, want)
		}
	}
}

func TestRepliesToReleasesAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		reply    any
		did      store.Released
		messages []any
	}{
		"not held":              {int64(0), store.NotHeld, nil},
		"freed":                 {int64(1), store.Freed, nil},
		"handed over":           {int64(2), store.HandedOver, nil},
		"with messages":         {[]any{int64(2), "a", "b"}, store.HandedOver, []any{"a", "b"}},
		"not held, and handled": {[]any{int64(0), "a"}, store.NotHeld, []any{"a"}},
	} {
		if did, messages, err := readReleased(c.reply); did != c.did || !slices.Equal(messages, c.messages) || err != nil {
			t.Errorf("%s: released = %v, %v, %v, want %v, %v", name, did, messages, err, c.did, c.messages)
		}
	}
}

func TestInfoIsRead(t *testing.T) {
	const now, token = 10_000_000, "p-0123456789.01234567-89ab-cdef-0123-456789abcdef"
	one := func(h store.Holder) []store.Holder { return []store.Holder{h} }
	for name, c := range map[string]struct {
		reply []any
		want  store.Info
	}{
		"free":           {[]any{"", int64(-2), "10000000", int64(0), []any{}, []any{}, []any{}, "", int64(0)}, store.Info{}},
		"a mutex":        {[]any{token + ":9000000", int64(1500), "10000000", int64(2), []any{}, []any{}, []any{}, "", int64(0)}, store.Info{Waiting: 2, Holders: one(store.Holder{Instance: "p-0123456789", Age: time.Second, Left: 1500 * time.Millisecond})}},
		"taken by SET":   {[]any{token + ":~9000000", int64(1500), "10000000", int64(0), []any{}, []any{}, []any{}, "", int64(0)}, store.Info{Holders: one(store.Holder{Instance: "p-0123456789", Age: time.Second, Left: 1500 * time.Millisecond})}},
		"with a note":    {[]any{token + ".id%2E1:!9000000", int64(-1), "10000000", int64(0), []any{}, []any{}, []any{}, "", int64(0)}, store.Info{Holders: one(store.Holder{Instance: "p-0123456789", Note: "id.1", Age: time.Second, Left: -time.Millisecond})}},
		"another's data": {[]any{"1", int64(5), "10000000", int64(0), []any{}, []any{}, []any{}, "", int64(0)}, store.Info{Holders: one(store.Holder{Left: 5 * time.Millisecond})}},
		"readers": {[]any{"*shared", int64(5), "10000000", int64(0), []any{}, []any{token, "12000000", "=" + token, "-9000000", "p.over", "9999999"}, []any{}, "", int64(0)},
			store.Info{Kind: store.Kind{Shared: true}, Holders: one(store.Holder{Instance: "p-0123456789", Age: time.Second, Left: 2 * time.Second})}},
		"permits":           {[]any{"*permits 5 11000000 3 11000000 2 9000000", int64(5), "10000000", int64(0), []any{}, []any{}, []any{}, "", int64(0)}, store.Info{Kind: store.Kind{Permits: 3}}},
		"waiting elsewhere": {[]any{"", int64(-2), "10000000", int64(1), []any{}, []any{}, []any{"p", "11000000v5", "q", "11000000u2", "r", "9000000p4", "s", "odd"}, "", int64(0)}, store.Info{Waiting: 3}},
		"those in line": {
			[]any{"", int64(-2), "10000000", int64(7), []any{
				token + ".n%2E1:1000", "9000000", token + ":1000:s:0", "8.5e+06", token + ":1000:p3:5", "inf", token + ":1000::5", "-inf",
				token + ":1000:p0:0", "1", token + ":1000:x", "1", "junk", "1", "Q.x:1000", "1",
			}, []any{}, []any{}, "", int64(0)},
			store.Info{Waiting: 7, Queue: []store.Queued{
				{Instance: "p-0123456789", Note: "n.1", Waited: time.Second},
				{Instance: "p-0123456789", Kind: store.Kind{Shared: true}, Waited: 1500 * time.Millisecond},
				{Instance: "p-0123456789", Kind: store.Kind{Permits: 3}}, {Instance: "p-0123456789"},
			}},
		},
		"an answer": {
			[]any{"", int64(-2), "10000000", int64(0), []any{}, []any{}, []any{}, "9000000 12000000 ", int64(98)},
			store.Info{Answer: &store.Kept{Since: 9_000_000, Until: 12_000_000, Bytes: 98}},
		},
		"noted work": {
			[]any{"", int64(-2), "10000000", int64(0), []any{}, []any{}, []any{}, "begun 7 9000000", int64(80)},
			store.Info{Answer: &store.Kept{Work: 7, Since: 9_000_000}},
		},
		"other data": {[]any{"", int64(-2), "10000000", int64(0), []any{}, []any{}, []any{}, "begun of old", int64(12)}, store.Info{}},
	} {
		if got, err := readInfo("p", c.reply); !reflect.DeepEqual(got, c.want) || err != nil {
			t.Errorf("%s at %d: info = %+v, %v, want %+v", name, now, got, err, c.want)
		}
	}
}

func TestRepliesToChecksAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		reply any
		want  suitability
	}{
		"well":      {[]any{int64(0), int64(0), "", ""}, suitability{}},
		"old":       {[]any{int64(1), int64(0), "", ""}, suitability{tooOld: true}},
		"a node":    {[]any{int64(0), int64(1), "", ""}, suitability{clusterNode: true}},
		"forbidden": {[]any{int64(0), int64(0), "SET GET", ""}, suitability{forbidden: []string{"SET", "GET"}}},
		"unknown":   {[]any{int64(0), int64(0), "", "ZADD"}, suitability{unknown: []string{"ZADD"}}},
	} {
		got, ok := readSuitability(c.reply)
		if got.tooOld != c.want.tooOld || got.clusterNode != c.want.clusterNode || !slices.Equal(got.forbidden, c.want.forbidden) || !slices.Equal(got.unknown, c.want.unknown) || !ok {
			t.Errorf("%s: %+v, %v, want %+v", name, got, ok, c.want)
		}
	}
	forbidden, unknown, ok := readRights([]any{[]any{int64(1), int64(3)}, []any{int64(2), int64(0), int64(4), "1"}}, 3)
	if !slices.Equal(forbidden, []int{0, 2}) || !slices.Equal(unknown, []int{1}) || !ok {
		t.Errorf("rights = %v, %v, %v, want [0 2] and [1]", forbidden, unknown, ok)
	}
	const info = "# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
	if policy, none := infoField(info, "maxmemory_policy"), infoField(info, "run_id"); policy != "noeviction" || none != "" {
		t.Errorf("fields of INFO = %q and %q, want noeviction and nothing", policy, none)
	}
}

// The four plain commands are SET, EXISTS, TIME and GET: see set.go.
func TestRepliesToSetAreRead(t *testing.T) {
	const token, estimate = "p.t", int64(1_000_000_000_007)
	const clock = estimate + 500_000
	const took, time, own = "+OK\r\n:0\r\n", "*2\r\n$7\r\n1000000\r\n$6\r\n500007\r\n", "$18\r\np.t:~1000000000007\r\n"
	for name, c := range map[string]struct {
		replies string
		clock   int64
		at      progress
		err     string
	}{
		"taken by another":    {"$-1\r\n:0\r\n" + time + own, 0, notTaken, ""},
		"ours":                {took + time + own, clock, decided, ""},
		"somebody waits":      {"+OK\r\n:1\r\n" + time + own, 0, takenInDoubt, ""},
		"marked by a waiter":  {took + time + "$18\r\np.t:!1000000000007\r\n", clock, takenInDoubt, ""},
		"given to another":    {took + time + "$4\r\nq.u:\r\n", clock, takenInDoubt, ""},
		"gone":                {took + time + "$-1\r\n", clock, takenInDoubt, ""},
		"the clock is off":    {took + "*2\r\n$7\r\n1000002\r\n$1\r\n0\r\n" + own, 1_000_002_000_000, takenInDoubt, ""},
		"SET refused":         {"-OOM no\r\n:0\r\n" + time + own, 0, notTaken, "OOM no"},
		"EXISTS refused":      {"+OK\r\n-NOPERM no\r\n" + time + own, 0, takenInDoubt, "NOPERM no"},
		"GET refused":         {took + time + "-MOVED 1 a\r\n", clock, takenInDoubt, "MOVED 1 a"},
		"no time":             {took + "*2\r\n:1\r\n:2\r\n" + own, 0, takenInDoubt, errReply.Error()},
		"time that is text":   {took + "*2\r\n$1\r\nx\r\n$1\r\n1\r\n" + own, 0, takenInDoubt, errReply.Error()},
		"something else":      {"+OK\r\n?\r\n", 0, takenInDoubt, wire.ErrProtocol.Error()},
		"cut off after a bit": {took + time + "$19\r\np.t", clock, takenInDoubt, wire.ErrProtocol.Error()},
	} {
		clock, at, err := readSet([]byte(c.replies), token, estimate)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if clock != c.clock || at != c.at || text != c.err {
			t.Errorf("%s: set = %v, %v, %v, want %v, %v, %q", name, clock, at, err, c.clock, c.at, c.err)
		}
	}
}

func TestMessagesAreRead(t *testing.T) {
	want := store.News{Ref: store.Ref{Key: "a key", Token: "p.t", TTL: 2 * time.Second}, Grant: store.Grant{Fence: 5, Clock: 7, NextCame: 3}}
	if got, ok := readGrant("kit", "p.t 5 7 2000 3 kit:{a key}"); got != want || !ok {
		t.Errorf("grant = %+v, %v, want %+v", got, ok, want)
	}
	for _, message := range []string{
		"", "p.t", "p.t 5 7 2000 3", "p.t x 7 2000 3 kit:{k}", "p.t 5 x 2000 3 kit:{k}", "p.t 5 7 x 3 kit:{k}", "p.t 5 7 2000 x kit:{k}",
		"p.t 5 7 2000 3 other:{k}", "p.t 5 7 2000 3 kit:{k", "p.t 5 7 2000 kit:{k}",
	} {
		if got, ok := readGrant("kit", message); ok {
			t.Errorf("grant(%q) = %+v, want none", message, got)
		}
	}
	if key, token, arrival, ok := readOthersWait("kit", "9 p.t kit:{a key}"); key != "a key" || token != "p.t" || arrival != 9 || !ok {
		t.Errorf("contended = %q, %q, %d, %v, want a key, p.t and 9", key, token, arrival, ok)
	}
	for _, rest := range []string{"", "9", "9 p.t", "x p.t kit:{k}", "9 p.t other:{k}", "p.t kit:{k}"} {
		if _, _, _, ok := readOthersWait("kit", rest); ok {
			t.Errorf("contended(%q) was read, want nothing", rest)
		}
	}
	if key, token, ok := readRevoked("kit", "p.t kit:{a key}"); key != "a key" || token != "p.t" || !ok {
		t.Errorf("revoked = %q, %q, %v, want a key and p.t", key, token, ok)
	}
	for _, rest := range []string{"", "p.t", "p.t other:{k}", "p.t kit:{k"} {
		if _, _, ok := readRevoked("kit", rest); ok {
			t.Errorf("revoked(%q) was read, want nothing", rest)
		}
	}
}

// A reader gets each of its replies with one value after the other replaced by one of another type, and cut off behind each:
// all that is an error, but for the lengths that a reply may have.
func TestMalformedRepliesAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		read    func(reply any) error
		reply   []any
		lengths []int // that it may have as well
		loose   []int // values that may be anything
	}{
		"acquire, granted":     {func(reply any) error { _, err := readAnswer(reply); return err }, []any{int64(1), "5", "7", "p.t", "3"}, []int{3, 4}, nil},
		"acquire, not granted": {func(reply any) error { _, err := readAnswer(reply); return err }, []any{int64(0), int64(1), "7", "p.t", int64(1), "p:5", int64(1), int64(0)}, []int{5}, nil},
		"all":                  {func(reply any) error { _, err := readFences(reply, 2); return err }, []any{int64(1), "7", "5", "6"}, nil, []int{1}},
		"release":              {func(reply any) error { _, _, err := readReleased(reply); return err }, []any{int64(2), "a", "b"}, []int{2}, nil},
		"releaseto":            {func(reply any) error { _, _, _, err := readReleasedTo(reply); return err }, []any{int64(2), "5", "7", "3", "a"}, []int{4}, nil},
		"note":                 {func(reply any) error { _, err := readBeside(reply); return err }, []any{"5", int64(1), int64(0)}, nil, nil},
		"inspect":              {func(reply any) error { _, err := readInfo("p", reply); return err }, []any{"p.t:5", int64(1), "7", int64(0), []any{}, []any{}, []any{}, "5 6 ", int64(9)}, nil, nil},
	} {
		if err := c.read(c.reply); err != nil {
			t.Errorf("%s: %v of a well-formed reply", name, err)
		}
		for i := range c.reply {
			if err := c.read(c.reply[:i]); !isMalformed(err) && !slices.Contains(c.lengths, i) {
				t.Errorf("%s, cut to %d: %v, want an ambiguous error", name, i, err)
			}
			for _, odd := range []any{nil, 1.5, true, []any{int64(1)}, errors.New("odd"), int64(3), "x y"} {
				reply := slices.Clone(c.reply)
				if reflect.TypeOf(odd) == reflect.TypeOf(reply[i]) || slices.Contains(c.loose, i) {
					continue
				}
				reply[i] = odd
				if err := c.read(reply); !isMalformed(err) {
					t.Errorf("%s, with %#v at %d: %v, want an ambiguous error", name, odd, i, err)
				}
			}
		}
	}
	if fences, err := readFences([]any{int64(1), "7", "5", "6", "8"}, 2); !isMalformed(err) {
		t.Errorf("fences of three locks = %v, %v, want an ambiguous error where two were asked for", fences, err)
	}
	for _, reply := range []any{nil, "1", true, 1.5, []any{int64(1)}} {
		if held, err := readRenewed(reply); held || !isMalformed(err) {
			t.Errorf("renewed(%#v) = %v, %v, want an ambiguous error", reply, held, err)
		}
		if found, ok := readSuitability(reply); ok {
			t.Errorf("suitability(%#v) = %+v, want none", reply, found)
		}
		if forbidden, unknown, ok := readRights(reply, 1); ok {
			t.Errorf("rights(%#v) = %v, %v, want none", reply, forbidden, unknown)
		}
	}
}

func isMalformed(err error) bool {
	e := (*store.Error)(nil)
	return errors.As(err, &e) && errors.Is(e.Err, errReply) && e.Ambiguous && !e.Permanent
}

// strange are replies that no version of the scripts gives.
var strange = []any{
	nil, "", "OK", int64(0), int64(1), 1.5, true, math.NaN(), big.NewInt(1), errors.New("odd"), map[any]any{"a": int64(1)},
	[]any{}, []any{int64(1)}, []any{int64(1), "1"}, []any{nil, nil, nil}, []any{int64(1), nil, nil}, []any{int64(1), int64(1), int64(1)},
	[]any{int64(1), "x", "1"}, []any{int64(1), "1", "x"}, []any{int64(1), "1.5", "1"}, []any{int64(1), "1e15", "1"},
	[]any{int64(1), "9223372036854775808", "1"}, []any{"1", "1", "1"}, []any{true, "1", "1"}, []any{1.0, "1", "1"},
	[]any{int64(0), int64(1), "1"}, []any{int64(0), int64(1), "1", ""}, []any{int64(0), "1", "1", "", int64(0)},
	[]any{int64(0), int64(1), "1", "", int64(0), "p:1"}, []any{int64(0), int64(1), "1", "", int64(0), "p", int64(0)},
	[]any{int64(0), int64(1), "1", "", int64(0), ":1", int64(0)}, []any{int64(0), int64(1), "1", "", int64(0), nil, int64(0)},
	[]any{int64(0), int64(1), "1", "", int64(0), "p:x", int64(0)}, []any{int64(0), int64(1), "1", "", int64(0), "p:1", "0"},
	[]any{int64(0), int64(1), int64(1), "", int64(0)}, []any{int64(0), int64(1), "1", nil, int64(0)}, []any{int64(0), int64(1), "1", "", nil},
	[]any{int64(0), int64(1), "1", "", "1"}, []any{nil, int64(1), "1", "", int64(0)}, []any{[]any{int64(1), "1", "1"}}, []int64{1, 1, 1},
}

func TestStrangeRepliesAreNotRead(t *testing.T) {
	for _, reply := range strange {
		if a, err := readAnswer(reply); a != (store.Answer{}) || !isMalformed(err) {
			t.Errorf("answer(%#v) = %+v, %v, want an ambiguous error alone", reply, a, err)
		}
		if did, a, messages, err := readReleasedTo(reply); did != store.NotHeld || a != (store.Answer{}) || messages != nil || !isMalformed(err) {
			t.Errorf("releasedTo(%#v) = %v, %+v, %v, %v, want an ambiguous error alone", reply, did, a, messages, err)
		}
	}
}

// strangeHandOvers are what releaseto.lua does not say either, on the wire: a wrong
// type or number at each place in turn.
var strangeHandOvers = []string{
	"*4\r\n:3\r\n$0\r\n\r\n$1\r\n7\r\n$1\r\n0\r\n", "*4\r\n:-1\r\n$0\r\n\r\n$1\r\n7\r\n$1\r\n0\r\n", "*4\r\n$1\r\n2\r\n$0\r\n\r\n$1\r\n7\r\n$1\r\n0\r\n",
	"*4\r\n:2\r\n:5\r\n$1\r\n7\r\n$1\r\n0\r\n", "*4\r\n:2\r\n$-1\r\n$1\r\n7\r\n$1\r\n0\r\n", "*4\r\n:2\r\n$1\r\nx\r\n$1\r\n7\r\n$1\r\n0\r\n",
	"*4\r\n:2\r\n$0\r\n\r\n:7\r\n$1\r\n0\r\n", "*4\r\n:2\r\n$1\r\n5\r\n$0\r\n\r\n$1\r\n0\r\n", "*4\r\n:2\r\n$1\r\n5\r\n$1\r\nx\r\n$1\r\n0\r\n",
	"*4\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n:1\r\n", "*4\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n$1\r\nx\r\n", "*4\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n$-1\r\n",
	"*5\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n$1\r\n0\r\n:1\r\n", "*5\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n$1\r\n0\r\n$-1\r\n",
	"*3\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n", "*2\r\n:2\r\n$0\r\n\r\n",
}

func TestStrangeHandOversAreErrors(t *testing.T) {
	mini := redistest.Embedded(t)
	p := open(t, mini.Client(t), "kit")
	held := p.take()
	for _, reply := range strangeHandOvers {
		mini.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if !strings.HasPrefix(cmd, "EVAL") {
				return false
			}
			c.WriteRaw(reply)
			return true
		})
		did, a, err := p.releaseTo(t.Context(), held, p.ref(time.Minute), store.Place{})
		if e := (*store.Error)(nil); !errors.As(err, &e) || !e.Ambiguous || e.Permanent {
			t.Errorf("Release to the next answered with %q = %v, want an ambiguous error", reply, err)
		}
		if did != store.NotHeld || a != (store.Answer{}) {
			t.Errorf("Release to the next answered with %q = %v, %+v, want nothing", reply, did, a)
		}
	}
	mini.Server().SetPreHook(nil)
	p.release(held, false, store.Freed)
}

func TestRepliesToHandOversAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		reply    any
		did      store.Released
		want     store.Answer
		messages []any
	}{
		"at once":        {"1763726400123457", store.HandedOver, store.Answer{Granted: true, Grant: store.Grant{Fence: 1763726400123457, Clock: 1763726400123457}}, nil},
		"granted":        {[]any{int64(2), "9", "7", "4"}, store.HandedOver, store.Answer{Granted: true, Grant: store.Grant{Fence: 9, Clock: 7, NextCame: 4}}, nil},
		"not granted":    {[]any{int64(2), "", "7", "0"}, store.HandedOver, store.Answer{Grant: store.Grant{Clock: 7}}, nil},
		"freed":          {[]any{int64(1), "", "7", "0"}, store.Freed, store.Answer{Grant: store.Grant{Clock: 7}}, nil},
		"not held":       {[]any{int64(0), "", "7", "0"}, store.NotHeld, store.Answer{Grant: store.Grant{Clock: 7}}, nil},
		"granted before": {[]any{int64(0), "5", "7", "0"}, store.NotHeld, store.Answer{Granted: true, Grant: store.Grant{Fence: 5, Clock: 7}}, nil},
		"with messages":  {[]any{int64(2), "", "7", "0", "a", "b"}, store.HandedOver, store.Answer{Grant: store.Grant{Clock: 7}}, []any{"a", "b"}},
	} {
		did, a, messages, err := readReleasedTo(c.reply)
		if did != c.did || a != c.want || !slices.Equal(messages, c.messages) || err != nil {
			t.Errorf("%s: releasedTo = %v, %+v, %v, %v, want %v, %+v, %v", name, did, a, messages, err, c.did, c.want, c.messages)
		}
	}
}

// The messages in the reply to a release reach the listener, as those of the channel do.
func TestMessagesInRepliesAreHeard(t *testing.T) {
	m := &member{}
	s := &Store{ns: "kit"}
	var l store.Listener = m
	s.listener.Store(&l)
	s.tellAll([]any{"p.t 5 7 2000 3 kit:{k}", "p.u 6 8 1000 0 kit:{k}"})
	want := []store.News{
		{Ref: store.Ref{Key: "k", Token: "p.t", TTL: 2 * time.Second}, Grant: store.Grant{Fence: 5, Clock: 7, NextCame: 3}},
		{Ref: store.Ref{Key: "k", Token: "p.u", TTL: time.Second}, Grant: store.Grant{Fence: 6, Clock: 8}},
	}
	if !slices.Equal(m.heard, want) {
		t.Errorf("heard %+v, want %+v", m.heard, want)
	}
}

// The same through the client, in the types of the protocol.
func TestStrangeRepliesAreErrors(t *testing.T) {
	mini := redistest.Embedded(t)
	p := open(t, mini.Client(t), "kit")
	p.scripted = true
	p.release(p.take(), false, store.Freed)
	for name, write := range map[string]func(c *server.Peer){
		"a null":           (*server.Peer).WriteNull,
		"a status":         func(c *server.Peer) { c.WriteInline("OK") },
		"a string":         func(c *server.Peer) { c.WriteBulk("one") },
		"an empty string":  func(c *server.Peer) { c.WriteBulk("") },
		"a number":         func(c *server.Peer) { c.WriteInt(3) },
		"a negative":       func(c *server.Peer) { c.WriteInt(-1) },
		"a float":          func(c *server.Peer) { c.WriteRaw(",1.5\r\n") },
		"a boolean":        func(c *server.Peer) { c.WriteRaw("#t\r\n") },
		"a big number":     func(c *server.Peer) { c.WriteRaw("(12345678901234567890123\r\n") },
		"a verbatim":       func(c *server.Peer) { c.WriteRaw("=6\r\ntxt:ok\r\n") },
		"a map":            func(c *server.Peer) { c.WriteRaw("%1\r\n+a\r\n:1\r\n") },
		"a set":            func(c *server.Peer) { c.WriteRaw("~2\r\n:1\r\n:2\r\n") },
		"an empty array":   func(c *server.Peer) { c.WriteLen(0) },
		"an array of null": func(c *server.Peer) { c.WriteLen(3); c.WriteNull(); c.WriteNull(); c.WriteNull() },
		"nested arrays":    func(c *server.Peer) { c.WriteLen(1); c.WriteLen(1); c.WriteLen(0) },
		"an odd error":     func(c *server.Peer) { c.WriteError("ODD thing") },
		"an empty error":   func(c *server.Peer) { c.WriteError("") },
	} {
		mini.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if !strings.HasPrefix(cmd, "EVAL") {
				return false
			}
			write(c)
			return true
		})
		for what, ask := range p.questions(p.ref(time.Minute)) {
			if what == "Renew" && (name == "a number" || name == "a negative") {
				continue // it reads any number but 1 as "not held"
			}
			err := ask()
			if e := (*store.Error)(nil); !errors.As(err, &e) {
				t.Errorf("%s answered with %s = %v, want a *store.Error", what, name, err)
			}
		}
	}
	mini.Server().SetPreHook(nil)
	p.release(p.take(), false, store.Freed)
}

// FuzzReplies has the readers of replies and of messages meet anything.
func FuzzReplies(f *testing.F) {
	const namespace = "kit"
	f.Add([]byte{7, 3, 1, 1, 2, 1, '1', 2, 1, '1'}, "p.t 1763726400123457 1763726400123458 2000 kit:{a name}")
	f.Add([]byte{7, 5, 1, 0, 1, 9, 2, 1, '7', 2, 0, 1, 1}, "p.t 1 2 3 kit:{}")
	f.Add([]byte{}, "")
	f.Add([]byte{7, 255, 7, 255, 7}, "    ")
	f.Fuzz(func(t *testing.T, data []byte, message string) {
		reply, _ := value(data, 4)
		switch a, err := readAnswer(reply); {
		case err != nil && a != (store.Answer{}):
			t.Errorf("answer(%#v) = %+v and %v, want one of them", reply, a, err)
		case err != nil:
		case a.Granted && (a.Left != 0 || a.Fresh):
			t.Errorf("answer(%#v) = %+v, want a grant alone", reply, a)
		case !a.Granted && a.Fence != 0, a.Left < 0:
			t.Errorf("answer(%#v) = %+v, want what a refusal has", reply, a)
		}
		if did, a, _, err := readReleasedTo(reply); err == nil && !a.Granted && a.Fence != 0 || did > store.HandedOver {
			t.Errorf("releasedTo(%#v) = %v, %+v, want a fence with a grant alone", reply, did, a)
		}
		_, _, _ = readReleased(reply)
		_, _ = readFences(reply, 2)
		_, _ = readInfo("p", reply)
		_, _ = readSuitability(reply)
		_, _, _ = readRights(reply, 2)
		_, _, _ = readSet(data, "p.t", 1)
		if g, ok := readGrant(namespace, message); ok {
			lock := (&Store{ns: namespace}).keys(g.Ref.Key)[0]
			if !strings.HasSuffix(message, " "+lock) || !strings.HasPrefix(message, g.Ref.Token+" ") {
				t.Errorf("grant(%q) = %+v, want what it says", message, g)
			}
		}
	})
}

// value makes a reply out of bytes: a type, then what that type needs. It
// returns the bytes that are left.
func value(data []byte, depth int) (any, []byte) {
	if len(data) < 2 || depth == 0 {
		return nil, nil
	}
	kind, n, rest := data[0]%10, int(data[1]), data[2:]
	switch kind {
	case 1:
		return int64(int8(n)), rest
	case 2:
		n = min(n, len(rest))
		return string(rest[:n]), rest[n:]
	case 3:
		return float64(n) / 3, rest
	case 4:
		return n%2 == 0, rest
	case 5:
		return big.NewInt(int64(n)), rest
	case 6:
		return errors.New("odd"), rest
	case 7:
		list := make([]any, 0, n%8)
		for range n % 8 {
			var v any
			v, rest = value(rest, depth-1)
			list = append(list, v)
		}
		return list, rest
	case 8:
		v, rest := value(rest, depth-1)
		return map[any]any{"k": v}, rest
	}
	return nil, rest
}
