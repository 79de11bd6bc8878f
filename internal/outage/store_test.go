package outage

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockmw/kit/internal/store"
)

// A panicking store does so with each command, as where its caller's context does.
type panicking struct{ store.Store }

func (panicking) Acquire(context.Context, store.Request) (store.Answer, error) { panic("spent") }

func (panicking) Release(context.Context, store.Give) (store.Released, store.Answer, error) {
	panic("spent")
}

func (panicking) AcquireAll(context.Context, []store.Ref, time.Time, func(bool, error)) ([]int64, error) {
	panic("spent")
}

// A several store takes several keys in one step.
type several struct{ panicking }

func (several) TakesSeveral() bool { return true }

// While a server is not reachable nobody is to ask for several keys in one step: each key knows what to do in an outage.
func TestSeveralKeysAreNotAskedForInAnOutage(t *testing.T) {
	watched(t, func(t *testing.T, o *Outage, p *pings, _ *atomic.Int64) {
		w, fault := &watchedStore{several{}, o}, error(refused)
		for _, tt := range []struct {
			says  *error
			takes bool
		}{{nil, true}, {&fault, false}, {nil, true}} {
			p.says.Store(tt.says)
			if tt.says != nil {
				s := o.of("a")
				s.sent("a")
				s.ended(context.Background(), fault)
			}
			time.Sleep(pingEvery)
			synctest.Wait()
			if got := w.TakesSeveral(); got != tt.takes {
				t.Errorf("TakesSeveral = %v, want %v", got, tt.takes)
			}
		}
	})
}

// Nobody waits for a command that has panicked: otherwise pings would go on for ever.
func TestACommandThatPanicsIsOver(t *testing.T) {
	ctx, ref := context.Background(), store.Ref{Key: "a"}
	for name, command := range map[string]func(w *watchedStore){
		"Acquire":    func(w *watchedStore) { _, _ = w.Acquire(ctx, store.Request{Ref: ref}) },
		"Release":    func(w *watchedStore) { _, _, _ = w.Release(ctx, store.Give{Ref: ref}) },
		"AcquireAll": func(w *watchedStore) { _, _ = w.AcquireAll(ctx, []store.Ref{ref}, time.Time{}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(t *testing.T, o *Outage, _ *pings, _ *atomic.Int64) {
				func() {
					defer func() { _ = recover() }()
					command(&watchedStore{panicking{}, o})
					t.Error("no panic")
				}()
				if n := o.of("a").asking.Load(); n != 0 {
					t.Errorf("%d commands are waited for, want none", n)
				}
			})
		})
	}
}
