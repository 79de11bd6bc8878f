package combos

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockmw/kit/lockmw"
)

// observer behaves as the combination says.
func (r *round) observer() func(context.Context, lockmw.Event) {
	switch r.c.Observer {
	case slow:
		at := pick(r.rnd, lockmw.EventAcquired, lockmw.EventContended, lockmw.EventReleased, lockmw.EventReleased, lockmw.EventHandedOver, lockmw.EventRenewed)
		return func(ctx context.Context, e lockmw.Event) {
			if e.Kind != at || r.blockings.Add(-1) < 0 {
				return
			}
			if mark, ok := ctx.Value(markOf{}).(*atomic.Int32); ok {
				mark.Store(int32(e.Kind))
			}
			select {
			case <-time.After(observerBlocks):
			case <-r.unblock:
			}
		}
	case panicking:
		at := pick(r.rnd, lockmw.EventAcquired, lockmw.EventContended, lockmw.EventReleased, lockmw.EventRefused, lockmw.EventHandedOver, lockmw.EventRenewed)
		return func(_ context.Context, e lockmw.Event) {
			if e.Kind == at {
				panic("the observer panics")
			}
		}
	}
	return nil
}

const (
	observerBlocks = 1500 * time.Millisecond // for each of two events
	loggerBlocks   = 6 * time.Second         // from the first record on
)

// markOf is the key of a call's mark that an observer blocked on it.
type markOf struct{}

func (r *round) logger() *slog.Logger {
	switch r.c.Logger {
	case blocked:
		var once sync.Once
		until := make(chan struct{})
		return slog.New(handler{func() {
			once.Do(func() { time.AfterFunc(loggerBlocks, func() { close(until) }) })
			select {
			case <-until:
				return
			default:
			}
			r.logged.Add(1)
			select {
			case <-until:
			case <-r.unblock:
			}
		}})
	case panicking:
		return slog.New(handler{func() { panic("the logger panics") }})
	}
	return nil
}

// handler does something for each record.
type handler struct{ do func() }

func (handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (h handler) Handle(context.Context, slog.Record) error      { h.do(); return nil }
func (h handler) WithAttrs([]slog.Attr) slog.Handler             { return h }
func (h handler) WithGroup(string) slog.Handler                  { return h }
