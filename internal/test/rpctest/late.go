package rpctest

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/lockmw"
)

// leaseThatComesTooLateIsReleased: a handler that returns while another
// goroutine is in its RecvMsg, which gets the lock only then.
func leaseThatComesTooLateIsReleased(e *env) {
	acquired, over := make(chan struct{}, 2), make(chan struct{})
	e.Locks = e.NewLocker(lockmw.WithObserver(func(_ context.Context, ev lockmw.Event) {
		if ev.Kind == lockmw.EventAcquired { // in Acquire, before it returns
			acquired <- struct{}{}
			<-over
		}
	}))
	ends := make(chan error, 1)
	e.serve(&shop{chat: func(s chatting) error {
		go func() {
			_, err := s.Recv()
			ends <- err
		}()
		testenv.Receive(e.Env, "the lock", acquired)
		return nil
	}})
	s, cancel := e.open(ChatMethod, Order())
	defer cancel()
	e.finish(s)
	close(over)
	if err := testenv.Receive(e.Env, "the end of RecvMsg", ends); status.Code(err) != codes.Canceled {
		e.Errorf("RecvMsg: %v, want %v", err, codes.Canceled)
	}
	e.Until("the key is free", func() bool { return len(e.Left()) == 0 })
}
