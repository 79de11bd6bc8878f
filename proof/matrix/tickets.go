package matrix

import (
	"fmt"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/proof/worker"
)

// ticketPlaces is how many processes hand locks on to each other.
const ticketPlaces = 4

// tickets has a lane's four workers hand their locks on by tickets, while others of them ask for the same locks without one: six short ones, and one whose
// jobs are so long that they are renewed.
func (l *Lane) tickets() {
	l.places = ticketPlaces
	l.turnKeys = nil
	longer := long("hl", l.TTL)
	longer.Hands = 2
	l.load = []worker.Key{longer}
	for i := range 6 { // a ticket that is lost costs its lock three TTLs
		key := handed(fmt.Sprint("h", i), 1+i%2, 3+i%4)
		l.load, l.turnKeys = append(l.load, key), append(l.turnKeys, key.Name)
	}
}

// handOn lists what can happen to locks that are handed on while Redis keeps its word.
func handOn() []Kind {
	in := func(name string, do func(l *Lane)) Kind {
		return Kind{Name: "tickets: " + name, Needs: ticketed, Do: func(l *Lane) []string {
			do(l)
			return nil
		}}
	}
	loses := func(opts ...faultproxy.DropOption) func(l *Lane) {
		text := redisstore.Scripts()
		return func(l *Lane) { l.drop(5, faultproxy.MatchScript(text["handon"], text["resume"]), opts...) }
	}
	stops := func(share float64) func(l *Lane) {
		return func(l *Lane) {
			p := l.workers[l.place()]
			l.check(p.Stop())
			l.last(l.part(share))
			l.check(p.Cont())
		}
	}
	return []Kind{
		in("two workers killed, others come", func(l *Lane) {
			for _, place := range l.rnd.Perm(l.places)[:2] {
				l.workers[place].Kill()
				l.hire(place)
			}
		}),
		in("all workers killed one after the other", func(l *Lane) {
			for _, place := range l.rnd.Perm(l.places) {
				l.workers[place].Kill()
				l.hire(place)
				l.last(l.part(0.1))
			}
		}),
		in("a worker stopped, shorter than a ticket lasts", stops(1.5)),
		in("a worker stopped, longer than a ticket lasts", stops(ticketLasts*1.4)),
		in("replies to hand-ons and resumes lost", loses()),
		in("replies to hand-ons and resumes never come", loses(faultproxy.KeepOpen())),
		in("a worker partitioned", func(l *Lane) {
			p := l.proxies[l.place()]
			p.BlackHole(faultproxy.Both)
			l.last(l.part(1.5))
			p.Heal()
		}),
		in("connections cut again and again", func(l *Lane) {
			for range 8 {
				l.proxies[l.place()].Cut()
				l.last(l.TTL / 20)
			}
		}),
		in("Redis stopped, longer than the TTL", func(l *Lane) {
			l.check(l.redis.Stop())
			l.last(l.part(1.4))
			l.check(l.redis.Cont())
		}),
		in("each acquire cancelled within 50 ms", func(l *Lane) {
			d := l.part(1)
			l.check(l.workers[l.place()].Do(fmt.Sprint("cancel ", d)))
			l.last(d)
		}),
		in("a worker closes its Locker, another comes", func(l *Lane) {
			place := l.place()
			l.check(l.workers[place].End())
			l.hire(place)
		}),
	}
}

// ticketLasts is for how many TTLs a worker's ticket has the lock.
const ticketLasts = worker.TicketTTLs

// handOnForgetful lists what takes locks from those to whom they are handed on.
func handOnForgetful() []Kind {
	in := func(name string, do func(l *Lane, key string)) Kind {
		return Kind{Name: "tickets: " + name, Forgets: true, Needs: ticketedForgetful, Do: func(l *Lane) []string {
			l.forget(func() {
				for range 5 {
					do(l, l.nameNow(l.turnKeys[l.rnd.IntN(len(l.turnKeys))]))
					l.last(l.part(0.05))
				}
			})
			return nil
		}}
	}
	forced := in("an operator forces releases", (*Lane).force)
	forced.Ahead = aheadByForce
	return []Kind{
		forced,
		in("keys are deleted", func(l *Lane, key string) { l.do("DEL", redisKey(key)) }),
		in("keys are overwritten", func(l *Lane, key string) { l.do("SET", redisKey(key), "foreign", "PX", 50) }),
	}
}
