package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
)

// errUnlucky is a dial that fails.
var errUnlucky = errors.New("unlucky dial")

// A storm is a server and a Dialer that do at random all that may go wrong with a
// connection.
type storm struct {
	*server
	calm atomic.Bool // nothing goes wrong any more
}

// draw returns a number below n while the storm lasts, and then n.
func (s *storm) draw(n int) int {
	if s.calm.Load() {
		return n
	}
	return rand.N(n)
}

// pause waits up to most.
func (s *storm) pause(most time.Duration) { time.Sleep(rand.N(most)) }

// serveBadly replies to ECHO over c, in pieces and late, until c breaks.
func (s *storm) serveBadly(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 512)
	for {
		argument, err := argument(r)
		if err != nil {
			return
		}
		reply := fmt.Appendf(nil, "$%d\r\n%s\r\n", len(argument), argument)
		switch s.draw(2000) {
		case 0: // broken in the middle of a reply
			_, _ = c.Write(reply[:rand.N(len(reply))])
			return
		case 1: // nothing more comes, but it reads on
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, r)
			return
		case 2: // it hangs
			_, _ = io.Copy(io.Discard, r)
			return
		case 3: // it does not even read
			s.pause(300 * time.Millisecond)
		case 4: // reset
			_ = c.(*net.TCPConn).SetLinger(0)
			return
		case 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15:
			s.pause(20 * time.Millisecond)
		}
		for len(reply) > 0 {
			n := len(reply)
			if s.draw(4) == 0 {
				n = 1 + rand.N(n)
			}
			if _, err := c.Write(reply[:n]); err != nil {
				return
			}
			reply = reply[n:]
		}
	}
}

// dial fails, takes its time, or returns a connection.
func (s *storm) dial(ctx context.Context) (net.Conn, error) {
	switch s.draw(10) {
	case 0:
		return nil, errUnlucky
	case 1:
		s.pause(50 * time.Millisecond)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr().String())
}

// A sailor makes calls in a storm, and knows what must come of each.
type sailor struct {
	*storm
	pool  *Pool
	name  string
	call  *Call
	turns int

	ok, broke, late, left, posted int

	pending *atomic.Int32 // Lates that are to come
}

// sail makes a call.
func (s *sailor) sail() {
	s.turns++
	if s.call == nil {
		s.call = new(Call)
	}
	c := s.call
	c.Commands, c.Replies = c.Commands[:0], 0
	var want []byte
	for i := range 1 + rand.N(4) {
		argument := fmt.Sprintf("%s/%d/%d", s.name, s.turns, i)
		if rand.N(50) == 0 {
			argument += strings.Repeat("x", rand.N(100<<10))
		}
		c.Commands = AppendString(AppendString(AppendCommand(c.Commands, 2), "ECHO"), argument)
		want = fmt.Appendf(want, "$%d\r\n%s\r\n", len(argument), argument)
		c.Replies++
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	limit := time.Second
	if rand.N(6) == 0 {
		limit = rand.N(30 * time.Millisecond)
	}
	c.Deadline, c.Patient, c.Urgent = time.Now().Add(limit), rand.N(2) == 0, rand.N(8) == 0
	deadline := c.Deadline
	if rand.N(6) == 0 {
		defer time.AfterFunc(rand.N(10*time.Millisecond), func() { cancel(errGaveUp) }).Stop()
	}
	var lates atomic.Int32
	var pending atomic.Bool
	s.pending.Add(1)
	c.Late = func(replies []byte, err error) {
		if lates.Add(1) > 1 {
			s.Errorf("%s: Late was called again", s.name)
			return
		}
		if err == nil && string(replies) != string(want) {
			s.Errorf("%s: Late has %.99q, want %.99q", s.name, replies, want)
		}
		s.pending.Add(-1)
	}
	if rand.N(4) == 0 {
		s.posts(ctx, c)
		return
	}
	reusable, err := s.pool.Do(ctx, c)
	if took := time.Since(deadline); took > patience/4 {
		s.Errorf("%s: Do returned %v after its deadline, with %v", s.name, took, err)
	}
	failed := (*Error)(nil)
	switch {
	case err == nil:
		s.ok++
		if !reusable || string(c.Reply) != string(want) {
			s.Errorf("%s: Do = %v, %.99q, want true and %.99q", s.name, reusable, c.Reply, want)
		}
	case !errors.As(err, &failed):
		s.Errorf("%s: Do = %v, want an *Error", s.name, err)
	case failed.Pending:
		s.left++
		pending.Store(true)
		if reusable || !failed.Sent || !errors.Is(err, errGaveUp) {
			s.Errorf("%s: Do = %v, %+v, want false and a cause", s.name, reusable, failed)
		}
	case errors.Is(err, ErrTimeout):
		s.late++
		if time.Now().Before(deadline) {
			s.Errorf("%s: Do = %v before its time", s.name, err)
		}
	default:
		s.broke++
		if reusable && !bytes.HasPrefix(want, c.Reply) {
			s.Errorf("%s: Do = %v, %.99q, want a part of %.99q", s.name, err, c.Reply, want)
		}
	}
	if !pending.Load() {
		s.pending.Add(-1)
	}
	if !reusable {
		s.call = nil
	}
}

// posts posts c, and may await it. Late checks what comes of it.
func (s *sailor) posts(ctx context.Context, c *Call) {
	s.posted++
	s.call = nil
	began := time.Now()
	s.pool.Post(c, rand.N(2) == 0)
	if took := time.Since(began); took > patience/4 {
		s.Errorf("%s: Post took %v", s.name, took)
	}
	if rand.N(3) == 0 {
		s.pool.Await(ctx, c)
	}
}

// Whatever goes wrong and whenever, each call has exactly its own replies or an error,
// by its deadline or soon after; Late is called once for those whose callers left; and
// when all is well again, so are the calls.
func TestCallsInAStorm(t *testing.T) {
	const callers, lasts = 48, 4 * time.Second
	s := &storm{server: newServer(t)}
	s.serves(s.serveBadly)
	p := New(Options{Size: 4, Silence: 200 * time.Millisecond, Dial: s.dial})
	var all sync.WaitGroup
	var pending atomic.Int32
	sailors := make([]*sailor, callers)
	until := time.Now().Add(lasts)
	for i := range sailors {
		sailors[i] = &sailor{storm: s, pool: p, name: fmt.Sprint("caller ", i), pending: &pending}
		all.Go(func() {
			for time.Now().Before(until) && !t.Failed() {
				sailors[i].sail()
			}
		})
	}
	all.Go(func() {
		for time.Now().Before(until) {
			s.pause(200 * time.Millisecond)
			p.Retire()
		}
	})
	all.Go(func() {
		for time.Now().Before(until) && !t.Failed() {
			if err := p.violated(); err != nil {
				t.Error(err)
			}
			s.pause(time.Millisecond)
		}
	})
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	await.Receive(t, "all callers", ended)
	s.calm.Store(true)
	await.Until(t, "all calls have an outcome", func() bool { return p.Open() == 0 })
	await.Until(t, "all connections that hang are given up", func() bool { return p.inFlight() == 0 })
	p.bearsSilence()
	for i := range 100 {
		s.answered(p, fmt.Sprint("calm ", i))
	}
	closed := make(chan struct{})
	go func() { defer close(closed); p.Close() }()
	await.Receive(t, "Close", closed)
	var ok, broke, late, left, posted int
	for _, one := range sailors {
		ok, broke, late, left, posted = ok+one.ok, broke+one.broke, late+one.late, left+one.left, posted+one.posted
	}
	t.Logf("%d answered, %d broke, %d out of time, %d left, %d posted; %d connections", ok, broke, late, left, posted, s.accepted.Load())
	if n := pending.Load(); n != 0 {
		t.Errorf("%d calls of Late are missing", n)
	}
	if ok == 0 || broke == 0 || late == 0 || left == 0 || posted == 0 {
		t.Error("the storm was none")
	}
}
