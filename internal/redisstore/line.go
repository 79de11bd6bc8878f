package redisstore

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// quick is how long an answer takes at most where callers wait for it
// themselves, without another goroutine: they may want to leave meanwhile.
const quick = 2 * time.Millisecond

// A line is a lane's connection for single calls. While answers are quick, callers
// carry their calls themselves. go-redis does not let a cancelled context interrupt
// a command, so a line is cut when its caller wants to leave and the answer does
// not come.
type line struct {
	client *redis.Client

	mu   sync.Mutex
	wire net.Conn // the last connection that was made
	turn uint64   // of the calls
	busy bool     // a call is under way
	sure bool     // the last call was answered
}

// newLine returns a line to where o leads, which is the line's from now on.
func newLine(o *redis.Options) *line {
	l := new(line)
	dial := o.Dialer
	o.PoolSize = renewalConns // one is used; after so many failed dials go-redis does not dial for a second
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil {
			l.mu.Lock()
			l.wire = conn
			l.mu.Unlock()
		}
		return conn, err
	}
	l.client = redis.NewClient(o)
	return l
}

// begin notes that a call begins, and says which, and whether the last one was
// answered, so that there is a connection.
func (l *line) begin() (turn uint64, sure bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = true
	l.turn++
	return l.turn, l.sure
}

// end notes that the call is over, and whether it was answered.
func (l *line) end(answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy, l.sure = false, answered
}

// cut ends the connection if that call is still under way: whoever reads from it
// gets an error.
func (l *line) cut(turn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy && l.turn == turn && l.wire != nil {
		_ = l.wire.Close()
	}
}
