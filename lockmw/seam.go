package lockmw

import (
	"github.com/lockmw/kit/internal/seam"
	"github.com/lockmw/kit/internal/store"
)

func init() { //nolint:gochecknoinits // lockmw imports seam, so it cannot be called from there
	seam.NewLocker = func(s store.Store) any {
		o, err := gather(nil)
		if err != nil {
			panic(err) // there is no option that could be wrong
		}
		return newLocker(s, o)
	}
	seam.RenewNow = func(locker any, key string) { locker.(*Locker).renewNow(key) }
}

// renewNow has the leases of key renewed at once.
func (l *Locker) renewNow(key string) {
	l.mu.Lock()
	var leases []*Lease
	for _, lease := range l.leases {
		if lease.ref.Key == key {
			leases = append(leases, lease)
		}
	}
	l.mu.Unlock()
	for _, lease := range leases {
		l.watchdog.hurry(lease)
	}
}
