package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/lockmw/kit/bench/library"
)

// replay is a load that sends recorded turns through one connection, as fast as
// Redis takes them, and reads the replies meanwhile. So Redis finds work whenever it
// looks, and does nothing else: what it uses is what the commands cost it.
type replay struct {
	spec  Spec
	turns []library.Turn
	conn  net.Conn
}

// record returns a load that has recorded its turns.
func record(ctx context.Context, s Spec) (Job, error) {
	turns, err := library.Record(ctx, s.Library, s.Addr, s.Replay)
	if err != nil {
		return nil, fmt.Errorf("library %s: %w", s.Library, err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, err
	}
	return &replay{spec: s, turns: turns, conn: conn}, nil
}

// replyTime is how long the replies to what is under way may take.
const replyTime = 10 * time.Second

func (r *replay) Run(_ context.Context, w Window) (Result, error) {
	if err := r.conn.SetDeadline(w.End.Add(replyTime)); err != nil {
		return Result{}, err
	}
	var turns int64
	var all sync.WaitGroup
	var sending, receiving error
	all.Go(func() {
		if sending = r.send(w.End); sending != nil {
			r.conn.Close() // or the other one would wait for its deadline
		}
	})
	all.Go(func() {
		if turns, receiving = r.receive(w); receiving != nil {
			r.conn.Close()
		}
	})
	use, err := measure(w, new(library.Wire), r.spec.Profile)
	all.Wait()
	if receiving != nil && !errors.Is(receiving, net.ErrClosed) {
		sending = nil // it comes of closing the connection
	}
	return Result{
		Turns: turns, Most: turns, Fewest: turns,
		Allocs: use.allocs, CPU: use.cpu, Commands: turns * r.turns[0].Commands,
	}, errors.Join(err, sending, receiving)
}

// Behind the last turn something else is asked, so that its reply tells the end.
const lastCommand, lastReply = "PING\r\n", "+PONG\r\n"

// send sends all turns again and again until the end.
func (r *replay) send(end time.Time) error {
	var all []byte
	for _, t := range r.turns {
		all = append(all, t.Sent...)
	}
	for time.Now().Before(end) {
		if _, err := r.conn.Write(all); err != nil {
			return err
		}
	}
	_, err := io.WriteString(r.conn, lastCommand)
	return err
}

// receive reads the replies to all that is sent, and returns how many turns ended
// within the window.
func (r *replay) receive(w Window) (turns int64, err error) {
	in := bufio.NewReaderSize(r.conn, 64<<10)
	for {
		for _, t := range r.turns {
			next, err := in.Peek(len(lastReply)) // no turn's replies are shorter
			if err != nil || string(next) == lastReply {
				return turns, err
			}
			if err := expect(in, t.Received); err != nil {
				return turns, err
			}
			if now := time.Now(); !now.Before(w.Begin) && now.Before(w.End) {
				turns++
			}
		}
	}
}

// expect reads replies that are those of want, apart from the strings in them, which
// tell the time.
func expect(in *bufio.Reader, want []byte) error {
	for len(want) > 0 {
		line, rest, _ := bytes.Cut(want, []byte("\n"))
		want = rest
		got, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		got = got[:len(got)-1]
		if !bytes.Equal(line, got) && (!varies(line) || !varies(got)) {
			return fmt.Errorf("the reply is %q, and it was %q when the turn was recorded", got, line)
		}
	}
	return nil
}

// varies reports whether a line of a reply may differ from one time to the next: a
// number that was sent as a string, or its length.
func varies(line []byte) bool {
	return len(line) > 1 && (line[0] >= '0' && line[0] <= '9' || line[0] == '$' && line[1] != '-')
}

// Close closes the connection.
func (r *replay) Close() error {
	if err := r.conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
