package library

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/test/redistest"
)

func TestARecordedTurnIsAllThatIsSentForALock(t *testing.T) {
	const turns = 20
	for name, want := range map[string]struct {
		commands int64
		begin    string // of what is sent
		scripts  int
		received string // the beginning
	}{
		Ours:          {5, "*6\r\n$3\r\nSET\r\n", 1, "+OK\r\n:0\r\n*2\r\n$10\r\n"},
		OursByScripts: {2, "*12\r\n$7\r\nevalsha\r\n", 2, "$16\r\n"},
		Redislock:     {2, "*7\r\n$7\r\nevalsha\r\n", 2, "+OK\r\n:1\r\n"},
		Raw:           {2, "*6\r\n$3\r\nset\r\n", 1, "+OK\r\n:1\r\n"},
	} {
		t.Run(strings.ReplaceAll(name, ",", ""), func(t *testing.T) {
			recorded, err := Record(t.Context(), name, redistest.Real(t).Addr(), turns)
			if err != nil || len(recorded) != turns {
				t.Fatalf("%d turns, %v", len(recorded), err)
			}
			seen := make(map[string]bool)
			for _, turn := range recorded {
				scripts := bytes.Count(turn.Sent, []byte("\r\nevalsha\r\n"))
				if turn.Commands != want.commands || scripts != want.scripts || !bytes.HasPrefix(turn.Sent, []byte(want.begin)) {
					t.Fatalf("%d commands with %d scripts: %q", turn.Commands, scripts, turn.Sent)
				}
				if !bytes.HasPrefix(turn.Received, []byte(want.received)) || !bytes.HasSuffix(turn.Received, []byte("\r\n:1\r\n")) {
					t.Fatalf("received: %q", turn.Received)
				}
				seen[string(turn.Sent)] = true
			}
			if len(seen) != turns {
				t.Errorf("%d turns are %d different ones", turns, len(seen))
			}
		})
	}
}

func TestWhatElseIsSentMeanwhileIsNotRecorded(t *testing.T) {
	// turns are of so many commands behind the first ones, and then of the last number.
	turns := func(commands ...int64) func(int) (Turn, error) {
		return func(i int) (Turn, error) {
			if i < warmTurns {
				return Turn{Commands: 1}, nil
			}
			return Turn{Commands: commands[min(i-warmTurns, len(commands)-1)]}, nil
		}
	}
	for _, commands := range [][]int64{{4}, {5, 4}, {4, 4, 5, 4, 7, 4}} {
		got, err := alike(4, turns(commands...))
		if err != nil || len(got) != 4 {
			t.Errorf("%d: %v, %v", commands, got, err)
		}
		for _, turn := range got {
			if turn.Commands != 4 {
				t.Errorf("%d: a turn of %d commands", commands, turn.Commands)
			}
		}
	}
	if got, err := alike(4, turns(4, 5, 6, 7, 4, 5, 6, 8)); err == nil {
		t.Errorf("turns that are not alike were recorded: %v", got)
	}
}

// A busy machine has a library ask in another way, by as many commands.
func TestTurnsOfOtherRepliesAreNotAlike(t *testing.T) {
	const usual, other = "+OK\r\n:1\r\n$3\r\nabc\r\n", "*2\r\n:1\r\n$-1\r\n$3\r\nabc\r\n"
	replies := []string{other, usual, "+OK\r\n:1\r\n$4\r\n+1\r\n\r\n", other, usual}
	got, err := alike(3, func(i int) (Turn, error) {
		return Turn{Commands: 3, Received: []byte(replies[max(0, i-warmTurns)%len(replies)])}, nil
	})
	if err != nil || len(got) != 3 {
		t.Fatalf("%d turns, %v", len(got), err)
	}
	for _, turn := range got {
		if string(turn.Received) == other {
			t.Errorf("recorded: %q", turn.Received)
		}
	}
}

func TestWhatDoesNotLockCannotBeRecorded(t *testing.T) {
	if _, err := Record(t.Context(), "etcd", "127.0.0.1:1", 1); err == nil {
		t.Error("a library that does not exist was recorded")
	}
	server := redistest.Real(t)
	if err := server.Client(t).Set(t.Context(), "lock:{3}", "of somebody else", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := Record(t.Context(), OursByScripts, server.Addr(), 5); err == nil || !strings.Contains(err.Error(), "the lock is taken") {
		t.Errorf("a lock that was taken was recorded: %v", err)
	}
}

func TestTheMostConnectionsAtATimeAreCounted(t *testing.T) {
	addr := redistest.Real(t).Addr()
	var wire Wire
	open := func() func() {
		c, err := wire.dial(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return func() { c.Close() }
	}
	first, second := open(), open()
	first()
	first() // counts once
	third := open()
	if got := wire.Connections(); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
	fourth := open()
	if got := wire.Connections(); got != 3 {
		t.Errorf("%d connections, want 3", got)
	}
	second()
	third()
	fourth()
}
