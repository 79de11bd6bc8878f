package wire

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockmw/kit/internal/test/await"
)

// Those that rest are closed at once; a call that is under way has its reply over its
// connection, which is closed then. Later calls take a new one.
func TestRetiredConnectionsEndWhatIsUnderWay(t *testing.T) {
	const size = 3
	s := newServer(t)
	p := s.pool(size)
	s.connected(p, size)
	hold := make(chan struct{})
	s.does(func(w io.Writer, argument string) error {
		if argument == "under way" {
			<-hold
		}
		return echo(w, argument)
	})
	before := s.accepted.Load()
	done := make(chan struct{})
	go func() { defer close(done); s.answered(p, "under way") }()
	await.Until(t, "it is in flight", func() bool { return p.inFlight() == 1 })
	p.Retire()
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections, want the one with a call under way", n)
	}
	s.answered(p, "later")
	s.answered(p, "and again")
	if n := s.accepted.Load() - before; n != 1 {
		t.Errorf("%d new connections, want 1", n)
	}
	close(hold)
	await.Receive(t, "the reply", done)
	if n := p.Connections(); n != 1 {
		t.Errorf("%d connections, want the new one", n)
	}
}

// A connection that was being dialled serves those who wait for it, and nobody else.
func TestADialUnderWayIsRetired(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		s := newServer(t)
		hold := make(chan struct{})
		s.does(func(w io.Writer, argument string) error {
			if argument == "waits" {
				<-hold
			}
			return echo(w, argument)
		})
		dials, goesOn := make(chan struct{}, 100), make(chan struct{})
		p := s.pool(1, func(o *Options) {
			dial := o.Dial
			o.Dial = func(ctx context.Context) (net.Conn, error) {
				dials <- struct{}{}
				<-goesOn
				return dial(ctx)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := p.Do(ctx, ask("waits")); done <- err }()
		await.Receive(t, "the dial", dials)
		p.Retire()
		if leaves {
			cancel()
			failed(t, await.Receive(t, "the caller", done), false, false)
		}
		close(goesOn)
		if !leaves {
			await.Until(t, "its call is in flight", func() bool { return p.inFlight() == 1 })
			s.answered(p, "later") // while the reply to the other is held back
		}
		close(hold)
		if !leaves {
			if err := await.Receive(t, "the reply", done); err != nil {
				t.Errorf("Do = %v, want nil", err)
			}
		}
		await.Until(t, "the dials are over", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.dials) == 0
		})
		if n := p.Connections(); n > len(dials) { // which has those that were begun since
			t.Errorf("%d connections, and %d dialled since", n, len(dials))
		}
		cancel()
	}
}

// Who waits for a dial that fails with credentials that are out of date has another one.
func TestADialUnderWayThatFailsIsRepeated(t *testing.T) {
	s := newServer(t)
	dials, goesOn := make(chan struct{}, 100), make(chan struct{})
	var failed atomic.Bool
	p := s.pool(1, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context) (net.Conn, error) {
			dials <- struct{}{}
			<-goesOn
			if !failed.Swap(true) {
				return nil, errUnlucky
			}
			return dial(ctx)
		}
	})
	done := make(chan struct{})
	go func() { defer close(done); s.answered(p, "waits") }()
	await.Receive(t, "the dial", dials)
	p.Retire()
	close(goesOn)
	await.Receive(t, "the reply", done)
}

// However often connections are retired, no call fails or is late, and none of the
// connections is left.
func TestNobodyNoticesThatConnectionsAreRetired(t *testing.T) {
	const callers, turns = 64, 100
	s := newServer(t)
	p := s.pool(4)
	stop := make(chan struct{})
	var all, retiring sync.WaitGroup
	retiring.Go(func() {
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-tick.C:
				p.Retire()
			case <-stop:
				tick.Stop()
				return
			}
		}
	})
	for i := range callers {
		all.Go(func() {
			for turn := range turns {
				s.answered(p, fmt.Sprint(i, "/", turn))
			}
		})
	}
	all.Wait()
	close(stop)
	retiring.Wait()
	p.Retire()
	if n := p.Connections(); n != 0 {
		t.Errorf("%d connections, want none", n)
	}
	t.Logf("%d connections were dialled", s.accepted.Load())
}

// A retired connection that hangs is given up, though nobody waits for a reply any more.
func TestARetiredConnectionThatHangs(t *testing.T) {
	s := newServer(t)
	p := s.pool(1, func(o *Options) { o.Silence = 5 * hangsLeast })
	s.answered(p, "first") // so that the deadline is not for making the connection
	s.does(func(io.Writer, string) error { return nil })
	c := ask("hangs")
	c.Deadline = time.Now().Add(hangsLeast / 2)
	_, err := p.Do(t.Context(), c)
	failed(t, err, true, false)
	await.Until(t, "nobody looks after it", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.ticking
	})
	p.Retire()
	await.Until(t, "it is given up", func() bool { return p.Connections() == 0 })
}
