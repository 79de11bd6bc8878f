package combos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// policy is the combination's.
func (r *round) policy() lockmw.Policy {
	p := lockmw.Policy{TTL: r.c.TTL, FailOpen: r.c.FailOpen, AsyncRelease: r.c.Async, Permits: r.c.permits()}
	switch wait := r.c.wait(); {
	case wait < 0:
		p.Retries = lockmw.Forever
	case wait > 0:
		p.Wait = wait
	}
	if r.c.Form == minHold {
		p.MinHold = 150 * time.Millisecond
	}
	if p.Permits > 0 && r.ours.Validate(p) != nil {
		p.Permits = 3 // the Locker allows fewer than the combination says
	}
	return p
}

// names returns the keys that caller number i of a burst wants.
func (r *round) names(i int) []string {
	name := fmt.Sprint("own", i)
	switch r.c.Keys {
	case oneKey:
		name = "one"
	case takenKey:
		name = "taken"
	}
	keys := []string{name}
	for len(keys) < r.c.keysOf() {
		key := fmt.Sprint(name, "-", len(keys))
		if r.c.Keys == takenKey {
			key = fmt.Sprint("free", i, "-", len(keys))
		}
		keys = append(keys, key)
	}
	return keys
}

// mine returns the keys that ours holds all along.
func (r *round) mine() []string {
	keys := []string{"mine"}
	for len(keys) < r.c.keysOf() {
		keys = append(keys, fmt.Sprint("mine-", len(keys)))
	}
	return keys
}

// burst has n callers come at once. It does not wait for them.
func (r *round) burst(n int) {
	ctx, end := context.WithCancel(r.whole)
	var when time.Duration
	switch r.c.Shape {
	case cancelled:
		when = time.Duration(3+r.rnd.IntN(80)) * time.Millisecond
	case deadlines:
		end()
		ctx, end = context.WithTimeout(r.whole, time.Duration(20+r.rnd.IntN(100))*time.Millisecond)
	}
	if when > 0 {
		r.background.Go(func() {
			time.Sleep(when)
			end()
		})
	} else {
		context.AfterFunc(r.whole, end)
	}
	p := r.policy()
	var burst sync.WaitGroup
	for i := range n {
		k := call{by: byOurs, keys: r.names(i), wait: r.c.wait()}
		q := p
		if r.c.Form == shared && i%4 != 0 {
			q.Mode, k.shared = lockmw.Shared, true
		}
		hold := time.Duration(1+r.rnd.IntN(4)) * time.Millisecond
		if n < crowd && i%10 == 1 && r.c.Keys == ownKeys {
			hold = 500 * time.Millisecond // it is renewed, where the TTL is short
		}
		burst.Add(1)
		r.callers.Go(func() { defer burst.Done(); r.call(ctx, r.ours, k, q, hold) })
	}
	if n < crowd && r.c.Keys == oneKey { // another process wants it too
		for range min(3, n) {
			k := call{by: byWitness, keys: r.names(0), wait: r.c.wait()}
			r.callers.Go(func() { r.call(ctx, r.witness, k, p, 2*time.Millisecond) })
		}
	}
	r.background.Go(func() { burst.Wait(); end() })
}
