package library

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

// A Turn is what one lock that was free was taken and given back with, byte for
// byte. It can be sent again and again: the key, the token and the fence in it fit
// each other, and the lock is free before it and after it.
type Turn struct {
	Commands int64
	Sent     []byte
	Received []byte
}

// Record has the library called name take n turns, one after the other on a key
// each, in the Redis at addr, and returns what was sent and received.
func Record(ctx context.Context, name, addr string, n int) (turns []Turn, err error) {
	wire := new(Wire)
	locks, err := Open(name, addr, wire)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, locks.Close()) }()
	turns, err = alike(n, func(i int) (Turn, error) {
		return wire.record(func() error {
			unlock, err := locks.Lock(ctx, strconv.Itoa(1+i%n))
			if err != nil {
				return err
			}
			return unlock()
		})
	})
	if err != nil {
		return nil, fmt.Errorf("library %s: %w", name, err)
	}
	return turns, nil
}

const warmTurns = 50

// alike takes turns until it has n that are alike: with as many commands, and with
// replies that differ in nothing but their strings. During some turns the library sends
// something else, and on a busy machine it asks in another way. The first ones, which
// open connections and make scripts known, do not count.
func alike(n int, take func(i int) (Turn, error)) ([]Turn, error) {
	groups := make(map[string][]Turn)
	for i := range warmTurns + 2*n {
		t, err := take(i)
		if err != nil {
			return nil, err
		}
		if i < warmTurns {
			continue
		}
		kind := t.kind()
		groups[kind] = append(groups[kind], t)
		if len(groups[kind]) == n {
			return groups[kind], nil
		}
	}
	return nil, fmt.Errorf("of %d turns fewer than half are alike", 2*n)
}

// kind is what turns have in common that are alike.
func (t Turn) kind() string {
	kind := fmt.Appendln(nil, t.Commands)
	for rest := t.Received; len(rest) > 0; {
		line, more, _ := bytes.Cut(rest, []byte("\r\n"))
		rest = more
		if n, err := strconv.Atoi(string(bytes.TrimPrefix(line, []byte("$")))); err == nil && line[0] == '$' && n >= 0 {
			line, rest = []byte("$"), rest[min(n+len("\r\n"), len(rest)):]
		}
		kind = append(append(kind, line...), '\n')
	}
	return string(kind)
}

// record returns what is sent and received during a turn, on all connections.
func (w *Wire) record(turn func() error) (Turn, error) {
	var t tape
	before := w.Commands()
	w.tape.Store(&t)
	err := turn()
	w.tape.Store(nil)
	t.mu.Lock() // somebody else may be about to write to it
	defer t.mu.Unlock()
	return Turn{Commands: w.Commands() - before, Sent: slices.Clone(t.sent), Received: slices.Clone(t.received)}, err
}

// A tape keeps what passes.
type tape struct {
	mu             sync.Mutex
	sent, received []byte
}

func (t *tape) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = append(t.sent, p...)
}

func (t *tape) read(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.received = append(t.received, p...)
}
