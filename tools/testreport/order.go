package main

import (
	"bytes"
	"io"
	"sync"
)

// inTurn calls do with 0 to number-1, in that order, and returns when all calls have. The first
// ones, as many as alone says, run with no other beside them; of the others so many run at a time as
// beside says.
func inTurn(number, alone, beside int, do func(i int)) {
	free := make(chan struct{}, beside)
	var running sync.WaitGroup
	for i := range number {
		if i <= alone {
			running.Wait()
		}
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			do(i)
		})
	}
	running.Wait()
}

// A place is where one of several runs writes. What all have written stands in the order of their
// places: the first that has not ended writes through, and those behind it once it is their turn.
type place struct {
	row    *row
	number int
	held   bytes.Buffer // until it is its turn
	ended  bool
}

// row is all places.
type row struct {
	out io.Writer

	mu     sync.Mutex
	places []*place
	turn   int // whose it is
}

// inOrder returns so many places.
func inOrder(out io.Writer, number int) []*place {
	r := &row{out: out}
	for i := range number {
		r.places = append(r.places, &place{row: r, number: i})
	}
	return r.places
}

// Write may be called concurrently.
func (p *place) Write(text []byte) (int, error) {
	p.row.mu.Lock()
	defer p.row.mu.Unlock()
	if p.row.turn == p.number {
		return p.row.out.Write(text)
	}
	return p.held.Write(text)
}

// end tells that nothing more comes from this place.
func (p *place) end() {
	r := p.row
	r.mu.Lock()
	defer r.mu.Unlock()
	p.ended = true
	for r.turn < len(r.places) && r.places[r.turn].ended {
		r.turn++
		if r.turn < len(r.places) {
			_, _ = r.places[r.turn].held.WriteTo(r.out) // nobody to tell
		}
	}
}
