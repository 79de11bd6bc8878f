package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
)

// patience bounds every wait of these tests, on a slow machine.
const patience = await.Patience

// A server replies to ECHO with its argument, unless a test has it do otherwise.
type server struct {
	*testing.T
	net.Listener
	running  sync.WaitGroup
	accepted atomic.Int32

	mu    sync.Mutex
	conns []net.Conn
	reply func(w io.Writer, argument string) error
	whole func(net.Conn) // not nil: serves a connection instead
	hold  chan struct{}  // not nil: nothing is read until it is closed
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{T: t, Listener: l}
	s.does(echo)
	s.running.Go(s.accept)
	t.Cleanup(func() { s.stop(); s.running.Wait() })
	return s
}

func echo(w io.Writer, argument string) error {
	_, err := fmt.Fprintf(w, "$%d\r\n%s\r\n", len(argument), argument)
	return err
}

// does has s reply in another way.
func (s *server) does(reply func(w io.Writer, argument string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply = reply
}

// serves has s serve connections in another way.
func (s *server) serves(whole func(net.Conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = whole
}

// stopsReading has s read nothing until resume is called.
func (s *server) stopsReading() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold := make(chan struct{})
	s.hold = hold
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(hold)
		s.hold = nil
	})
}

func (s *server) accept() {
	for {
		c, err := s.Accept()
		if err != nil {
			return
		}
		s.accepted.Add(1)
		s.mu.Lock()
		s.conns = append(s.conns, c)
		serve := s.serve
		if s.whole != nil {
			serve = s.whole
		}
		s.mu.Unlock()
		s.running.Go(func() { serve(c) })
	}
}

func (s *server) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 1024)
	for {
		s.mu.Lock()
		hold := s.hold
		s.mu.Unlock()
		if hold != nil {
			<-hold
		}
		argument, err := argument(r)
		if err != nil {
			return
		}
		s.mu.Lock()
		reply := s.reply
		s.mu.Unlock()
		if reply(c, argument) != nil {
			return
		}
	}
}

// argument reads a command and returns its last argument.
func argument(r *bufio.Reader) (last string, err error) {
	line, err := r.ReadString('\n')
	if err != nil || line[0] != '*' {
		return "", errors.Join(err, io.ErrUnexpectedEOF)
	}
	n, err := strconv.Atoi(line[1 : len(line)-2])
	for range n {
		if err != nil {
			return "", err
		}
		if line, err = r.ReadString('\n'); err != nil {
			return "", err
		}
		length, _ := strconv.Atoi(line[1 : len(line)-2])
		text := make([]byte, length+2)
		_, err = io.ReadFull(r, text)
		last = string(text[:length])
	}
	return last, err
}

// cut ends all connections.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

// stop ends the server.
func (s *server) stop() {
	_ = s.Listener.Close()
	s.mu.Lock()
	if s.hold != nil {
		close(s.hold)
		s.hold = nil
	}
	s.mu.Unlock()
	s.cut()
}

// errStill is a server that stands still, and so greets nobody.
var errStill = errors.New("the server stands still")

// pool returns a pool of up to size connections.
func (s *server) pool(size int, mutate ...func(*Options)) *Pool {
	var p *Pool
	o := Options{Size: size, Silence: patience, Dial: func(ctx context.Context) (net.Conn, error) {
		p.mu.Lock()
		p.dialBegan = p.dialBegan.Add(patience) // a dial that takes long, as on a busy machine, has no other one begin beside it: tests count them
		p.mu.Unlock()
		s.mu.Lock()
		still := s.hold != nil
		s.mu.Unlock()
		if still && p.Connections() == size {
			return nil, errStill // no connection hangs while all are held up
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr().String())
	}}
	for _, m := range mutate {
		m(&o)
	}
	p = New(o)
	s.Cleanup(p.Close)
	return p
}

// ask returns a call of ECHO.
func ask(argument string) *Call {
	b := AppendString(AppendString(AppendCommand(nil, 2), "ECHO"), argument)
	return &Call{Commands: b, Replies: 1, Deadline: time.Now().Add(patience)}
}

// answered has p carry out ECHO, and wants its argument back.
func (s *server) answered(p *Pool, argument string) {
	s.Helper()
	c := ask(argument)
	reusable, err := p.Do(s.Context(), c)
	if err != nil || !reusable {
		s.Errorf("Do = %v, %v, want true, nil", reusable, err)
		return
	}
	s.echoed(c.Reply, argument)
}

// echoed wants ECHO's reply.
func (s *server) echoed(reply []byte, argument string) {
	s.Helper()
	if got, rest, err := Parse(reply); got != argument || len(rest) > 0 || err != nil {
		s.Errorf("reply %.99q, want %.99q", reply, argument)
	}
}

// unhurried has no connection that p has count as one that hangs while a test waits for it. Otherwise one does after a tenth of a
// second, for which a busy machine stands still now and then.
func (s *server) unhurried(p *Pool) {
	s.Helper()
	await.Until(s.T, "no dial is under way", func() bool { // it would say anew how long dials take
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.dials) > 0 {
			return false
		}
		p.dialTook = patience
		return true
	})
}

// bearsSilence has p give no connection up that is silent from now on, as it may be on a busy machine.
func (p *Pool) bearsSilence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.options.Silence = patience
}

// failed wants an error of a call, and returns it.
func failed(t *testing.T, err error, sent, pending bool) *Error {
	t.Helper()
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("Do = %v, want an *Error", err)
	}
	if e.Sent != sent || e.Pending != pending {
		t.Errorf("Do = %q, sent %v, pending %v, want sent %v, pending %v", e, e.Sent, e.Pending, sent, pending)
	}
	return e
}

// inFlight is how many calls wait for a reply on p's connections, including those that
// nobody waits for any more.
func (p *Pool) inFlight() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.all() {
		n += k.inFlight.n
	}
	return n
}
