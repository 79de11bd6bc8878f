package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// replies are all kinds of reply, and what they are read as.
var replies = []struct {
	bytes string
	value any
}{
	{"+OK\r\n", "OK"},
	{"+\r\n", ""},
	{"-ERR odd\r\n", Refusal("ERR odd")},
	{":17\r\n", int64(17)},
	{":-1\r\n", int64(-1)},
	{"$-1\r\n", nil},
	{"$0\r\n\r\n", ""},
	{"$6\r\na\r\n$1\r\r\n", "a\r\n$1\r"},
	{"*-1\r\n", nil},
	{"*0\r\n", []any{}},
	{"*2\r\n$1\r\na\r\n:7\r\n", []any{"a", int64(7)}},
	{"*3\r\n*1\r\n*0\r\n$-1\r\n*2\r\n-E\r\n+x\r\n", []any{[]any{[]any{}}, nil, []any{Refusal("E"), "x"}}},
}

func TestRepliesAreRead(t *testing.T) {
	for _, r := range replies {
		got, rest, err := Parse([]byte(r.bytes + "rest"))
		if !reflect.DeepEqual(got, r.value) || string(rest) != "rest" || err != nil {
			t.Errorf("Parse(%q) = %#v, %q, %v, want %#v", r.bytes, got, rest, err, r.value)
		}
	}
}

// Where a reply is cut does not matter.
func TestTheEndOfAReplyIsFoundFromAnyPart(t *testing.T) {
	all := ""
	for _, r := range replies {
		all += r.bytes
	}
	for cut := range len(all) {
		var c cutter
		begin, found := 0, 0
		for _, end := range []int{cut, len(all)} {
			for begin < end {
				n, err := c.next([]byte(all[begin:end]))
				if err != nil {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				if n == 0 {
					break
				}
				if got := all[begin : begin+n]; got != replies[found].bytes {
					t.Fatalf("cut at %d: %q, want %q", cut, got, replies[found].bytes)
				}
				begin += n
				found++
			}
		}
		if found != len(replies) {
			t.Errorf("cut at %d: %d replies, want %d", cut, found, len(replies))
		}
	}
}

func TestWhatIsNoReply(t *testing.T) {
	for _, bad := range []string{
		"\r\n", "OK\r\n", "+OK\n", "$\r\n", "$1.5\r\n", "$-2\r\n", "$536870913\r\n", "*-2\r\n", "*1048577\r\n", "$1\r\nab\r\n",
		"%1\r\n", "*1\r\n?\r\n", "+" + strings.Repeat("x", lineMost), strings.Repeat("*1048576\r\n", 2),
	} {
		var c cutter
		if n, err := c.next([]byte(bad)); err == nil {
			t.Errorf("%.20q: a reply of %d bytes, want an error", bad, n)
		}
	}
	for _, bad := range []string{"", "+O", "$3\r\nab", "*2\r\n:1\r\n", ":x\r\n", ":9223372036854775808\r\n", strings.Repeat("*1\r\n", 100) + ":1\r\n"} {
		if got, _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("Parse(%.20q) = %v, want an error", bad, got)
		}
	}
}

func TestCommandsAreWritten(t *testing.T) {
	got := string(AppendInt(AppendString(AppendString(AppendCommand([]byte("x"), 3), "GET"), ""), -12))
	if want := "x*3\r\n$3\r\nGET\r\n$0\r\n\r\n$3\r\n-12\r\n"; got != want {
		t.Errorf("command %q, want %q", got, want)
	}
}

// FuzzReplies has the reader of replies meet anything, in two pieces.
func FuzzReplies(f *testing.F) {
	for _, r := range replies {
		f.Add([]byte(r.bytes), len(r.bytes)/2)
	}
	f.Add([]byte("*2\r\n$3\r\nabc\r\n*1\r\n"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		if len(b) == 0 {
			return
		}
		cut = max(min(cut, len(b)), 0)
		var whole, parts cutter
		n, err := whole.next(b)
		m, before := parts.next(b[:cut])
		if m == 0 && before == nil {
			m, before = parts.next(b)
		}
		if n != m || (err == nil) != (before == nil) {
			t.Fatalf("%q: %d bytes, %v; in two pieces %d, %v", b, n, err, m, before)
		}
		if n == 0 {
			return
		}
		value, rest, err := Parse(b)
		if err == nil && !bytes.Equal(rest, b[n:]) {
			t.Errorf("%q: Parse leaves %q, want %q", b, rest, b[n:])
		}
		if got := fmt.Sprint(value); err != nil && value != nil {
			t.Errorf("%q: Parse = %s and %v", b, got, err)
		}
	})
}
