package faultproxy

import (
	"errors"
	"maps"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// stage is a shared server, a proxy before it, and a key of the test's own.
func stage(t *testing.T) (*Proxy, redistest.Backend, string) {
	t.Helper()
	server := redistest.Shared(t)
	return Start(t, server.Addr()), server, redistest.Prefix(t) + "k"
}

func TestCommandsPassWithoutFault(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s redistest.Backend) {
		p, key := Start(t, s.Addr()), redistest.Prefix(t)+"k"
		client := redistest.NewClient(t, p.Addr())
		large := strings.Repeat("x", 1<<20)
		if err := client.Set(t.Context(), key, large, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if got := client.Get(t.Context(), key).Val(); got != large {
			t.Errorf("GET = %d bytes, want %d", len(got), len(large))
		}
		cmds, err := client.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for i := range 1000 {
				pipe.Echo(t.Context(), i)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, cmd := range cmds {
			if got, want := cmd.(*redis.StringCmd).Val(), strconv.Itoa(i); got != want {
				t.Fatalf("reply %d = %q, want %q", i, got, want)
			}
		}
	})
}

func TestMessagesPassInBothProtocols(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(strconv.Itoa(protocol), func(t *testing.T) {
			p, server, channel := stage(t)
			client := redistest.NewClient(t, p.Addr(), func(o *redis.Options) { o.Protocol = protocol })
			sub := client.Subscribe(t.Context(), channel)
			defer sub.Close()
			if _, err := sub.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
			direct := server.Client(t)
			for i := range 10 {
				if err := direct.Publish(t.Context(), channel, i).Err(); err != nil {
					t.Fatal(err)
				}
				msg, err := sub.ReceiveMessage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got, want := msg.Payload, strconv.Itoa(i); got != want {
					t.Errorf("message = %q, want %q", got, want)
				}
			}
		})
	}
}

func TestCutEndsAllConnections(t *testing.T) {
	p, _, key := stage(t)
	wires := []*wire{dial(t, p.Addr()), dial(t, p.Addr()), dial(t, p.Addr())}
	for _, w := range wires {
		w.send("GET", key)
		w.expect("$-1")
	}
	if got := p.Connections(); got != 3 {
		t.Errorf("connections = %d, want 3", got)
	}
	p.Cut()
	if got := p.Connections(); got != 0 {
		t.Errorf("connections after Cut = %d, want 0", got)
	}
	for _, w := range wires {
		w.expectEnd()
	}
	again := dial(t, p.Addr())
	again.send("PING")
	again.expect("+PONG")
}

func TestRefuseTurnsNewConnectionsAway(t *testing.T) {
	p, _, _ := stage(t)
	old := dial(t, p.Addr())
	old.send("PING")
	old.expect("+PONG")
	p.Refuse(true)
	dial(t, p.Addr()).expectEnd()
	old.send("PING")
	old.expect("+PONG")
	p.Refuse(false)
	fresh := dial(t, p.Addr())
	fresh.send("PING")
	fresh.expect("+PONG")
}

func TestNewConnectionsLeadToAnotherServer(t *testing.T) {
	p, _, key := stage(t)
	before := dial(t, p.Addr())
	before.send("SET", key, "first")
	before.expect("+OK")
	p.LeadTo(redistest.Embedded(t).Addr())
	after := dial(t, p.Addr())
	after.send("EXISTS", key)
	after.expect(":0")
	before.send("EXISTS", key)
	before.expect(":1")
}

func TestServerThatIsDownEndsTheConnection(t *testing.T) {
	server := redistest.Real(t)
	p := Start(t, server.Addr())
	server.Kill()
	dial(t, p.Addr()).expectEnd()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	w := dial(t, p.Addr())
	w.send("PING")
	w.expect("+PONG")
}

func TestCommandsAreCountedByName(t *testing.T) {
	p, _, key := stage(t)
	w := dial(t, p.Addr())
	for range 3 {
		w.send("incr", key)
	}
	w.send("GET", key)
	if _, err := w.Write([]byte("\r\nPING\r\n")); err != nil { // inline, behind an empty line
		t.Fatal(err)
	}
	for _, want := range []string{":1", ":2", ":3", "$1 3", "+PONG"} {
		w.expect(want)
	}
	got := p.Commands()
	for name, want := range map[string]int{"INCR": 3, "GET": 1, "PING": 1} {
		if got[name] != want {
			t.Errorf("%s = %d, want %d", name, got[name], want)
		}
	}
	if len(got) != 3 {
		t.Errorf("commands = %v, want three names", got)
	}
	p.ResetCommands()
	if got := p.Commands(); len(got) != 0 {
		t.Errorf("commands after the reset = %v, want none", got)
	}
}

func TestClientThatDoesNotSpeakRESPIsReported(t *testing.T) {
	server := redistest.Shared(t)
	p, err := New(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	w := dial(t, p.Addr())
	if _, err := w.Write([]byte("\x16\x03\x01\n")); err != nil {
		t.Fatal(err)
	}
	w.expectEnd()
	for range 2 {
		if err := p.Close(); !errors.Is(err, errProtocol) {
			t.Errorf("Close = %v, want %v", err, errProtocol)
		}
	}
}

// Close must end connections in every state. That no goroutine is left of them is
// seen by goleak as well, but that one would wait for stragglers.
func TestCloseEndsConnectionsInEveryState(t *testing.T) {
	p, _, key := stage(t)
	idle, blocked, delayed, lost := dial(t, p.Addr()), dial(t, p.Addr()), dial(t, p.Addr()), dial(t, p.Addr())
	blocked.send("BLPOP", key, "0")
	lost.send("PING")
	lost.expect("+PONG")
	p.Delay(ToServer, time.Hour)
	for range queueLength + 9 {
		delayed.send("PING")
	}
	p.BlackHole(Both)
	lost.send("PING")
	fresh := dial(t, p.Addr())
	fresh.send("PING")
	fresh.expectSilence()
	links := maps.Clone(p.links)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	for l := range links {
		select {
		case <-l.over:
		default:
			t.Error("a connection was served after Close had returned")
		}
	}
	for _, w := range []*wire{idle, blocked, delayed, lost, fresh} {
		w.expectEnd()
	}
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		conn.Close()
		t.Error("a closed proxy accepted a connection")
	}
}

func TestCloseEndsAWriteThatNobodyReads(t *testing.T) {
	server := redistest.Real(t)
	p := Start(t, server.Addr())
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	w := dial(t, p.Addr())
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		chunk := []byte("*1\r\n$1048576\r\n" + strings.Repeat("x", 1<<20) + "\r\n")
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}()
	await.Until(t, "requests are under way", func() bool { return len(p.Commands()) > 0 })
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	<-filled
}

func TestReplicationPasses(t *testing.T) {
	master := redistest.Real(t)
	p := Start(t, master.Addr())
	host, port, err := net.SplitHostPort(p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	redistest.Real(t, redistest.Args("--replicaof", host, port))
	client := master.Client(t)
	acked := func() int64 {
		if err := client.Set(t.Context(), "k", "v", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		return client.Wait(t.Context(), 1, silence).Val()
	}
	await.Until(t, "the replica follows", func() bool { return acked() == 1 })
	p.BlackHole(ToClient)
	if got := acked(); got != 0 {
		t.Errorf("replicas that acknowledge through a black hole = %d, want 0", got)
	}
	p.Heal()
	p.Cut()
	await.Until(t, "the replica follows again", func() bool { return acked() == 1 })
}
