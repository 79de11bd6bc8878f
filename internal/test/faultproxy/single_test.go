package faultproxy

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
)

func TestOneConnectionStallsAlone(t *testing.T) {
	for name, dir := range map[string]Direction{"to server": ToServer, "to client": ToClient, "both": Both} {
		t.Run(name, func(t *testing.T) {
			p, server, key := stage(t)
			busy, other := dial(t, p.Addr()), dial(t, p.Addr())
			busy.send("INCR", key)
			busy.expect(":1")
			p.Busiest().Stall(dir)
			busy.send("INCR", key)
			busy.expectSilence()
			other.send("ECHO", "x")
			other.expect("$1 x")
			if got := server.Client(t).Get(t.Context(), key).Val(); dir&ToServer != 0 && got != "1" {
				t.Errorf("the server counted to %s meanwhile", got)
			}
			p.Heal()
			busy.expect(":2")
		})
	}
}

func TestOneConnectionIsSwallowedAlone(t *testing.T) {
	for name, dir := range map[string]Direction{"to server": ToServer, "to client": ToClient} {
		t.Run(name, func(t *testing.T) {
			p, server, key := stage(t)
			busy, other := dial(t, p.Addr()), dial(t, p.Addr())
			busy.send("INCR", key)
			busy.expect(":1")
			c := p.Busiest()
			c.BlackHole(dir)
			busy.send("INCR", key)
			swallowed(t, p)
			busy.expectSilence()
			other.send("ECHO", "x")
			other.expect("$1 x")
			c.Heal()
			busy.send("ECHO", "x") // behind a gap
			busy.expectSilence()
			want := map[Direction]string{ToServer: "1", ToClient: "2"}[dir]
			if got := server.Client(t).Get(t.Context(), key).Val(); got != want {
				t.Errorf("the server counted to %s, want %s", got, want)
			}
		})
	}
}

func TestTheBusiestConnection(t *testing.T) {
	p, _, _ := stage(t)
	if c := p.Busiest(); c != nil {
		t.Errorf("busiest of none = %v", c)
	}
	for n := range 3 {
		w := dial(t, p.Addr())
		for range n + 1 {
			w.send("PING")
			w.expect("+PONG")
		}
	}
	if got := p.Busiest().Requests(); got != 3 {
		t.Errorf("requests of the busiest = %d, want 3", got)
	}
}

func TestRepliesPassAByteAtATime(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	l := newLink(new(Proxy), here)
	defer l.close()
	l.proxy.InBytes(ToClient, true)
	l.down.dst = here
	go l.down.write(frame{bytes: []byte("+OK\r\n")})
	b := make([]byte, 10)
	for _, want := range "+OK\r\n" {
		if n, err := there.Read(b); n != 1 || rune(b[0]) != want || err != nil {
			t.Errorf("read %q, %v, want %q", b[:n], err, want)
		}
	}
}

func TestBytesArriveInOrder(t *testing.T) {
	p, _, key := stage(t)
	w := dial(t, p.Addr())
	p.InBytes(Both, true)
	for _, text := range []string{"a", "", strings.Repeat("b", 300)} {
		w.send("SET", key, text)
		w.expect("+OK")
	}
	p.InBytes(Both, false)
	w.send("STRLEN", key)
	w.expect(":300")
}

// What a client writes to a server that does not read fills the buffers, and then a
// write waits.
func TestAServerThatStopsReading(t *testing.T) {
	p, server, key := stage(t)
	w := dial(t, p.Addr())
	if err := w.Conn.(*net.TCPConn).SetWriteBuffer(smallBuffer); err != nil {
		t.Fatal(err)
	}
	w.send("INCR", key)
	w.expect(":1")
	p.StopReading()
	written := make(chan error, 1)
	// More than the buffers of a system hold, and not much more: afterwards it passes them
	// a few kilobytes at a time.
	many := strings.Repeat("*2\r\n$4\r\nINCR\r\n$"+strconv.Itoa(len(key))+"\r\n"+key+"\r\n", 2_000)
	go func() {
		_, err := io.WriteString(w, many)
		written <- err
	}()
	select {
	case err := <-written:
		t.Errorf("%d bytes were written, %v, want that it waits", len(many), err)
	case <-time.After(silence):
	}
	direct := server.Client(t)
	p.Heal()
	go func() { _, _ = io.Copy(io.Discard, w.r) }()
	if err := <-written; err != nil {
		t.Error(err)
	}
	await.Until(t, "all requests arrive", func() bool { return direct.Get(t.Context(), key).Val() == "2001" })
}

func TestAReplyIsCutInItsMiddle(t *testing.T) {
	const reply = "$5\r\nhello\r\n"
	for k := range len(reply) + 2 {
		p, _, _ := stage(t)
		w := dial(t, p.Addr())
		p.DropReplies(1, Match("ECHO"), Partly(func(length int) int {
			if length != len(reply) {
				t.Errorf("length = %d, want %d", length, len(reply))
			}
			return k
		}))
		w.send("PING")
		w.send("ECHO", "hello")
		w.expect("+PONG")
		w.deadline(patience)
		got, err := io.ReadAll(w.r)
		if want := reply[:min(k, len(reply)-1)]; string(got) != want || err != nil {
			t.Errorf("after %d bytes: read %q, %v, want %q and the end", k, got, err, want)
		}
	}
}

func TestAReplyHangsInItsMiddle(t *testing.T) {
	p, _, _ := stage(t)
	w := dial(t, p.Addr())
	p.DropReplies(1, Match("ECHO"), Partly(func(int) int { return 6 }), KeepOpen())
	w.send("ECHO", "hello")
	w.deadline(patience)
	b := make([]byte, 6)
	if _, err := io.ReadFull(w.r, b); err != nil || string(b) != "$5\r\nhe" {
		t.Errorf("read %q, %v", b, err)
	}
	w.send("PING")
	w.expectSilence()
}
