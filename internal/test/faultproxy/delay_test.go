package faultproxy

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
)

func TestDelayHoldsBackEachWay(t *testing.T) {
	const d = 60 * time.Millisecond
	for name, tc := range map[string]struct {
		dir  Direction
		want time.Duration
	}{
		"to server": {ToServer, d},
		"to client": {ToClient, d},
		"both":      {Both, 2 * d},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, _ := stage(t)
			w := dial(t, p.Addr())
			w.send("PING")
			w.expect("+PONG")
			p.Delay(tc.dir, d)
			start := time.Now()
			w.send("PING")
			w.expect("+PONG")
			if got := time.Since(start); got < tc.want {
				t.Errorf("round trip = %v, want at least %v", got, tc.want)
			}
			p.Delay(tc.dir, 0)
			w.send("PING")
			w.expect("+PONG")
		})
	}
}

func TestDelayKeepsTheOrder(t *testing.T) {
	p, _, key := stage(t)
	w := dial(t, p.Addr())
	for i := range 100 {
		p.Delay(Both, time.Duration(i%3)*10*time.Millisecond)
		w.send("INCR", key)
	}
	for i := range 100 {
		w.expect(":" + strconv.Itoa(i+1))
	}
}

func TestDelayedRequestOutlivesItsClient(t *testing.T) {
	p, server, key := stage(t)
	w := dial(t, p.Addr())
	p.Delay(ToServer, silence)
	w.send("INCR", key)
	w.send("INCR", key)
	w.Close()
	direct := server.Client(t)
	await.Until(t, "both requests arrive", func() bool { return direct.Get(t.Context(), key).Val() == "2" })
	await.Until(t, "the connection ends", func() bool { return p.Connections() == 0 })
}

// A reply to a client that has left must not take the requests with it that are
// still on their way.
func TestReplyThatFindsNobodyEndsOneDirectionOnly(t *testing.T) {
	here, there := net.Pipe()
	there.Close()
	l := newLink(new(Proxy), here)
	defer l.close()
	down := l.down
	down.dst = here
	down.write(frame{bytes: []byte("+OK\r\n")})
	if !down.dead {
		t.Error("replies go on")
	}
	if l.ctx.Err() != nil {
		t.Error("the connection is closed")
	}
}

func TestBlackHoleSwallowsWhatIsDelayed(t *testing.T) {
	for range 20 {
		p, server, key := stage(t)
		w := dial(t, p.Addr())
		w.send("PING") // a connection that the black hole finds new carries nothing
		w.expect("+PONG")
		p.Delay(ToServer, silence)
		sent := time.Now()
		w.send("INCR", key)
		p.BlackHole(ToServer)
		if time.Since(sent) >= silence {
			continue // the request may have been due before
		}
		swallowed(t, p)
		p.Heal()
		w.expectSilence()
		if got := server.Client(t).Exists(t.Context(), key).Val(); got != 0 {
			t.Error("a request passed a black hole that began before it was due")
		}
		return
	}
	t.Error("the black hole began too late each time")
}
