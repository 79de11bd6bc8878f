package faultproxy

import (
	"testing"

	"github.com/lockmw/kit/internal/test/await"
)

func TestStalledBytesArriveAfterHeal(t *testing.T) {
	for name, dir := range map[string]Direction{"to server": ToServer, "to client": ToClient, "both": Both} {
		t.Run(name, func(t *testing.T) {
			p, server, key := stage(t)
			w := dial(t, p.Addr())
			w.send("INCR", key)
			w.expect(":1")
			p.Stall(dir)
			w.send("INCR", key)
			w.expectSilence()
			late := dial(t, p.Addr()) // a connection that is made meanwhile
			late.send("PING")
			late.expectSilence()
			if got := server.Client(t).Get(t.Context(), key).Val(); dir&ToServer != 0 && got != "1" {
				t.Errorf("the server counted to %s meanwhile", got)
			}
			p.Heal()
			w.expect(":2")
			late.expect("+PONG")
			w.send("INCR", key)
			w.expect(":3")
		})
	}
}

func TestStalledConnectionCanBeCut(t *testing.T) {
	p, _, key := stage(t)
	w := dial(t, p.Addr())
	w.send("PING") // the proxy has the connection before Cut looks for it
	w.expect("+PONG")
	p.Stall(Both)
	w.send("INCR", key)
	p.Cut()
	await.Until(t, "the connection ends", func() bool { return p.Connections() == 0 })
}
