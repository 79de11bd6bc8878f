package faultproxy

import (
	"bytes"
	"io"
	"testing"

	"github.com/lockmw/kit/internal/test/await"
)

func TestAnotherClientComesBetweenTwoRequests(t *testing.T) {
	p, server, key := stage(t)
	other := server.Client(t)
	w := dial(t, p.Addr())
	var earlier string
	p.Between(Match("GET"), func(before, request []byte) {
		earlier = string(bytes.Join(Args(before), []byte(" ")))
		if got := string(Args(request)[1]); got != key {
			t.Errorf("key = %q, want %q", got, key)
		}
		if got := other.Get(t.Context(), key).Val(); got != "mine" {
			t.Errorf("GET between = %q, want what the request before has set", got)
		}
		other.Set(t.Context(), key, "foreign", 0)
	})
	request := "SET " + key + " mine\r\nGET " + key + "\r\nPING\r\n" // in one write
	if _, err := io.WriteString(w, request); err != nil {
		t.Fatal(err)
	}
	w.expect("+OK")
	w.expect("$7 foreign")
	w.expect("+PONG")
	if want := "SET " + key + " mine"; earlier != want {
		t.Errorf("the request before = %q, want %q", earlier, want)
	}
	p.Between(nil, nil)
	w.send("SET", key, "mine")
	w.expect("+OK")
	w.send("GET", key)
	w.expect("$4 mine")
}

// Replies that do not come must not keep a proxy from its end, or from being healed.
func TestNothingComesBetweenWhereRepliesAreLost(t *testing.T) {
	p, _, key := stage(t)
	w := dial(t, p.Addr())
	w.send("PING")
	w.expect("+PONG")
	waits := make(chan struct{})
	match := func(request []byte) bool {
		get := Match("GET")(request)
		if get {
			close(waits)
		}
		return get
	}
	p.Between(match, func([]byte, []byte) { t.Error("it came between") })
	p.BlackHole(ToClient)
	w.send("PING")
	w.send("GET", key)
	await.Receive(t, "GET waits for the reply to PING", waits)
	swallowed(t, p)
	w.expectSilence()
	p.Heal()
	p.Cut()
	w.expectEnd()
}
