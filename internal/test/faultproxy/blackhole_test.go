package faultproxy

import (
	"context"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// timesOut fails the test unless the command gets no answer and no end of its
// connection either.
func timesOut(t *testing.T, client *redis.Client, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	var timeout net.Error
	if err := client.Do(ctx, args...).Err(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Fatalf("%v through a black hole = %v, want a timeout", args, err)
	}
}

// swallowed waits until a black hole has swallowed something. What comes to it after Heal
// passes.
func swallowed(t *testing.T, p *Proxy) {
	t.Helper()
	await.Until(t, "the black hole swallows something", func() bool { return p.gaps.Load() > 0 })
}

func TestBlackHoleToServerKeepsRequestsBack(t *testing.T) {
	p, server, key := stage(t)
	client := redistest.NewClient(t, p.Addr(), oneTry)
	client.Incr(t.Context(), key)
	p.BlackHole(ToServer)
	timesOut(t, client, "INCR", key)
	p.Heal()
	if got := server.Client(t).Get(t.Context(), key).Val(); got != "1" {
		t.Errorf("counter = %s, want 1", got)
	}
}

func TestBlackHoleToClientKeepsRepliesBack(t *testing.T) {
	p, server, key := stage(t)
	w := dial(t, p.Addr())
	w.send("INCR", key)
	w.expect(":1")
	p.BlackHole(ToClient)
	w.send("INCR", key)
	direct := server.Client(t)
	await.Until(t, "the second INCR arrives", func() bool { return direct.Get(t.Context(), key).Val() == "2" })
	w.expectSilence()
}

func TestHealedProxyServesIdleAndNewConnections(t *testing.T) {
	p, _, key := stage(t)
	idle := dial(t, p.Addr())
	idle.send("INCR", key)
	idle.expect(":1")
	p.BlackHole(Both)
	p.BlackHole(Both) // twice is once
	p.Heal()
	idle.send("INCR", key)
	idle.expect(":2")
	fresh := dial(t, p.Addr())
	fresh.send("INCR", key)
	fresh.expect(":3")
}

// A reply behind a gap would be taken for the reply to an earlier request.
func TestConnectionThatLostBytesStaysSilent(t *testing.T) {
	for name, dir := range map[string]Direction{"to server": ToServer, "to client": ToClient} {
		t.Run(name, func(t *testing.T) {
			p, _, key := stage(t)
			w := dial(t, p.Addr())
			w.send("INCR", key)
			w.expect(":1")
			p.BlackHole(dir)
			w.send("INCR", key)
			swallowed(t, p)
			w.expectSilence()
			p.Heal()
			w.send("INCR", key)
			w.expectSilence()
			p.Cut()
			w.expectEnd()
		})
	}
}

func TestNewConnectionInBlackHoleIsDead(t *testing.T) {
	server, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p := Start(t, server.Addr().String())
	p.BlackHole(ToServer)
	w := dial(t, p.Addr())
	w.send("PING")
	swallowed(t, p)
	w.expectSilence()
	p.Heal()
	w.send("PING")
	w.expectSilence()
	if err := server.SetDeadline(time.Now().Add(silence)); err != nil {
		t.Fatal(err)
	}
	if conn, err := server.Accept(); err == nil {
		conn.Close()
		t.Error("a connection reached the server through a black hole")
	}
}

func TestBlackHoleWaitsForWhatIsPassing(t *testing.T) {
	var w way
	w.pass(func() {
		if w.mu.TryLock() {
			w.mu.Unlock()
			t.Error("a black hole can begin while something passes")
		}
	})
}

func TestNothingPassesOnceBlackHoleReturned(t *testing.T) {
	p, _, key := stage(t)
	client := redistest.NewClient(t, p.Addr(), oneTry)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			attempt, cancel := context.WithTimeout(ctx, silence)
			client.Incr(attempt, key)
			cancel()
		}
	}()
	for range 20 {
		p.ResetCommands()
		await.Until(t, "commands pass", func() bool { return p.Commands()["INCR"] > 3 })
		p.BlackHole(ToServer)
		before := p.Commands()["INCR"]
		time.Sleep(time.Millisecond) // the window in which one could slip through
		if got := p.Commands()["INCR"]; got != before {
			t.Errorf("INCR forwarded = %d, want %d as when the black hole began", got, before)
		}
		p.Heal()
	}
	stop()
	<-done
}

func TestBlackHoleHidesTheServersEnd(t *testing.T) {
	server := redistest.Real(t)
	p := Start(t, server.Addr())
	w := dial(t, p.Addr())
	w.send("PING")
	w.expect("+PONG")
	p.BlackHole(ToClient)
	server.Kill()
	w.expectSilence()
	p.Heal()
	w.expectEnd()
}

func TestBlackHoleHidesTheClientsEnd(t *testing.T) {
	p, server, channel := stage(t)
	direct := server.Client(t)
	subscribers := func() int64 { return direct.PubSubNumSub(t.Context(), channel).Val()[channel] }
	w := dial(t, p.Addr())
	w.send("SUBSCRIBE", channel)
	w.expect("*3 $9 subscribe $" + strconv.Itoa(len(channel)) + " " + channel + " :1")
	p.BlackHole(ToServer)
	w.Close()
	time.Sleep(silence)
	if got := subscribers(); got != 1 {
		t.Errorf("subscribers while the end is held back = %d, want 1", got)
	}
	p.Heal()
	await.Until(t, "the server sees the client's end", func() bool { return subscribers() == 0 })
}
