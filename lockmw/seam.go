package lockmw

import (
	"github.com/lockmw/kit/internal/outage"
	"github.com/lockmw/kit/internal/recent"
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/store"
	"github.com/lockmw/kit/internal/waitqueue"
)

// What lockadmin and locktest may do with a Locker and users may not: package internal/seam has the functions as variables,
// so that this package exports none of them.

func init() { //nolint:gochecknoinits // lockmw imports seam, so it cannot be called from there
	seam.NewLocker = func(s store.Store, opts ...any) any {
		of := make([]Option, len(opts))
		for i, opt := range opts {
			of[i] = opt.(Option)
		}
		o, err := gather(of)
		if err != nil {
			panic(err) // the options are those of tests
		}
		return newLocker(s, o)
	}
	seam.RenewNow = func(locker any, key string) { locker.(*Locker).renewNow(key) }
	seam.Waiting = func(locker any, key string) int { return locker.(*Locker).waiting(key) }
	seam.Recent = func(locker any) *recent.Log { return &locker.(*Locker).recent }
	seam.Reaches = func(locker any) bool { return !locker.(*Locker).outage.Troubled() }
}

// renewNow has what is held of key renewed at once.
func (l *Locker) renewNow(key string) {
	for _, t := range l.tenuresOf(key) {
		l.watchdog.RenewNow(&t.renewal)
	}
}

// waiting returns how many calls of Acquire wait for key: in the queue, behind others of
// this Locker, or for Redis to be back.
func (l *Locker) waiting(key string) (n int) {
	away := l.outage.Prospect(key).Reach != outage.Reachable
	for _, state := range l.waiters.States(key) {
		if away || state != waitqueue.Asking {
			n++
		}
	}
	return n
}
