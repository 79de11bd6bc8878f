package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/test/await"
)

// A slowServer takes a moment for each command. It lives in a synctest bubble.
type slowServer struct {
	*testing.T
	*Pool
	running sync.WaitGroup

	mu    sync.Mutex
	conn  net.Conn
	asked []string
	stops time.Duration // for so long, once
}

const eachTakes = 100 * time.Microsecond

func newSlowServer(t *testing.T) *slowServer {
	s := &slowServer{T: t}
	s.Pool = New(Options{Size: 1, Silence: time.Second, Dial: func(context.Context) (net.Conn, error) {
		mine, theirs := net.Pipe()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conn = theirs
		commands := make(chan string, 10_000)
		s.running.Go(func() {
			defer close(commands)
			for r := bufio.NewReader(theirs); ; {
				argument, err := argument(r)
				if err != nil {
					return
				}
				commands <- argument
			}
		})
		s.running.Go(func() {
			for argument := range commands {
				s.mu.Lock()
				s.asked = append(s.asked, argument)
				takes := eachTakes + s.stops
				s.stops = 0
				s.mu.Unlock()
				time.Sleep(takes)
				if echo(theirs, argument) != nil {
					return
				}
			}
		})
		return mine, nil
	}})
	s.answers(t.Context(), ask("first"), "first") // so it is known how long a reply takes
	return s
}

// Close closes the pool, which ends the server's goroutines.
func (s *slowServer) Close() { s.Pool.Close(); s.running.Wait() }

// answers sends c, which has its reply if ctx does not end first.
func (s *slowServer) answers(ctx context.Context, c *Call, text string) {
	switch _, err := s.Do(ctx, c); {
	case ctx.Err() != nil:
		failed(s.T, err, false, false)
	case err != nil || !strings.Contains(string(c.Reply), text):
		s.Errorf("%s: error %v, reply %q", text, err, c.Reply)
	}
}

// behind has n calls in flight that are not patient, until the server counts as behind.
func (s *slowServer) behind(n int) (all *sync.WaitGroup) {
	all = new(sync.WaitGroup)
	for range n {
		all.Go(func() { s.answers(s.Context(), ask("load"), "load") })
	}
	time.Sleep(2 * behindAfter)
	return all
}

// count returns how often the server was asked for something.
func (s *slowServer) count(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, asked := range s.asked {
		if asked == text {
			n++
		}
	}
	return n
}

func patientCall(text string) *Call {
	c := ask(text)
	c.Patient = true
	return c
}

func TestACallThatIsHeldBackAndLeavesIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowServer(t)
		defer s.Close()
		all := s.behind(1000)
		for range 1000 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
				defer cancel()
				s.answers(ctx, patientCall("patient"), "patient")
			})
		}
		all.Wait()
		if n := s.count("patient"); n > 0 {
			t.Errorf("%d of 1000 were sent", n)
		}
		s.answers(t.Context(), patientCall("patient"), "patient")
	})
}

func TestCallsThatAreHeldBackAreSentInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowServer(t)
		defer s.Close()
		all := s.behind(1000)
		for i := range 300 {
			text := fmt.Sprint("patient ", i)
			all.Go(func() { s.answers(t.Context(), patientCall(text), text) })
			time.Sleep(time.Microsecond)
		}
		s.answers(t.Context(), ask("gives back"), "gives back") // is not held back
		if n := s.count("patient 299"); n > 0 {
			t.Error("the patient calls were not held back")
		}
		began := time.Now()
		all.Wait()
		var order []string
		for _, asked := range s.asked {
			if strings.HasPrefix(asked, "patient") {
				order = append(order, asked)
			}
		}
		for i, text := range order {
			if want := fmt.Sprint("patient ", i); text != want {
				t.Fatalf("%s was sent when %s was the next", text, want)
			}
		}
		if took := time.Since(began); took > 310*eachTakes {
			t.Errorf("300 calls took %v: the server had nothing to do meanwhile", took)
		}
	})
}

func TestACallIsHeldBackUntilItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowServer(t)
		defer s.Close()
		all := s.behind(1000)
		c := patientCall("patient")
		c.Deadline = time.Now().Add(50 * time.Millisecond)
		_, err := s.Do(t.Context(), c)
		failed(t, err, false, false)
		if late := time.Since(c.Deadline); !errors.Is(err, ErrBehind) || late > tickEvery {
			t.Errorf("Do = %v, %v after its deadline, want ErrBehind within a tick", err, late)
		}
		all.Wait()
	})
}

// Those who give back and renew may keep the server busy for ever. Whoever asks for
// something new has its turn all the same.
func TestACallIsNotHeldBackForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowServer(t)
		defer s.Close()
		var load, all sync.WaitGroup
		stop := make(chan struct{})
		for range 300 {
			load.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						s.answers(t.Context(), ask("load"), "load")
					}
				}
			})
		}
		time.Sleep(2 * behindAfter)
		for range 10 {
			all.Go(func() {
				c := patientCall("patient")
				c.Deadline = time.Now().Add(5 * heldBackMost)
				s.answers(t.Context(), c, "patient")
			})
		}
		all.Wait()
		close(stop)
		load.Wait()
	})
}

// Calls are not held back by a connection that broke, or one whose replies do not come.
func TestWhoWaitsForNothingIsNotHeldBack(t *testing.T) {
	for _, name := range []string{"broken", "silent"} {
		synctest.Test(t, func(t *testing.T) {
			s := newSlowServer(t)
			defer s.Close()
			var load sync.WaitGroup
			for range 1000 {
				load.Go(func() { _, _ = s.Do(t.Context(), ask("load")) })
			}
			time.Sleep(2 * behindAfter)
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() { _, _ = s.Do(t.Context(), patientCall("patient")) })
			}
			synctest.Wait()
			s.Pool.mu.Lock()
			held := s.patient.n
			s.Pool.mu.Unlock()
			if held != 100 {
				t.Fatalf("%s: %d calls were held back, want 100", name, held)
			}
			if name == "silent" {
				s.mu.Lock()
				s.stops = 100 * time.Millisecond
				s.mu.Unlock()
				time.Sleep(overdueAfter + 3*tickEvery)
				s.Pool.mu.Lock()
				held = s.patient.n
				s.Pool.mu.Unlock()
				if held > 0 {
					t.Errorf("%d calls are still held back", held)
				}
			} else {
				s.mu.Lock()
				_ = s.conn.Close()
				s.mu.Unlock()
			}
			all.Wait()
			if n := s.count("patient"); n != 100 {
				t.Errorf("%s: %d of 100 were sent", name, n)
			}
			load.Wait()
		})
	}
}

// Calls in flight that nobody awaits say nothing of how busy the server is: their replies may lie there unread. They keep
// nobody from being sent.
func TestCallsThatNobodyAwaitsHoldNobodyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowServer(t)
		defer s.Close()
		for range behindLeast {
			lazy := ask("lazy")
			lazy.Late = func([]byte, error) {}
			s.Post(lazy, false)
		}
		c, told := patientCall("patient"), make(chan error, 1)
		c.Late = func(_ []byte, err error) { told <- err }
		p := s.Pool
		p.mu.Lock()
		c.state, c.missing = left, c.Replies // as put does, of a call that waits until others have their replies
		p.open++
		p.holdBack(c, time.Now())
		p.conns[0].admit(0, time.Now())
		if p.patient.n > 0 {
			t.Error("the call is held back")
		}
		p.conns[0].handOverReading() // the call has no owner who looks
		p.unlock()
		if err := await.Receive(t, "Late", told); err != nil {
			t.Error(err)
		}
	})
}

// The fastest reply is forgotten slowly, since the way to the server may become longer.
func TestTheFastestReplyFades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowServer(t)
		defer s.Close()
		fastest := func() time.Duration {
			s.Pool.mu.Lock()
			defer s.Pool.mu.Unlock()
			return s.conns[0].fastest
		}
		if got := fastest(); got != eachTakes {
			t.Fatalf("the fastest reply took %v, want %v", got, eachTakes)
		}
		s.behind(1000).Wait()
		if got := fastest(); got <= eachTakes || got > eachTakes+100*time.Microsecond {
			t.Errorf("after a while under load the fastest reply took %v", got)
		}
		s.answers(t.Context(), ask("alone"), "alone")
		if got := fastest(); got != eachTakes {
			t.Errorf("the fastest reply took %v, want %v again", got, eachTakes)
		}
	})
}

// farServer returns a pool whose server answers at once, but is 40 to 60 ms away. The reply to "lost" never comes.
// Close the pool, then wait.
func farServer(running *sync.WaitGroup) *Pool {
	return New(Options{Size: 8, Silence: time.Second, Dial: func(context.Context) (net.Conn, error) {
		type reply struct {
			text string
			at   time.Time
		}
		mine, theirs := net.Pipe()
		replies := make(chan reply, 10_000)
		running.Go(func() {
			defer close(replies)
			for r := bufio.NewReader(theirs); ; {
				text, err := argument(r)
				if err != nil {
					return
				}
				if text != "lost" {
					replies <- reply{text, time.Now().Add(40*time.Millisecond + rand.N(20*time.Millisecond))}
				}
			}
		})
		running.Go(func() {
			for r := range replies {
				time.Sleep(time.Until(r.at))
				_ = echo(theirs, r.text) // it fails when the pool is closed
			}
		})
		return mine, nil
	}})
}

// A server that is far away answers now sooner, now later. It is not behind for that.
func TestAFarServerIsNotBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, all sync.WaitGroup
		p := farServer(&running)
		var turns atomic.Int32
		until := time.Now().Add(time.Second)
		for range 2000 {
			all.Go(func() {
				for time.Now().Before(until) {
					if _, err := p.Do(t.Context(), patientCall("far")); err != nil {
						t.Error(err)
					}
					turns.Add(1)
				}
			})
		}
		all.Wait()
		p.Close()
		running.Wait()
		if n := turns.Load(); n < 30_000 { // in a second, with replies in 60 ms at most
			t.Errorf("2000 callers made %d turns, want 30,000 at least", n)
		}
	})
}

// While the server is behind a patient call does not go behind one that was posted: it is held back, as it would be otherwise.
func TestAPatientCallGoesBehindNothingWhileTheServerIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlowServer(t)
		load := s.behind(200)
		first := ask("released")
		s.Post(first, false)
		patient, other := patientCall("patient"), ask("not patient")
		patient.Behind, other.Behind = first, first
		if _, err := s.Do(t.Context(), patient); !errors.Is(err, ErrNotBehind) {
			t.Errorf("Do = %v, want %v", err, ErrNotBehind)
		}
		if _, err := s.Do(t.Context(), other); err != nil {
			t.Error(err)
		}
		if n := s.count("patient"); n != 0 {
			t.Errorf("the server was asked %d times by the patient one", n)
		}
		load.Wait()
		s.Close()
	})
}
