package wire

import (
	"context"
	"net"
	"testing"

	"github.com/lockmw/kit/internal/test/await"
)

// A spent context panics in Value, and so context.Cause does, once it has ended.
type spent struct{ context.Context }

func (s spent) Value(key any) any {
	if s.Err() != nil {
		panic("spent")
	}
	return s.Context.Value(key)
}

// A context that panics when its call ends takes nobody along: others go on over the same pool.
func TestAContextThatPanics(t *testing.T) {
	for name, ends := range map[string]func(net.Conn, context.CancelFunc) net.Conn{
		"its connection breaks": func(c net.Conn, cancel context.CancelFunc) net.Conn { return refusing{c, cancel} },
		"it leaves":             func(c net.Conn, cancel context.CancelFunc) net.Conn { return leaving{c, cancel} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			ctx, cancel := context.WithCancel(t.Context())
			p := s.pool(1, wrapped(func(c net.Conn) net.Conn {
				if ctx.Err() == nil {
					return ends(c, cancel)
				}
				return c
			}))
			func() {
				defer func() {
					if v := recover(); v != "spent" {
						t.Errorf("panic: %v", v)
					}
				}()
				_, err := p.Do(spent{ctx}, ask("a"))
				t.Errorf("Do = %v", err)
			}()
			others := make(chan struct{})
			go func() { defer close(others); s.answered(p, "b") }()
			await.Receive(t, "the reply to another call", others)
		})
	}
}

// leaving is a connection whose caller leaves when it has written.
type leaving struct {
	net.Conn
	leave func()
}

func (c leaving) Write(p []byte) (int, error) {
	defer c.leave()
	return c.Conn.Write(p)
}
