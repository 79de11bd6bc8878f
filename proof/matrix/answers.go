package matrix

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockmw/kit/internal/redisstore"
	"github.com/lockmw/kit/internal/test/faultproxy"
	"github.com/lockmw/kit/proof/worker"
)

// answers has a lane's workers ask for answers (lockmw.Do), each of which is one for all who ask for the same, in all workers. They ask by jobs, so
// that whoever asked in a worker that is killed asks again in another one. A key has another name, and so another answer, after half a TTL. Some ask for an answer that was made
// a while ago, some have another request under the same key, and some leave. Three keys have short work, and that of two is so long that its lock is renewed.
func (l *Lane) answers(uncertain bool) {
	l.epoch = l.TTL / 2
	l.turnKeys = nil
	l.load = []worker.Key{long("al0", l.TTL), long("al1", l.TTL)} // one of them is mostly held, whatever a busy machine does
	for i := range l.load {
		l.load[i].Think = l.TTL / 2
	}
	for i := range 3 {
		key := mostlyFree()
		key.Name, key.Think = fmt.Sprint("a", i), 400*time.Millisecond
		l.load, l.turnKeys = append(l.load, key), append(l.turnKeys, key.Name)
	}
	for i := range l.load {
		l.load[i].Asks, l.load[i].Uncertain = 4, uncertain
	}
}

// forAll lists what can happen to answers while Redis keeps its word, once with Crash: Uncertain and once with RunAgain.
func forAll() []Kind { return slices.Concat(forAllBy(answersUncertain), forAllBy(answersAgain)) }

func forAllBy(needs string) []Kind {
	var kinds []Kind
	in := func(name string, do func(l *Lane)) {
		kinds = append(kinds, Kind{Name: name, Do: func(l *Lane) []string {
			do(l)
			return nil
		}})
	}
	text := redisstore.Scripts()
	recalls, keeps := faultproxy.MatchScript(text["recall"]), faultproxy.MatchScript(text["keep"], text["keepto"])
	notes := func(request []byte) bool { return recalls(request) && hasArgument(request, "begin") }
	asks := func(request []byte) bool { return recalls(request) && !hasArgument(request, "begin") }
	in("a worker killed right behind asking", killAs(asks, true))
	if needs == answersUncertain {
		in("a worker killed right before its work is noted", killAs(notes, false))
		in("a worker killed right behind that", killAs(notes, true))
	}
	in("a worker killed in its work", func(l *Lane) {
		place := l.atWork()
		l.workers[place].Kill()
		l.hire(place)
	})
	in("a worker killed right before its answer is kept", killAs(keeps, false))
	in("a worker killed when its answer is kept", killAs(keeps, true))
	loses := func(opts ...faultproxy.DropOption) func(l *Lane) {
		return func(l *Lane) { l.drop(5, faultproxy.Any(recalls, keeps), opts...) }
	}
	in("replies to those who ask and keep lost", loses())
	in("replies to those who ask and keep never come", loses(faultproxy.KeepOpen()))
	for _, k := range slices.Concat(network(), connection(), server(), process()) {
		if slices.Contains(alsoForAll, k.Name) {
			kinds = append(kinds, k)
		}
	}
	for i := range kinds {
		kinds[i].Name, kinds[i].Needs = needs+": "+kinds[i].Name, needs
	}
	return kinds
}

// alsoForAll are kinds of other lists that are also done where answers are one for all.
var alsoForAll = []string{
	"partition, longer than the TTL",
	"requests arrive after the TTL",
	"connections cut again and again",
	"Redis stopped, longer than the TTL",
	"OOM",
	"Redis killed and restarted, with appendfsync always",
	"worker stopped, longer than the TTL",
	"worker stopped, longer than the TTL, and killed when it goes on",
	"worker closes its Locker, another comes",
	"each acquire cancelled within 50 ms",
}

// hasArgument reports whether a command has this argument.
func hasArgument(request []byte, argument string) bool {
	return slices.ContainsFunc(faultproxy.Args(request), func(arg []byte) bool { return bytes.Equal(arg, []byte(argument)) })
}

// killAs has a worker be killed when it has sent a command that is one of these, and another one come. Its reply reaches nobody; arrives says
// whether the command reaches Redis.
func killAs(is func(request []byte) bool, arrives bool) func(*Lane) {
	return func(l *Lane) {
		place := l.place()
		p := l.proxies[place]
		sent, killed := make(chan struct{}), make(chan struct{})
		tell := sync.OnceFunc(func() { close(sent) })
		p.Between(is, func(_, _ []byte) { tell(); <-killed })
		select {
		case <-sent:
		case <-time.After(l.patience()):
			l.tb.Errorf("%s: there was no such command", l.Name)
		}
		l.workers[place].Kill()
		if !arrives {
			p.BlackHole(faultproxy.ToServer)
		}
		close(killed)
		p.Between(nil, nil)
		l.last(l.TTL / 20) // whatever passes, or does not
		p.Heal()
		l.hire(place)
	}
}

// atWork returns the place of a worker that holds a lock.
func (l *Lane) atWork() int {
	l.awaitHolders()
	for _, place := range l.rnd.Perm(l.places) {
		if l.workers[place].Holds() {
			return place
		}
	}
	return l.place() // all have released theirs just now
}
