package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
	"github.com/lockmw/kit/internal/test/redistest"
)

// A secured server speaks TLS.
type secured struct {
	*server
	writes      atomic.Pointer[func(c net.Conn, record []byte) error] // not nil: sends a record in another way
	interrupted atomic.Int32                                          // reads of its clients
}

func newSecured(t *testing.T) (*secured, func(*Options)) {
	s := &secured{server: newServer(t)}
	cert, roots := redistest.Certificate(t)
	s.serves(func(c net.Conn) {
		s.serve(tls.Server(records{c, s}, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}))
	})
	config := &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	return s, wrapped(func(raw net.Conn) net.Conn { return tls.Client(counts{raw, s}, config) })
}

// records is the server's end of a connection. TLS writes a record at a time to it.
type records struct {
	net.Conn
	of *secured
}

func (r records) Write(record []byte) (int, error) {
	write := r.of.writes.Load()
	if write == nil {
		return r.Conn.Write(record)
	}
	if err := (*write)(r.Conn, record); err != nil {
		return 0, err
	}
	return len(record), nil
}

// counts is the client's end of a connection, and counts how often a read is interrupted.
type counts struct {
	net.Conn
	of *secured
}

func (c counts) SetReadDeadline(at time.Time) error {
	if !at.IsZero() {
		c.of.interrupted.Add(1)
	}
	return c.Conn.SetReadDeadline(at)
}

// A reader that leaves is interrupted in the middle of a TLS record, and no byte of it is
// lost.
func TestAReaderLeavesInTheMiddleOfARecord(t *testing.T) {
	s, overTLS := newSecured(t)
	p := s.pool(1, overTLS)
	s.connected(p, 1) // the handshake is over
	half, goesOn := make(chan struct{}, 1), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(goesOn) })
	defer goOn() // also where the test fails: the server waits for it
	write := func(c net.Conn, record []byte) error {
		_, _ = c.Write(record[:len(record)/2])
		half <- struct{}{}
		<-goesOn
		_, err := c.Write(record[len(record)/2:])
		s.writes.Store(nil)
		return err
	}
	s.writes.Store(&write)
	ctx, cancel := context.WithCancelCause(t.Context())
	left, lates := make(chan error, 1), make(chan string, 1)
	c := ask("leaves")
	c.Late = func(reply []byte, err error) { lates <- fmt.Sprintf("%q %v", reply, err) }
	go func() { _, err := p.Do(ctx, c); left <- err }()
	await.Receive(t, "half a record", half)
	await.Until(t, "it is read", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.conns[0].reading.call == c
	})
	cancel(errGaveUp)
	if e := failed(t, await.Receive(t, "the caller", left), true, true); !errors.Is(e, errGaveUp) {
		t.Errorf("Do = %v, want its context's cause", e)
	}
	if s.interrupted.Load() == 0 {
		t.Error("its read was not interrupted")
	}
	goOn()
	if got, want := await.Receive(t, "Late", lates), `"$6\r\nleaves\r\n" <nil>`; got != want {
		t.Errorf("Late was told %s, want %s", got, want)
	}
	s.answered(p, "next")
	if n := s.accepted.Load(); n != 1 {
		t.Errorf("%d connections, want the first alone", n)
	}
}

// Over TLS, too, many callers that leave cost nobody a reply or a connection; and one that
// is cut in the middle of a reply costs those alone that are under way over it.
func TestManyCallersOverTLS(t *testing.T) {
	for _, cuts := range []bool{false, true} {
		for try := 1; ; try++ {
			stuck, err := manyCallersOverTLS(t, cuts)
			if err != nil {
				t.Error(err)
			}
			if !stuck {
				break
			}
			if try == 3 { // a server that a busy machine holds up takes no commands meanwhile
				t.Error("a connection was stuck each time")
				break
			}
		}
	}
}

// manyCallersOverTLS returns the errors that callers were told and ought not to be, but that a connection was stuck.
func manyCallersOverTLS(t *testing.T, cuts bool) (stuck bool, _ error) {
	t.Helper()
	const callers, size, lasts = 64, 2, time.Second
	s, overTLS := newSecured(t)
	var enough atomic.Bool
	p := s.pool(size, overTLS, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			if enough.Load() {
				return nil, errUnlucky
			}
			return dial(ctx)
		}
	})
	s.connected(p, size)
	enough.Store(!cuts)
	write := func(c net.Conn, record []byte) error {
		part := rand.N(len(record))
		switch n := rand.N(2000); {
		case n == 0 && cuts:
			_, _ = c.Write(record[:part])
			_ = c.Close()
			return io.ErrClosedPipe
		case n < 10:
			if _, err := c.Write(record[:part]); err != nil {
				return err
			}
			record = record[part:]
			time.Sleep(2 * tickEvery) // readers are interrupted by a tick
		}
		_, err := c.Write(record)
		return err
	}
	s.writes.Store(&write)
	until := time.Now().Add(lasts)
	var all sync.WaitGroup
	var answered, left, lates, cut atomic.Int32
	var mu sync.Mutex
	var told error
	var over atomic.Bool // somebody was told of an error
	tells := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		over.Store(true)
		if errors.Is(err, ErrStuck) {
			stuck = true
		} else {
			told = errors.Join(told, err)
		}
	}
	happened := func() bool {
		return answered.Load() > 0 && left.Load() > 0 && s.interrupted.Load() > 0 && cuts == (cut.Load() > 0)
	}
	for i := range callers {
		all.Go(func() {
			for turn := 0; !over.Load() && (time.Now().Before(until) || !happened() && time.Since(until) < patience); turn++ {
				argument := fmt.Sprint(i, "/", turn)
				c := ask(argument)
				c.Late = func(reply []byte, err error) {
					if lates.Add(1); err == nil {
						s.echoed(reply, argument)
					} else if !cuts {
						tells(fmt.Errorf("Late was told %w", err))
					}
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				stays := patience
				if i%2 == 0 {
					stays = rand.N(3 * tickEvery)
				}
				leaves := time.AfterFunc(stays, func() { cancel(errGaveUp) })
				_, err := p.Do(ctx, c)
				leaves.Stop()
				cancel(nil)
				e := (*Error)(nil)
				switch {
				case err == nil:
					s.echoed(c.Reply, argument)
					answered.Add(1)
				case !errors.As(err, &e):
					tells(fmt.Errorf("Do = %w, want an *Error", err))
				case e.Pending:
					left.Add(1)
				case errors.Is(err, errGaveUp): // before it was sent, or while its connection was cut
				case cuts && e.Sent:
					cut.Add(1)
				default:
					tells(fmt.Errorf("Do = %w, sent %v", e, e.Sent))
				}
			}
		})
	}
	all.Wait()
	await.Until(t, "all calls have an outcome", func() bool { return p.Open() == 0 })
	s.writes.Store(nil)
	if stuck || told != nil {
		return stuck, told
	}
	s.answered(p, "in the end")
	t.Logf("%d answered, %d left, %d cut; %d reads interrupted, %d connections", answered.Load(), left.Load(), cut.Load(), s.interrupted.Load(), s.accepted.Load())
	if lates.Load() != left.Load() {
		t.Errorf("%d callers left, and Late was called %d times", left.Load(), lates.Load())
	}
	if !happened() {
		t.Error("not all that was to happen has happened")
	}
	if n := p.Connections(); !cuts && n != size {
		t.Errorf("%d of %d connections are left", n, size)
	}
	return false, nil
}
