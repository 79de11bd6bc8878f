// Package beside runs the old and the new version of a program side by side on the same locks, and sees
// whether both are ever at work at the same time.
//
// Start reading at ledger.go, then run.go; main.go is what the programs have in common.
package beside

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Work is what a program does under the lock of a key.
type Work = func(ctx context.Context, key string) error

// A Ledger is what the programs work on: a number in Redis for each key. Work reads it, and writes it back
// one higher. There are two witnesses of a lock that does not exclude: Overlaps counts work that begins while
// other work is under way on the same key, and Lost counts what was overwritten.
type Ledger struct {
	client  *redis.Client
	run     string // part of all names, so that runs do not meet
	between func() // called between reading and writing; a test waits there

	mu       sync.Mutex
	inside   map[string]int    // by key: how many are at work
	last     map[string]string // by key: who came last
	jobs     map[string]int    // by program: work that is done
	overlaps int
	turns    int
}

// NewLedger returns a ledger whose numbers are all zero.
func NewLedger(client *redis.Client) *Ledger {
	return &Ledger{
		client:  client,
		run:     fmt.Sprintf("%08x", rand.Uint32()),
		between: func() {},
		inside:  make(map[string]int),
		last:    make(map[string]string),
		jobs:    make(map[string]int),
	}
}

// Key returns the key of a number. Two ledgers have no key in common.
func (l *Ledger) Key(i int) string { return fmt.Sprintf("%s-%d", l.run, i) }

// Work returns the work of a program. It writes nothing once its context has ended.
func (l *Ledger) Work(program string) Work {
	return func(ctx context.Context, key string) error {
		defer l.Enter(program, key)()
		number := numbers + key
		n, err := l.client.Get(ctx, number).Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		l.between()
		if err := l.client.Set(ctx, number, n+1, 0).Err(); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.jobs[program]++
		return nil
	}
}

// numbers is what the names of the numbers in Redis begin with.
const numbers = "beside:"

// Enter notes that a program is at work on a key, until the function that it returns is called.
func (l *Ledger) Enter(program, key string) (leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside[key]++; l.inside[key] > 1 {
		l.overlaps++
	}
	if last := l.last[key]; last != "" && last != program {
		l.turns++
	}
	l.last[key] = program
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.inside[key]--
	}
}

// Overlaps returns how often work began while other work was under way on the same key.
func (l *Ledger) Overlaps() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.overlaps
}

// Turns returns how often a key went from one program to another.
func (l *Ledger) Turns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turns
}

// Jobs returns how much work each program has done.
func (l *Ledger) Jobs() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.jobs)
}

// Lost returns how much of the work that was done is missing in the numbers. Nobody may be at work.
func (l *Ledger) Lost(ctx context.Context) (int, error) {
	lost := 0
	for _, n := range l.Jobs() {
		lost += n
	}
	names, err := l.names(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, numbers) {
			n, err := l.client.Get(ctx, name).Int()
			if err != nil {
				return 0, err
			}
			lost -= n
		}
	}
	return lost, nil
}

// Left returns what is in Redis of this run beside the numbers: of locks that are held, or were not given
// back.
func (l *Ledger) Left(ctx context.Context) (left []string, err error) {
	names, err := l.names(ctx)
	for _, name := range names {
		if !strings.HasPrefix(name, numbers) {
			left = append(left, name)
		}
	}
	return left, err
}

// Erase removes the numbers.
func (l *Ledger) Erase(ctx context.Context) error {
	names, err := l.names(ctx)
	for _, name := range names {
		if strings.HasPrefix(name, numbers) {
			err = errors.Join(err, l.client.Del(ctx, name).Err())
		}
	}
	return err
}

// names returns all names in Redis of this run.
func (l *Ledger) names(ctx context.Context) (names []string, err error) {
	scan := l.client.Scan(ctx, 0, "*"+l.run+"*", 1000).Iterator()
	for scan.Next(ctx) {
		names = append(names, scan.Val())
	}
	return names, scan.Err()
}
