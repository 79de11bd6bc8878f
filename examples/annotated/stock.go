package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Stock is a type whose methods are locked, without an interface. lockgen makes
// LockStock of it, which returns a *LockedStock.
type Stock struct {
	Region  string
	Shelves map[string]*atomic.Int64
}

// Move takes pieces from one shelf to another one. It locks both, so that two moves in
// opposite directions do not wait for each other in a circle.
//
//lockmw:lock {s.Region}:{from} {s.Region}:{to} prefix=shelf: ttl=3s wait=1m
func (s *Stock) Move(ctx context.Context, from, to string, pieces int64) error {
	left, right := s.Shelves[from], s.Shelves[to]
	if left == nil || right == nil || left == right {
		return fmt.Errorf("no way from shelf %q to shelf %q", from, to)
	}
	a, b := left.Load()-pieces, right.Load()+pieces
	time.Sleep(time.Millisecond)
	left.Store(a)
	right.Store(b)
	return ctx.Err()
}

// Pieces returns how many there are on all shelves. It takes no lock.
func (s *Stock) Pieces() (all int64) {
	for _, shelf := range s.Shelves {
		all += shelf.Load()
	}
	return all
}
