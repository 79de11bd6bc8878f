package faultproxy

import (
	"bufio"
	"strings"
	"testing"
)

// Each case: what a connection asked for, DROP being the request whose reply is
// to be dropped; what the server then sends; and the position of the value in it
// that must be dropped.
func TestTheRightValueIsDropped(t *testing.T) {
	const (
		ok, fail   = "+OK\r\n", "-NOPERM\r\n"
		message2   = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"
		message3   = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"
		subscribe2 = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
		subscribe3 = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
		leave3     = ">3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"
		invalidate = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
		odd        = ">1\r\n:1\r\n"
		pong       = "*2\r\n$4\r\npong\r\n$0\r\n\r\n"
	)
	type sent []string
	for _, tc := range []struct {
		name  string
		asked string
		sent  sent
		want  int
	}{
		{"only request", "DROP", sent{ok}, 0},
		{"second request", "GET, DROP, GET", sent{ok, ok, ok}, 1},
		{"pushes before the reply", "DROP", sent{message3, invalidate, odd, ok}, 3},
		{"array that looks like a message, no subscription", "DROP", sent{message2, ok}, 0},
		{"RESP2 messages of a subscription", "SUBSCRIBE a, DROP", sent{subscribe2, message2, pong}, 2},
		{"two channels", "SUBSCRIBE a b, DROP", sent{subscribe3, subscribe3, ok}, 2},
		{"two subscriptions", "SUBSCRIBE a, GET, SSUBSCRIBE b, DROP", sent{subscribe3, ok, subscribe3, ok}, 3},
		{"refused subscription", "PSUBSCRIBE a, DROP", sent{fail, ok}, 1},
		{"refused after another", "SUBSCRIBE a, SUBSCRIBE b c, DROP", sent{subscribe3, fail, ok}, 2},
		{"refused after two channels", "SUBSCRIBE a b, SUBSCRIBE c, DROP", sent{subscribe3, subscribe3, fail, ok}, 3},
		{"error after a subscription", "SUBSCRIBE a, DROP", sent{subscribe3, fail}, 1},
		{"leave all of three channels", "UNSUBSCRIBE, DROP", sent{leave3, leave3, leave3, ok}, 3},
		{"leave all, then an error", "UNSUBSCRIBE, DROP", sent{leave3, fail}, 1},
		{"leave all, refused", "UNSUBSCRIBE, DROP", sent{fail, ok}, 1},
		{"leave all, next refused", "UNSUBSCRIBE, SUBSCRIBE a, DROP", sent{leave3, leave3, fail, ok}, 3},
		{"confirmation that nobody asked for", "DROP", sent{leave3, ok}, 1},
		{"more replies than requests", "GET", sent{ok, ok}, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var e expectations
			for request := range strings.SplitSeq(tc.asked, ", ") {
				words := strings.Fields(request)
				x := expect(words[0], len(words)-1)
				if words[0] == "DROP" {
					x.rule = &rule{}
				}
				e.add(x)
			}
			dropped := -1
			for i, text := range tc.sent {
				f, err := readReply(bufio.NewReader(strings.NewReader(text)))
				if err != nil {
					t.Fatal(err)
				}
				if e.answer(f) != nil {
					dropped = i
				}
			}
			if dropped != tc.want {
				t.Errorf("dropped value = %d, want %d of %q", dropped, tc.want, tc.sent)
			}
		})
	}
}
