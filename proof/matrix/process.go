package matrix

import (
	"fmt"
	"slices"
)

// process lists what can happen to a worker process.
func process() []Kind {
	stop := func(share float64) func(*Lane) []string {
		return func(l *Lane) []string {
			p := l.workers[l.place()]
			l.check(p.Stop())
			l.last(l.part(share))
			l.check(p.Cont())
			return nil
		}
	}
	say := func(what string, share float64) func(*Lane) []string {
		return func(l *Lane) []string {
			d := l.part(share)
			l.check(l.workers[l.place()].Do(fmt.Sprintf("%s %v", what, d)))
			l.last(d)
			return nil
		}
	}
	return []Kind{
		{Name: "worker killed, another comes", Do: func(l *Lane) []string {
			place := l.place()
			l.workers[place].Kill()
			l.hire(place)
			return nil
		}},
		{Name: "worker stopped, shorter than the TTL", Do: stop(0.4)},
		{Name: "worker stopped, longer than the TTL", Do: stop(1.5)},
		{Name: "worker stopped and killed", Do: func(l *Lane) []string {
			place := l.place()
			l.check(l.workers[place].Stop())
			l.last(l.part(0.5))
			l.workers[place].Kill()
			l.hire(place)
			return nil
		}},
		{Name: "worker stopped, longer than the TTL, and killed when it goes on", Do: func(l *Lane) []string {
			place := l.place()
			l.check(l.workers[place].Stop())
			l.last(l.part(1.5))
			l.check(l.workers[place].Cont())
			l.workers[place].Kill()
			l.hire(place)
			return nil
		}},
		{Name: "worker closes its Locker, another comes", Do: func(l *Lane) []string {
			place := l.place()
			l.check(l.workers[place].End())
			l.hire(place)
			return nil
		}},
		{Name: "worker starved of processor time", Do: say("hog", 0.6)},
		{Name: "each acquire cancelled within 50 ms", Do: say("cancel", 1)},
		{Name: "worker stopped in a partition", Do: func(l *Lane) []string {
			place := l.place()
			l.proxies[place].Cut()
			l.proxies[place].Refuse(true)
			l.check(l.workers[place].Stop())
			l.last(l.part(1.3))
			l.proxies[place].Refuse(false)
			l.check(l.workers[place].Cont())
			return nil
		}},
	}
}

// processWithoutProxy lists those that need no proxy before the worker.
func processWithoutProxy() []Kind {
	return slices.DeleteFunc(process(), func(k Kind) bool { return k.Name == "worker stopped in a partition" })
}
