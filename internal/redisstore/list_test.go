package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/kit/internal/test/redistest"
	"github.com/lockmw/kit/internal/test/slow"
)

// intent is what recall.lua writes of work that was begun.
const intent = "begun 7 1700000000000000 f 1000000 1 json "

// begun returns the names that Begun yields.
func (p *probe) begun() (names []string) {
	p.Helper()
	if err := p.Begun(p.Context(), "", func(some []string) bool {
		names = append(names, some...)
		return true
	}); err != nil {
		p.Errorf("Begun = %v after %q", err, names)
	}
	slices.Sort(names)
	return names
}

// Other data where a record would lie are no work, and hide none.
func TestOtherDataAreNoWork(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		client, ns := s.Client(t), redistest.Prefix(t)
		p := open(t, client, ns)
		for name, data := range map[string]string{
			"work": intent, "answer": "1700000000000000 1700000000000000 f 1 json \nbegun 7 7", "text": "begun by hand", "begun": "begun", "none": "",
		} {
			do(t, client, "SET", ns+":{"+name+"}:answer", data)
		}
		do(t, client, "RPUSH", ns+":{list}:answer", intent)
		do(t, client, "SET", ns+":{}:answer", intent) // without a hash tag
		do(t, client, "SET", ns+"x:{other}:answer", intent)
		if got := p.begun(); !slices.Equal(got, []string{"work"}) {
			t.Errorf("work was begun for %q, want work alone", got)
		}
		// What SCAN has named may be gone, or another's, when it is looked at.
		if got, err := p.kept(t.Context(), client, []string{"gone", "list", "work"}); err != nil || !slices.Equal(got, []int64{0, 0, -1}) {
			t.Errorf("kept = %v, %v, want 0, 0, -1", got, err)
		}
	})
}

// Bytes that are no text are what they are, also in a prefix, for which the embedded Redis makes a regular expression.
func TestWorkUnderAKeyThatIsNoText(t *testing.T) {
	client, ns := redistest.Shared(t).Client(t), redistest.Prefix(t)
	p := open(t, client, ns)
	for _, name := range []string{"\xff\xfe", "\xfe", "a"} {
		do(t, client, "SET", ns+":{"+name+"}:answer", intent)
	}
	var got []string
	if err := p.Begun(t.Context(), "\xff", func(names []string) bool {
		got = append(got, names...)
		return true
	}); err != nil || !slices.Equal(got, []string{"\xff\xfe"}) {
		t.Errorf("work was begun for %q, %v", got, err)
	}
}

// A script that the server forgets in the middle of a list is no error: whoever looks at each lock finds out.
func TestAServerThatForgetsTheScriptHidesNoWork(t *testing.T) {
	m := redistest.Embedded(t)
	client, ns := m.Client(t), redistest.Prefix(t)
	p := open(t, client, ns)
	for _, name := range []string{"a", "b", "c"} {
		do(t, client, "SET", ns+":{"+name+"}:answer", intent)
	}
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd != "EVALSHA" {
			return false
		}
		c.WriteError("NOSCRIPT No matching script. Please use EVAL.")
		return true
	})
	if got := p.begun(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("work was begun for %q, want a, b, c", got)
	}
}

// A server that refuses for good, or breaks off, is an error.
func TestAServerThatTellsNothingIsAnErrorOfAList(t *testing.T) {
	for name, refuses := range map[string]func(*server.Peer){
		"no permission": func(c *server.Peer) { c.WriteError("NOPERM this user has no permissions to run the 'eval' command") },
		"it hangs up":   func(c *server.Peer) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			m := redistest.Embedded(t)
			client, ns := m.Client(t), redistest.Prefix(t)
			p := open(t, client, ns)
			p.take()
			do(t, client, "SET", ns+":{a}:answer", intent)
			m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
				if cmd != "EVAL" {
					return false
				}
				refuses(c)
				return true
			})
			if err := p.Begun(t.Context(), "", func(names []string) bool { t.Errorf("told of %q", names); return true }); err == nil {
				t.Error("Begun = nil, want an error")
			}
		})
	}
}

// While a Cluster moves a slot, work whose record is where commands do not go yet is listed, so that it is looked at.
func TestWorkInASlotThatMovesIsListed(t *testing.T) {
	slow.Test(t)
	t.Parallel()
	shards := redistest.Cluster(t)
	client, ns := shards.Client(t), redistest.Prefix(t)
	p := open(t, client, ns)
	key := ns + ":{k}:answer"
	if err := client.Set(t.Context(), key, intent, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	from, err := shards.Owner(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	to := shards.Other(from)
	host, port, _ := net.SplitHostPort(to.Addr())
	if err := shards.Move(t.Context(), key, to, func() {
		if got := p.begun(); !slices.Equal(got, []string{"k"}) {
			t.Errorf("before it moves: %q", got)
		}
		do(t, from.Client(t), "MIGRATE", host, port, key, 0, 5000)
		if got := p.begun(); !slices.Equal(got, []string{"k"}) {
			t.Errorf("after it has moved: %q", got)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got := p.begun(); !slices.Equal(got, []string{"k"}) {
		t.Errorf("at its new place: %q", got)
	}
}

func TestBegunEndsWithItsContext(t *testing.T) {
	p := open(t, redistest.Embedded(t).Client(t), "kit")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Begun(ctx, "", func([]string) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("Begun = %v, want that ctx has ended", err)
	}
}
