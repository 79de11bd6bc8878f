package goroutines

import (
	"context"
	"net/http"
	"sync"
	"time"
)

type service struct {
	beats int
	last  func()
}

func (s *service) heartbeat(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.beats++
		case <-ctx.Done():
			return
		}
	}
}

func (s *service) untilItEnds(ctx context.Context) {
	for ctx.Err() == nil {
		s.beats++
	}
}

func (s *service) inTurn(ctx context.Context) { s.heartbeat(ctx) }

func (s *service) forGood(context.Context) {
	for {
		s.beats++
	}
}

// A goroutine whose function is declared elsewhere in the package.

func beats(ctx context.Context, s *service) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		go s.heartbeat(ctx)
		go s.untilItEnds(ctx)
		go s.inTurn(ctx)
		go func() { s.inTurn(ctx) }()
		return export(ctx)
	})
}

func beatsForGood(ctx context.Context, s *service) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		go s.heartbeat(ctx)
		go s.forGood(ctx) // want `the goroutine goes on when the lock is released`
		return export(ctx)
	})
}

// A goroutine of a group.

// A group is one such as errgroup's.
type group struct{ sync.WaitGroup }

func (g *group) Go(f func() error) { g.WaitGroup.Go(func() { _ = f() }) }

func (g *group) TryGo(f func() error) bool { g.Go(f); return true }

func inGroup(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		var all sync.WaitGroup
		all.Go(func() { _ = export(ctx) }) // want `the goroutine goes on when the lock is released`
		return nil
	})
}

func inGroupOfOthers(ctx context.Context, all *group) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		for range 3 {
			all.TryGo(func() error { return export(ctx) }) // want `the goroutine goes on when the lock is released`
		}
		return nil
	})
}

func inGroupAwaited(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		var all group
		defer all.Wait()
		all.Go(func() error { return export(ctx) })
		all.Go(func() error { return export(ctx) })
		return nil
	})
}

func inGroupUntilItEnds(ctx context.Context, s *service, all *group) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		all.Go(func() error { s.heartbeat(ctx); return nil })
		all.WaitGroup.Go(func() { s.heartbeat(ctx) })
		return export(ctx)
	})
}

// A scheduler has a Go that starts no goroutine of a group.
type scheduler struct{}

func (scheduler) Go(func()) {}

func scheduled(ctx context.Context, s scheduler) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		s.Go(func() { _ = export(ctx) })
		return nil
	})
}

// What is not waiting for the goroutine.

func waitsBefore(ctx context.Context, jobs <-chan int) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		<-jobs
		go export(ctx) // want `the goroutine goes on when the lock is released`
		return nil
	})
}

func pauses(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		go export(ctx) // want `the goroutine goes on when the lock is released`
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		<-time.After(time.Second)
		return nil
	})
}

func sends(ctx context.Context, done chan<- bool) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		go export(ctx) // want `the goroutine goes on when the lock is released`
		select {
		case done <- true:
		default:
		}
		return nil
	})
}

func inAnotherFunction(ctx context.Context, done <-chan bool) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		go export(ctx) // want `the goroutine goes on when the lock is released`
		context.AfterFunc(ctx, func() { <-done })
		wait := func() { <-done }
		go wait()
		return nil
	})
}

func inField(ctx context.Context, done <-chan bool, s *service) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		go export(ctx) // want `the goroutine goes on when the lock is released`
		s.last = func() { <-done }
		*s = service{last: func() { <-done }}
		return nil
	})
}

// What may well be waiting for it.

func waitsInFunction(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		done := make(chan error, 1)
		wait := func() error { return <-done }
		go func() { done <- export(ctx) }()
		return wait()
	})
}

func waitsInArgument(ctx context.Context, retry func(func() error) error) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		done := make(chan error, 1)
		go func() { done <- export(ctx) }()
		return retry(func() error { return <-done })
	})
}

func waitsAtLast(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		done := make(chan error, 1)
		defer func() { <-done }()
		go func() { done <- export(ctx) }()
		return nil
	})
}

func waitsInLoop(ctx context.Context) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		done := make(chan error, 1)
		done <- nil
		for range 3 {
			if err := <-done; err != nil {
				return err
			}
			go func() { done <- export(ctx) }()
		}
		return nil
	})
}

func worksUntilItEnds(ctx context.Context, srv *http.Server) error {
	return locks.WithLock(ctx, "42", policy, func(ctx context.Context) error {
		go func() { _ = srv.ListenAndServe() }()
		for {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return srv.Close()
			}
		}
	})
}
