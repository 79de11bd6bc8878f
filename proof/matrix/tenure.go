package matrix

import (
	"fmt"
	"time"

	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/proof/clock"
	"github.com/lockmw/kit/proof/history"
	"github.com/lockmw/kit/proof/worker"
)

const tenureCrowd = 6 // goroutines

// tenureKey is the key of the crowd in a place.
func tenureKey(place int) string { return fmt.Sprint("t", place) }

// tenures has a lane's workers pass locks on within their processes: each process has a key on
// which many of its goroutines take turns, so that the lock passes from one to the next
// without Redis for as long as nobody else wants it. Now and then one of each other process
// does.
func (l *Lane) tenures() {
	l.turnKeys = nil
	for place := range l.places {
		l.turnKeys = append(l.turnKeys, tenureKey(place))
	}
	l.loadAt = func(at int) []worker.Key {
		load := []worker.Key{long("l1", l.TTL)} // the others are so short that at times nobody holds one
		for place, name := range l.turnKeys {
			key := worker.Key{Name: name, Kind: history.Mutex, Goroutines: 1, Least: time.Millisecond, Most: 3 * time.Millisecond, Think: l.TTL}
			if place == at {
				key.Goroutines, key.Think = tenureCrowd, 5*time.Millisecond
			}
			load = append(load, key)
		}
		return append(load, mostlyFree())
	}
}

// A passing is the last turns of a key, each of which had the fence that follows the one
// before: Redis was not asked between them.
type passing struct {
	last    history.Hold
	length  int
	longest int
}

// passes takes note of a hold. The caller holds mu.
func (l *Lane) passes(name string, h history.Hold) {
	p := l.passings[name]
	if p == nil {
		p = new(passing)
		l.passings[name] = p
	}
	if h.Key == p.last.Key && h.Worker == p.last.Worker && h.Fence == p.last.Fence+1 {
		p.length++
	} else {
		p.length = 0
	}
	p.last, p.longest = h, max(p.longest, p.length)
}

// tenure waits until the process in a place it draws passes its lock on by itself.
func (l *Lane) tenure() (place int, key string) {
	place = l.place()
	deadline := clock.Now() + l.patience()
	for {
		l.mu.Lock()
		if p := l.passings[tenureKey(place)]; p != nil && p.length >= 3 && p.last.Worker == l.workers[place].Config.Name && clock.Now()-p.last.Began < 20*time.Millisecond {
			key = p.last.Key
		}
		l.mu.Unlock()
		switch {
		case key != "":
			return place, key
		case clock.Now() > deadline:
			l.tb.Errorf("%s: no lock passes on within a process", l.Name)
			return place, l.nameNow(tenureKey(place))
		}
		time.Sleep(time.Millisecond)
	}
}

// tenure lists what can happen in the middle of a tenure while Redis keeps its word.
func tenure() []Kind {
	in := func(name string, do func(l *Lane, place int)) Kind {
		return Kind{Name: "tenure: " + name, Needs: tenured, Do: func(l *Lane) []string {
			place, _ := l.tenure()
			do(l, place)
			return nil
		}}
	}
	loses := func(match func([]byte) bool) func(*Lane, int) {
		return func(l *Lane, place int) {
			p := l.proxies[place]
			p.LoseMessages(match)
			l.last(l.part(2))
			p.LoseMessages(nil)
		}
	}
	return []Kind{
		in("holder's process killed", func(l *Lane, place int) {
			l.workers[place].Kill()
			l.hire(place)
		}),
		in("holder's process stopped for 1.5 TTL", func(l *Lane, place int) {
			l.check(l.workers[place].Stop())
			l.last(3 * l.TTL / 2)
			l.check(l.workers[place].Cont())
		}),
		in("holder's process partitioned", func(l *Lane, place int) {
			l.proxies[place].BlackHole(faultproxy.Both)
			l.last(l.part(1.5))
			l.proxies[place].Heal()
		}),
		in("messages of others who wait lost", loses(faultproxy.MessageOf("contended"))),
		in("all messages lost", loses(func([]byte) bool { return true })),
		in("subscriptions cut again and again", func(l *Lane, _ int) {
			for range 10 {
				l.do("CLIENT", "KILL", "TYPE", "pubsub")
				l.last(l.TTL / 20)
			}
		}),
		in("holder's connections cut", func(l *Lane, place int) { l.proxies[place].Cut() }),
		in("holder closes its Locker, another comes", func(l *Lane, place int) {
			l.check(l.workers[place].End())
			l.hire(place)
		}),
	}
}
