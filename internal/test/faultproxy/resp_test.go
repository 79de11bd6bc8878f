package faultproxy

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

var replies = []struct {
	name, text string
	kind       byte
}{
	{"simple string", "+OK\r\n", '+'},
	{"error", "-ERR no\r\n", '-'},
	{"integer", ":-12\r\n", ':'},
	{"bulk string", "$5\r\na\r\nbc\r\n", '$'},
	{"empty bulk string", "$0\r\n\r\n", '$'},
	{"null bulk string", "$-1\r\n", '$'},
	{"bulk error", "!3\r\nERR\r\n", '!'},
	{"verbatim string", "=8\r\ntxt:some\r\n", '='},
	{"null", "_\r\n", '_'},
	{"boolean", "#t\r\n", '#'},
	{"double", ",1.5e3\r\n", ','},
	{"infinity", ",-inf\r\n", ','},
	{"big number", "(3492890328409238509324850943850943825024385\r\n", '('},
	{"empty array", "*0\r\n", '*'},
	{"null array", "*-1\r\n", '*'},
	{"nested arrays", "*2\r\n*2\r\n:1\r\n$1\r\na\r\n*1\r\n*0\r\n", '*'},
	{"map", "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n", '%'},
	{"set", "~2\r\n+a\r\n+b\r\n", '~'},
	{"push", ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n", '>'},
	{"attributes before a value", "|1\r\n+ttl\r\n:3\r\n:7\r\n", ':'},
	{"long line", "+" + strings.Repeat("x", 10_000) + "\r\n", '+'},
}

func TestReplyIsReadWholeAndNoFurther(t *testing.T) {
	for _, tc := range replies {
		t.Run(tc.name, func(t *testing.T) {
			r := bufio.NewReader(strings.NewReader(tc.text + "+next\r\n"))
			f, err := readReply(r)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := string(f.bytes), tc.text; got != want {
				t.Errorf("frame = %q, want %q", got, want)
			}
			if got, want := f.kind, tc.kind; got != want {
				t.Errorf("kind = %q, want %q", got, want)
			}
			if rest, _ := io.ReadAll(r); string(rest) != "+next\r\n" {
				t.Errorf("left = %q, want %q", rest, "+next\r\n")
			}
		})
	}
}

func TestCutOffReplyIsAnUnexpectedEnd(t *testing.T) {
	for _, tc := range replies {
		for n := 1; n < min(len(tc.text), 50); n++ {
			_, err := readReply(bufio.NewReader(strings.NewReader(tc.text[:n])))
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: read %q = %v, want %v", tc.name, tc.text[:n], err, io.ErrUnexpectedEOF)
			}
		}
	}
}

func TestEndBetweenRepliesIsEOF(t *testing.T) {
	if _, err := readReply(bufio.NewReader(strings.NewReader(""))); !errors.Is(err, io.EOF) {
		t.Errorf("read nothing = %v, want %v", err, io.EOF)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, text := range []string{
		"hello\r\n", "+OK\n", "\r\n", "$x\r\n", "$-2\r\n", "$99999999999\r\n", "$1\r\nab\r\n", "*?\r\n",
		strings.Repeat("*1\r\n", 1000),
	} {
		if _, err := readReply(bufio.NewReader(strings.NewReader(text))); !errors.Is(err, errProtocol) {
			t.Errorf("read %.20q = %v, want %v", text, err, errProtocol)
		}
	}
}

func TestArgsOfRequests(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n", "GET|a\r\nb"},
		{"*1\r\n$0\r\n\r\n", ""},
		{"PING  x\r\n", "PING|x"},
		{"\r\n", ""},
		{"*0\r\n", ""},
		{"*-1\r\n", ""},
	} {
		f, err := readRequest(bufio.NewReader(strings.NewReader(tc.text)))
		if err != nil {
			t.Errorf("read %q: %v", tc.text, err)
		}
		if got := string(bytes.Join(Args(f.bytes), []byte("|"))); got != tc.want {
			t.Errorf("Args(%q) = %q, want %q", tc.text, got, tc.want)
		}
	}
}

func request(args ...string) []byte {
	var b strings.Builder
	for _, a := range args {
		b.WriteString(a + " ")
	}
	return []byte(b.String() + "\r\n")
}

func TestMatchTakesNamesOnly(t *testing.T) {
	match := Match("get", "DEL")
	for want, args := range map[bool][]string{
		true:  {"GeT", "k"},
		false: {"EVAL", "DEL", "0"},
	} {
		if got := match(request(args...)); got != want {
			t.Errorf("Match(%q) = %t, want %t", args, got, want)
		}
	}
	if match([]byte("\r\n")) {
		t.Error("an empty request was matched")
	}
}

func TestMatchScriptKnowsSourceHashAndPart(t *testing.T) {
	const source = "return_redis.call('DEL',KEYS[1])" // no blank: request writes inline
	hash := sha1Hex(source)
	for _, tc := range []struct {
		script string
		args   []string
		want   bool
	}{
		{source, []string{"EVAL", source, "0"}, true},
		{source, []string{"evalsha", hash, "0"}, true},
		{hash, []string{"EVALSHA", strings.ToUpper(hash), "0"}, true},
		{hash, []string{"EVAL", source, "0"}, true},
		{"'DEL'", []string{"EVAL", source, "0"}, true},
		{"'DEL'", []string{"EVALSHA", hash, "0"}, false},
		{"'SET'", []string{"EVAL", source, "0"}, false},
		{source, []string{"EVAL"}, false},
		{source, []string{"GET", source}, false},
	} {
		if got := MatchScript("no such script", tc.script)(request(tc.args...)); got != tc.want {
			t.Errorf("MatchScript(%q)(%q) = %t, want %t", tc.script, tc.args, got, tc.want)
		}
	}
}

// Whatever bytes come: no panic, and what was taken for a value is exactly what
// was read and is taken for the same value again.
func FuzzReadReply(f *testing.F) {
	for _, tc := range replies {
		f.Add([]byte(tc.text))
	}
	f.Add([]byte("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		src := bytes.NewReader(text)
		r := bufio.NewReader(src)
		first, err := readReply(r)
		if err != nil {
			return
		}
		taken := len(text) - src.Len() - r.Buffered()
		if !bytes.Equal(first.bytes, text[:taken]) {
			t.Errorf("frame = %q, want the %d bytes that were read of %q", first.bytes, taken, text)
		}
		again, err := readReply(bufio.NewReader(bytes.NewReader(first.bytes)))
		if err != nil || again.kind != first.kind || !bytes.Equal(again.bytes, first.bytes) {
			t.Errorf("second reading of %q = %q, %v", first.bytes, again.bytes, err)
		}
		Args(first.bytes)
	})
}
