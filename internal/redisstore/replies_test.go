package redisstore

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/test/redistest"
)

func TestAnswersAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		reply any
		want  store.Answer
	}{
		"granted":     {[]any{int64(1), "1763726400123457", "1763726400123458"}, store.Answer{Granted: true, Fence: 1763726400123457, Server: 1763726400123458}},
		"the highest": {[]any{int64(1), "9223372036854775807", "0"}, store.Answer{Granted: true, Fence: math.MaxInt64}},
		"not granted": {[]any{int64(0), int64(1500), "7", "", int64(0)}, store.Answer{Left: 1500 * time.Millisecond, Server: 7}},
		"a sibling":   {[]any{int64(0), int64(1), "7", "p.t", int64(0)}, store.Answer{Left: time.Millisecond, Server: 7, Siblings: "p.t"}},
		"fresh":       {[]any{int64(0), int64(1), "7", "", int64(1)}, store.Answer{Left: time.Millisecond, Server: 7, Fresh: true}},
		"a holder": {[]any{int64(0), int64(1500), "1000007", "", int64(0), "p-0123456789:7", int64(3)}, store.Answer{
			Left: 1500 * time.Millisecond, Server: 1000007, Waiting: 3, HolderFence: 7,
			Holder: store.Holder{Instance: "p-0123456789", Age: time.Second, Left: 1500 * time.Millisecond},
		}},
		"several holders": {[]any{int64(0), int64(1500), "7", "", int64(0), "", int64(3)}, store.Answer{Left: 1500 * time.Millisecond, Server: 7, Waiting: 3}},
		"without TTL":     {[]any{int64(0), int64(-1), "7", "", int64(0)}, store.Answer{Server: 7}},
		"just expired":    {[]any{int64(0), int64(-2), "7", "", int64(0)}, store.Answer{Server: 7}},
	} {
		if got, err := answer(c.reply); got != c.want || err != nil {
			t.Errorf("%s: answer = %+v, %v, want %+v", name, got, err, c.want)
		}
	}
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

func TestStrangeAnswersAreErrors(t *testing.T) {
	for _, reply := range strange {
		a, err := answer(reply)
		if e := (*store.Error)(nil); !errors.As(err, &e) || !e.Ambiguous || e.Permanent {
			t.Errorf("answer(%#v) = %v, want an ambiguous error", reply, err)
		}
		if a != (store.Answer{}) {
			t.Errorf("answer(%#v) = %+v, want none", reply, a)
		}
	}
}

// strangePasses are what releaseto.lua does not say either, on the wire: a wrong
// type or number at each place in turn.
var strangePasses = []string{
	"*4\r\n:3\r\n$0\r\n\r\n$1\r\n7\r\n$1\r\n0\r\n", "*4\r\n:-1\r\n$0\r\n\r\n$1\r\n7\r\n$1\r\n0\r\n", "*4\r\n$1\r\n2\r\n$0\r\n\r\n$1\r\n7\r\n$1\r\n0\r\n",
	"*4\r\n:2\r\n:5\r\n$1\r\n7\r\n$1\r\n0\r\n", "*4\r\n:2\r\n$-1\r\n$1\r\n7\r\n$1\r\n0\r\n", "*4\r\n:2\r\n$1\r\nx\r\n$1\r\n7\r\n$1\r\n0\r\n",
	"*4\r\n:2\r\n$0\r\n\r\n:7\r\n$1\r\n0\r\n", "*4\r\n:2\r\n$1\r\n5\r\n$0\r\n\r\n$1\r\n0\r\n", "*4\r\n:2\r\n$1\r\n5\r\n$1\r\nx\r\n$1\r\n0\r\n",
	"*4\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n:1\r\n", "*4\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n$1\r\nx\r\n", "*4\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n$-1\r\n",
	"*5\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n$1\r\n0\r\n:1\r\n", "*5\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n$1\r\n0\r\n$-1\r\n",
	"*3\r\n:2\r\n$1\r\n5\r\n$1\r\n7\r\n", "*2\r\n:2\r\n$0\r\n\r\n",
}

func TestStrangePassesAreErrors(t *testing.T) {
	s := &Store{ns: "kit"}
	for _, reply := range strange {
		if did, a, ok := s.releasedTo(reply); ok {
			t.Errorf("releasedTo(%#v) = %v, %+v, want an error", reply, did, a)
		}
	}
	mini := redistest.Embedded(t)
	p := open(t, mini.Client(t), "kit")
	held := p.take()
	for _, reply := range strangePasses {
		mini.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if !strings.HasPrefix(cmd, "EVAL") {
				return false
			}
			c.WriteRaw(reply)
			return true
		})
		did, a, err := p.ReleaseTo(t.Context(), held, p.ref(time.Minute), store.Place{})
		if e := (*store.Error)(nil); !errors.As(err, &e) || !e.Ambiguous || e.Permanent {
			t.Errorf("ReleaseTo answered with %q = %v, want an ambiguous error", reply, err)
		}
		if did != store.NotHeld || a != (store.Answer{}) {
			t.Errorf("ReleaseTo answered with %q = %v, %+v, want nothing", reply, did, a)
		}
	}
	mini.Server().SetPreHook(nil)
	p.release(held, false, store.Freed)
}

func TestPassesAreRead(t *testing.T) {
	m := &member{}
	s := &Store{ns: "kit"}
	var l store.Listener = m
	s.listener.Store(&l)
	news := "p.t 5 7 2000 3 kit:{k}"
	grant := store.Grant{Ref: store.Ref{Key: "k", Token: "p.t", TTL: 2 * time.Second}, Fence: 5, Server: 7, Contended: 3}
	for name, c := range map[string]struct {
		reply any
		did   store.Released
		want  store.Answer
		told  []store.Grant
	}{
		"at once":        {"1763726400123457", store.HandedOver, store.Answer{Granted: true, Fence: 1763726400123457, Server: 1763726400123457}, nil},
		"granted":        {[]any{int64(2), "9", "7", "4"}, store.HandedOver, store.Answer{Granted: true, Fence: 9, Server: 7, Contended: 4}, nil},
		"not granted":    {[]any{int64(2), "", "7", "0"}, store.HandedOver, store.Answer{Server: 7}, nil},
		"freed":          {[]any{int64(1), "", "7", "0"}, store.Freed, store.Answer{Server: 7}, nil},
		"not held":       {[]any{int64(0), "", "7", "0"}, store.NotHeld, store.Answer{Server: 7}, nil},
		"granted before": {[]any{int64(0), "5", "7", "0"}, store.NotHeld, store.Answer{Granted: true, Fence: 5, Server: 7}, nil},
		"with news":      {[]any{int64(2), "", "7", "0", news, news}, store.HandedOver, store.Answer{Server: 7}, []store.Grant{grant, grant}},
	} {
		m.heard = nil
		did, a, ok := s.releasedTo(c.reply)
		if did != c.did || a != c.want || !ok {
			t.Errorf("%s: releasedTo = %v, %+v, %v, want %v, %+v", name, did, a, ok, c.did, c.want)
		}
		if !slices.Equal(m.heard, c.told) {
			t.Errorf("%s: told %+v, want %+v", name, m.heard, c.told)
		}
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
	s := &Store{ns: "kit"}
	f.Add([]byte{7, 3, 1, 1, 2, 1, '1', 2, 1, '1'}, "p.t 1763726400123457 1763726400123458 2000 kit:{a name}")
	f.Add([]byte{7, 5, 1, 0, 1, 9, 2, 1, '7', 2, 0, 1, 1}, "p.t 1 2 3 kit:{}")
	f.Add([]byte{}, "")
	f.Add([]byte{7, 255, 7, 255, 7}, "    ")
	f.Fuzz(func(t *testing.T, data []byte, news string) {
		reply, _ := value(data, 4)
		switch a, err := answer(reply); {
		case err != nil && a != (store.Answer{}):
			t.Errorf("answer(%#v) = %+v and %v, want one of them", reply, a, err)
		case err != nil:
		case a.Granted && (a.Left != 0 || a.Fresh):
			t.Errorf("answer(%#v) = %+v, want a grant alone", reply, a)
		case !a.Granted && a.Fence != 0, a.Left < 0:
			t.Errorf("answer(%#v) = %+v, want what a refusal has", reply, a)
		}
		if did, a, ok := s.releasedTo(reply); ok && !a.Granted && a.Fence != 0 || ok && did > store.HandedOver {
			t.Errorf("releasedTo(%#v) = %v, %+v, want a fence with a grant alone", reply, did, a)
		}
		if g, ok := s.grant(news); ok {
			lock := s.keys(g.Key)[0]
			if !strings.HasSuffix(news, " "+lock) || !strings.HasPrefix(news, g.Token+" ") {
				t.Errorf("grant(%q) = %+v, want what it says", news, g)
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
