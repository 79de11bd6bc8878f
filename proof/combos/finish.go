package combos

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// judgeKeys looks for keys that are still in Redis two seconds after the load has
// ended and Redis answers; four where thousands have left something, or only the master that was
// replaced was told that a caller has left.
func (r *round) judgeKeys() {
	if r.closing > 0 {
		return // what a Locker that is closed in a fault cannot give back ends by its TTL
	}
	began, limit := r.now(), 2*time.Second
	if r.c.Load == crowd || r.fault.sees == elects {
		limit += 2 * time.Second
	}
	for {
		left, err := r.site.keys(r.namespace)
		if err == nil && len(left) == 0 {
			r.worst["keys"] = max(r.worst["keys"], r.now()-began)
			return
		}
		if r.now()-began > r.bound(limit, began, r.now()) {
			r.violatef(ruleKeys, "%d keys, such as %q (%v); %s", len(left), left[:min(len(left), 3)], err, r.at())
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// closeOurs closes our Locker, once.
func (r *round) closeOurs() {
	r.mu.Lock()
	if r.closing > 0 {
		r.mu.Unlock()
		return
	}
	r.closing = r.now()
	r.mu.Unlock()
	const drains = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), drains)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if err := recover(); err != nil {
				r.violatef(rulePanic, "Close panicked: %v", err)
			}
		}()
		_ = r.ours.Close(ctx) // what it could not give back is looked for in Redis
	}()
	select {
	case <-done:
	case <-time.After(25 * time.Second):
	}
	took := r.now() - r.closing
	r.worst["close"] = max(r.worst["close"], took)
	if took > r.bound(drains+4*time.Second, r.closing, r.now()) {
		r.violatef(ruleClose, "%v; %s", took.Round(time.Millisecond), r.at())
	}
}

// close ends the round: no goroutine of a Locker or of a client may be left.
func (r *round) close() {
	if r.closing == 0 {
		r.closeOurs()
	}
	close(r.unblock)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if r.witness != nil {
		if err := r.witness.Close(ctx); !r.c.Closes { // otherwise the fault may have ended just now
			r.check(err)
		}
	}
	_ = r.client.Close() // a Sentinel client may say that a connection was closed
	for _, client := range r.others {
		_ = client.Close()
	}
	r.site.heal()
	r.background.Wait()
	r.faulting.Wait()
	began := r.now()
	for {
		left := goroutines()
		if len(left) == 0 {
			return
		}
		if r.now()-began > r.bound(2500*time.Millisecond, began, r.now()) {
			r.violatef(ruleGoroutines, "%d, such as:\n%s", len(left), left[0])
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// goroutines returns the stacks of goroutines that belong to a Locker or a client.
func goroutines() (left []string) {
	text := make([]byte, 1<<20)
	for {
		n := runtime.Stack(text, true)
		if n < len(text) {
			text = text[:n]
			break
		}
		text = make([]byte, 2*len(text))
	}
	for stack := range strings.SplitSeq(string(text), "\n\n") {
		ofOurs := strings.Contains(stack, "lockmw/kit/lockmw") || strings.Contains(stack, "lockmw/kit/internal/") || strings.Contains(stack, "redis/go-redis")
		aid := slices.ContainsFunc([]string{"kit/internal/test/faultproxy", "kit/internal/test/process", "kit/internal/test/redistest", "kit/internal/test/stalls", "kit/proof/combos."},
			func(name string) bool { return strings.Contains(stack, name) })
		// go-redis tries a server that was down once a second, and notices only
		// then that its pool is closed.
		if ofOurs && !aid && !strings.Contains(stack, "tryDial") {
			left = append(left, fmt.Sprintf("%.1200s", stack))
		}
	}
	return left
}
