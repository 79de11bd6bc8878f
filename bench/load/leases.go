package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/bench/library"
	"github.com/lockmw/kit/lockmw"
)

// leases is a load that holds locks and does nothing.
type leases struct {
	spec   Spec
	wire   *library.Wire
	client *redis.Client
	locks  *lockmw.Locker
	held   []*lockmw.Lease

	goroutines int   // before the library
	heap       int64 // before the leases
}

// hold returns a load that has all its leases.
func hold(ctx context.Context, s Spec, wire *library.Wire) (Job, error) {
	h := &leases{spec: s, wire: wire, client: library.NewClient(s.Addr, wire), goroutines: runtime.NumGoroutine()}
	var err error
	if h.locks, err = library.NewLockmw(h.client); err != nil {
		return nil, errors.Join(err, h.client.Close())
	}
	if err := h.take(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

const takers = 16 // leases are asked for at a time

func (h *leases) take(ctx context.Context) error {
	// Connections have buffers, which are no lease's: open them before.
	if err := errors.Join(h.acquire(ctx, takers), h.release(ctx)); err != nil {
		return err
	}
	h.heap = heap()
	return h.acquire(ctx, h.spec.Leases)
}

// acquire takes n leases.
func (h *leases) acquire(ctx context.Context, n int) error {
	h.held = make([]*lockmw.Lease, n)
	errs := make([]error, takers)
	var all sync.WaitGroup
	for t := range takers {
		all.Go(func() {
			for i := t; i < n && errs[t] == nil; i += takers {
				_, h.held[i], errs[t] = h.locks.Acquire(ctx, strconv.Itoa(i), lockmw.Policy{TTL: h.spec.TTL})
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// release releases them.
func (h *leases) release(ctx context.Context) error {
	errs := make([]error, takers)
	var all sync.WaitGroup
	for t := range takers {
		all.Go(func() {
			for i := t; i < len(h.held); i += takers {
				if h.held[i] != nil {
					errs[t] = errors.Join(errs[t], h.held[i].Release(ctx))
				}
			}
		})
	}
	all.Wait()
	h.held = nil
	return errors.Join(errs...)
}

func (h *leases) Run(_ context.Context, w Window) (Result, error) {
	most := make(chan int)
	done := make(chan struct{})
	go func() { most <- watch(done) }()
	use, err := measure(w, h.wire, h.spec.Profile)
	close(done)
	r := Result{
		Turns:  int64(len(h.held)),
		Allocs: use.allocs, CPU: use.cpu, Commands: use.commands,
		Connections: h.wire.Connections(),
		Goroutines:  <-most - h.goroutines - 1, // without the one that watches
		Heap:        heap() - h.heap,
	}
	for _, lease := range h.held {
		if !lease.Valid() {
			r.Errors++
			r.Error = fmt.Sprintf("the lease of %s was lost", lease.Key())
		}
	}
	return r, err
}

// watch returns the most goroutines that it has seen until done. It looks
// rarely enough not to show among the CPU that it stands beside.
func watch(done <-chan struct{}) (most int) {
	const pause = 100 * time.Millisecond
	look := time.NewTicker(pause)
	defer look.Stop()
	for {
		most = max(most, runtime.NumGoroutine())
		select {
		case <-look.C:
		case <-done:
			return most
		}
	}
}

// Close releases the leases.
func (h *leases) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = h.release(ctx) // Run has said which were lost
	return errors.Join(h.locks.Close(ctx), h.client.Close())
}
